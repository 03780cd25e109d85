package console

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/color/palette"
	"image/png"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// gradient is a picture that needs several pieces and bands.
func gradient() *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, 140, 90))
	for y := range 90 {
		for x := range 140 {
			m.Set(x, y, color.RGBA{uint8(3 * x), uint8(5 * y), uint8(x * y * y), 255})
		}
	}
	return m
}

// same fails unless text is the picture as a PNG file in base64.
func samePNG(t *testing.T, text string, want image.Image) {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for y := range want.Bounds().Dy() {
		for x := range want.Bounds().Dx() {
			if fmt.Sprint(got.At(x, y).RGBA()) != fmt.Sprint(want.At(x, y).RGBA()) {
				t.Fatalf("(%d, %d) is %v", x, y, got.At(x, y))
			}
		}
	}
}

// TestInline: each protocol's bytes are read back as the picture.
func TestInline(t *testing.T) {
	m := gradient()
	var b strings.Builder
	if err := writeKitty(&b, m); err != nil {
		t.Fatal(err)
	}
	pieces := regexp.MustCompile("\x1b_G((?:a=T,f=100,q=2,)?)m=([01]);([^\x1b]*)\x1b\\\\").FindAllStringSubmatch(b.String(), -1)
	text := ""
	for i, p := range pieces {
		if (i == 0) != (p[1] != "") || (i == len(pieces)-1) != (p[2] == "0") || len(p[3]) > 4096 {
			t.Errorf("piece %d of %d begins %q, m=%s, %d bytes", i, len(pieces), p[1], p[2], len(p[3]))
		}
		text += p[3]
	}
	if len(pieces) < 2 {
		t.Errorf("%d pieces", len(pieces))
	}
	samePNG(t, text, m)

	b.Reset()
	if err := writeITerm(&b, m); err != nil {
		t.Fatal(err)
	}
	parts := regexp.MustCompile("^\x1b]1337;File=inline=1;size=(\\d+);preserveAspectRatio=1:([^\a]*)\a$").FindStringSubmatch(b.String())
	if parts == nil {
		t.Fatalf("%.80q", b.String())
	}
	if n, _ := strconv.Atoi(parts[1]); base64.StdEncoding.DecodedLen(len(parts[2]))-n > 2 {
		t.Errorf("size %s", parts[1])
	}
	samePNG(t, parts[2], m)
}

// TestSixel reads the bytes as a terminal does: a picture whose colours are in the palette comes back exactly.
func TestSixel(t *testing.T) {
	m := image.NewPaletted(image.Rect(0, 0, 31, 20), palette.Plan9)
	for i := range m.Pix {
		m.Pix[i] = uint8(i / 7 * 31 % 256)
	}
	var b strings.Builder
	if err := writeSixel(&b, m); err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(b.String(), "\x1bP0;1q\"1;1;31;20")
	text, end := strings.CutSuffix(text, "\x1b\\")
	if !ok || !end {
		t.Fatalf("%.60q", b.String())
	}
	text = regexp.MustCompile(`#\d+;2;\d+;\d+;\d+`).ReplaceAllString(text, "")
	got := map[[2]int]string{}
	x, y, c := 0, 0, ""
	for _, token := range regexp.MustCompile(`#\d+|![0-9]+[?-~]|[?-~]|\$|-`).FindAllString(text, -1) {
		switch token[0] {
		case '#':
			c = token[1:]
		case '$':
			x = 0
		case '-':
			x, y = 0, y+6
		default:
			n := 1
			if token[0] == '!' {
				n, _ = strconv.Atoi(token[1 : len(token)-1])
			}
			for range n {
				for bit := range 6 {
					if (token[len(token)-1]-'?')>>bit&1 == 1 {
						got[[2]int{x, y + bit}] = c
					}
				}
				x++
			}
		}
	}
	for y := range 20 {
		for x := range 31 {
			want := m.At(x, y)
			n, err := strconv.Atoi(got[[2]int{x, y}])
			if err != nil || palette.Plan9[n] != want {
				t.Fatalf("(%d, %d) is colour %q, not %v", x, y, got[[2]int{x, y}], want)
			}
		}
	}
	if len(got) != 31*20 {
		t.Errorf("%d pixels", len(got))
	}
}

// TestProtocol: which terminals are shown pictures, and that pipes are not.
func TestProtocol(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"TERM": "xterm-256color"}, ""}, {map[string]string{"TERM": "xterm-kitty"}, "kitty"}, {map[string]string{"TERM_PROGRAM": "iTerm.app"}, "iterm"},
		{map[string]string{"TERM": "foot"}, "sixel"}, {map[string]string{"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, ""}, {map[string]string{"TERM": "xterm-kitty", "DARKROOM_PICTURES": "off"}, ""},
		{map[string]string{"TMUX": "x", "DARKROOM_PICTURES": "sixel"}, "sixel"}, {map[string]string{}, ""},
	} {
		got := protocolOf(func(name string) string { return c.env[name] })
		name := ""
		for n, p := range protocols {
			if got != nil && fmt.Sprintf("%p", p) == fmt.Sprintf("%p", got) {
				name = n
			}
		}
		if name != c.want {
			t.Errorf("%v: %q, not %q", c.env, name, c.want)
		}
	}
	t.Setenv("DARKROOM_PICTURES", "kitty")
	var b strings.Builder
	if ShowPicture(&b, "inline_test.go"); b.Len() > 0 {
		t.Error("a picture is written where there is no terminal")
	}
}
