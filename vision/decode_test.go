package vision

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/outside/spent"
)

// webpPixel is a lossless WebP file of one pixel, red 1, green 2, blue 3 being unimportant.
var webpPixel = []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00")

func encoded(t testing.TB, m image.Image, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch format {
	case "png":
		err = png.Encode(&b, m)
	case "jpeg":
		err = jpeg.Encode(&b, m, &jpeg.Options{Quality: 95})
	case "gif":
		err = gif.Encode(&b, m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestDecodeKinds: every kind of PNG that the standard library can make comes back with the
// channels and bytes that it was made of.
func TestDecodeKinds(t *testing.T) {
	const w, h = 5, 3
	b := image.Rect(0, 0, w, h)
	opaque, gray, deep := image.NewRGBA(b), image.NewGray(b), image.NewGray16(b)
	alpha, wide := image.NewNRGBA(b), image.NewNRGBA64(b)
	pal := image.NewPaletted(b, color.Palette{color.RGBA{1, 2, 3, 255}, color.RGBA{200, 100, 50, 255}})
	for i := range w * h {
		x, y := i%w, i/w
		v := uint8(hash(i))
		opaque.Set(x, y, color.RGBA{v, v / 2, v / 3, 255})
		gray.Set(x, y, color.Gray{v})
		deep.Set(x, y, color.Gray16{uint16(v)<<8 | 0x3c})
		alpha.Set(x, y, color.NRGBA{v, 255 - v, 7, uint8(i * 16)})
		wide.Set(x, y, color.NRGBA64{uint16(v)<<8 | 0xff, uint16(255-v) << 8, 7 << 8, uint16(i*16)<<8 | 1})
		pal.SetColorIndex(x, y, uint8(i%2))
	}
	for name, c := range map[string]struct {
		m        image.Image
		channels int
		pixel    func(i int) []uint8
	}{
		"RGB":         {opaque, 3, func(i int) []uint8 { v := uint8(hash(i)); return []uint8{v, v / 2, v / 3} }},
		"gray":        {gray, 1, func(i int) []uint8 { return []uint8{uint8(hash(i))} }},
		"16-bit gray": {deep, 1, func(i int) []uint8 { return []uint8{uint8(hash(i))} }},
		"alpha":       {alpha, 4, func(i int) []uint8 { v := uint8(hash(i)); return []uint8{v, 255 - v, 7, uint8(i * 16)} }},
		"16-bit":      {wide, 4, func(i int) []uint8 { v := uint8(hash(i)); return []uint8{v, 255 - v, 7, uint8(i * 16)} }},
		"paletted":    {pal, 3, func(i int) []uint8 { return [][]uint8{{1, 2, 3}, {200, 100, 50}}[i%2] }},
	} {
		r, err := DecodeRaster(encoded(t, c.m, "png"), Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Width != w || r.Height != h || r.Channels != c.channels {
			t.Errorf("%s: %d x %d x %d", name, r.Width, r.Height, r.Channels)
			continue
		}
		for i := range w * h {
			if got := r.Pix[i*c.channels : (i+1)*c.channels]; !bytes.Equal(got, c.pixel(i)) {
				t.Errorf("%s: pixel %d is %v, want %v", name, i, got, c.pixel(i))
				break
			}
		}
	}
}

func TestDecodeFormats(t *testing.T) {
	m := NewFilled(16, 8, color.RGBA{255, 0, 0, 255}) // GIF's palette has it
	for _, format := range []string{"png", "jpeg", "gif"} {
		got, err := Decode(encoded(t, m, format), Limits{})
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		for i, v := range got.Pix {
			allowed := map[string]int{"png": 0, "jpeg": 3, "gif": 0}[format]
			if d := int(v) - int(m.Pix[i]); d > allowed || d < -allowed {
				t.Fatalf("%s: byte %d is %d, want %d", format, i, v, m.Pix[i])
			}
		}
	}
	if got, err := Decode(webpPixel, Limits{}); err != nil || got.Width != 1 || got.Height != 1 {
		t.Errorf("WebP: %v, %v", got, err)
	}
}

// header is a PNG that claims a size and holds nothing.
func header(width, height uint32) []byte {
	body := binary.BigEndian.AppendUint32([]byte("IHDR"), width)
	body = append(binary.BigEndian.AppendUint32(body, height), 8, 2, 0, 0, 0)
	out := append([]byte(pngMagic), 0, 0, 0, 13)
	return binary.BigEndian.AppendUint32(append(out, body...), crc32.ChecksumIEEE(body))
}

// TestDecodeRefuses: every mistake is named with its remedy, and before memory is taken.
func TestDecodeRefuses(t *testing.T) {
	large := encoded(t, image.NewGray(image.Rect(0, 0, 100, 100)), "png")
	gifBomb := encoded(t, image.NewPaletted(image.Rect(0, 0, 1, 1), color.Palette{color.Black, color.White}), "gif")
	copy(gifBomb[6:], "\xff\xff\xff\xff")
	canvas := []byte("RIFF\x30\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x07\x00\x00VP8L\x05\x00\x00\x00\x2f\xff\xff\xff\x0f\x00")
	for name, c := range map[string]struct {
		data []byte
		l    Limits
		says []string
	}{
		"nothing":           {nil, Limits{}, []string{"PNG, JPEG, GIF nor WebP"}},
		"a text":            {[]byte("hello"), Limits{}, []string{"convert it"}},
		"too many bytes":    {large, Limits{Bytes: 10}, []string{"Limits.Bytes"}},
		"too many pixels":   {large, Limits{Pixels: 99}, []string{"100 x 100", "99", "Limits.Pixels"}},
		"a bomb":            {header(1<<31-1, 1<<31-1), Limits{}, []string{"PNG"}},
		"a wide bomb":       {header(100000, 100000), Limits{}, []string{"100000 x 100000", "Limits.Pixels"}},
		"a bomb in a GIF":   {gifBomb, Limits{}, []string{"65535 x 65535"}},
		"a bomb in a WebP":  {canvas, Limits{}, []string{"16384 x 16384"}},
		"cut short":         {large[:len(large)-20], Limits{}, []string{"decoding a PNG"}},
		"cut in the header": {large[:20], Limits{}, []string{"header of a PNG"}},
		"animated WebP":     {[]byte(string(canvas[:30]) + "ANIM\x00\x00\x00\x00"), Limits{}, []string{"animated", "PNG files"}},
	} {
		_, err := Decode(c.data, c.l)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", name, err, s)
			}
		}
	}
}

func TestOpenNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "broken.png")
	if err := os.WriteFile(path, []byte("no picture"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, dir, filepath.Join(dir, "absent.png")} {
		if _, err := Open(p, Limits{}); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := Open(path, Limits{Bytes: 3}); err == nil || !strings.Contains(err.Error(), "Limits.Bytes") {
		t.Errorf("a file of too many bytes: %v", err)
	}
}

// FuzzDecode: whatever bytes come, a picture within the limits or an error.
func FuzzDecode(f *testing.F) {
	m := noise(7, 5, 4)
	n := image.NewNRGBA(image.Rect(0, 0, 7, 5))
	copy(n.Pix, m.Pix)
	for _, format := range []string{"png", "jpeg", "gif"} {
		f.Add(encoded(f, n, format))
	}
	f.Add(webpPixel)
	f.Add(header(1<<20, 1<<20))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := Limits{Bytes: 1 << 16, Pixels: 1 << 16}
		r, err := DecodeRaster(data, l)
		if err != nil {
			return
		}
		if r.Width <= 0 || r.Height <= 0 || int64(r.Width)*int64(r.Height) > l.Pixels || len(r.Pix) != r.Width*r.Height*r.Channels {
			t.Errorf("%d x %d x %d with %d bytes", r.Width, r.Height, r.Channels, len(r.Pix))
		}
	})
}

// progressive is a JPEG of one grey with this number of scans, each of which visits all blocks and changes nothing:
// of a run of blocks at their end.
func progressive(width, height, scans int) []byte {
	var b bytes.Buffer
	segment := func(marker byte, body ...byte) {
		b.Write([]byte{0xff, marker, byte((len(body) + 2) >> 8), byte(len(body) + 2)})
		b.Write(body)
	}
	b.Write([]byte{0xff, 0xd8})
	table := bytes.Repeat([]byte{1}, 64)
	segment(0xdb, append([]byte{0}, table...)...)
	segment(0xc2, 8, byte(height>>8), byte(height), byte(width>>8), byte(width), 1, 1, 0x11, 0)
	huffman := func(class byte, symbol byte) { // one code, 0, for one symbol
		body := append([]byte{class, 1}, make([]byte, 15)...)
		segment(0xc4, append(body, symbol)...)
	}
	huffman(0x00, 0)    // a difference of 0
	huffman(0x10, 0xe0) // the end of 2^14 + n blocks
	for i := range scans {
		if i == 0 {
			segment(0xda, 1, 1, 0x00, 0, 0, 0) // DC of each block, a bit each
			b.Write(make([]byte, width*height/64/8+1))
			continue
		}
		segment(0xda, 1, 1, 0x00, 1, 63, 0)
		b.Write(make([]byte, (width*height/64/(1<<14)+1)*2))
	}
	b.Write([]byte{0xff, 0xd9})
	return b.Bytes()
}

// TestScans: a JPEG of many scans costs no more than its limit; one that is within it is read.
func TestScans(t *testing.T) {
	if m, err := Decode(progressive(64, 64, 10), Limits{}); err != nil || m.Width != 64 {
		t.Fatal(err)
	}
	begun := spent.CPU()
	bomb := progressive(2048, 2048, 3000)
	_, err := Decode(bomb, Limits{})
	if err == nil || !strings.Contains(err.Error(), "3000 scans") || spent.CPU()-begun > 10*time.Second {
		t.Errorf("%d bytes, %v of the CPU: %v", len(bomb), spent.CPU()-begun, err)
	}
	var plain bytes.Buffer
	if err := jpeg.Encode(&plain, image.NewGray(image.Rect(0, 0, 64, 64)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(plain.Bytes(), Limits{}); err != nil {
		t.Error(err)
	}
}
