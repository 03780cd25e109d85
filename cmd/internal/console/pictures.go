package console

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color/palette"
	"image/draw"
	"image/png"
	"io"
	"os"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
)

// Pictures in the terminal, where it can show them: by Kitty's protocol, iTerm2's, or as Sixel. Nothing is asked of
// the terminal, which might not answer: the environment decides, and DARKROOM_PICTURES (kitty, iterm, sixel, off)
// over it. Pipes, tmux and screen, which do not pass them on, get no pictures.

// A protocol writes a picture.
type protocol func(w io.Writer, m image.Image) error

// protocols are all, by the names of DARKROOM_PICTURES.
var protocols = map[string]protocol{"kitty": writeKitty, "iterm": writeITerm, "sixel": writeSixel}

// protocolOf says which a terminal understands; nil: none that is known.
func protocolOf(env func(string) string) protocol {
	if asked := env("DARKROOM_PICTURES"); asked != "" {
		return protocols[asked]
	}
	term, program := env("TERM"), env("TERM_PROGRAM")
	switch {
	case env("TMUX") != "" || strings.HasPrefix(term, "screen") || strings.HasPrefix(term, "tmux"):
		return nil
	case env("KITTY_WINDOW_ID") != "" || term == "xterm-kitty" || term == "xterm-ghostty" || program == "ghostty":
		return writeKitty
	case program == "iTerm.app" || program == "WezTerm" || env("LC_TERMINAL") == "iTerm2":
		return writeITerm
	case strings.HasPrefix(term, "foot") || strings.HasPrefix(term, "mlterm") || strings.Contains(term, "sixel"):
		return writeSixel
	}
	return nil
}

// mostInline is how wide a picture is in a terminal, in pixels: about 100 characters.
const mostInline = 900

// ShowPicture shows a PNG file where w is a terminal that can. A terminal that cannot is not a failure: the file is
// there.
func ShowPicture(w io.Writer, path string) {
	if !terminal(w) {
		return
	}
	write := protocolOf(os.Getenv)
	if write == nil {
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return
	}
	m, err := vision.Decode(data, vision.Limits{})
	if err != nil {
		return
	}
	if m.Width > mostInline {
		if m, err = m.Resize(mostInline, max(1, m.Height*mostInline/m.Width), vision.Lanczos); err != nil {
			return
		}
	}
	out := behind(w) // past the writer that takes escapes away: these are our own
	if write(out, m) == nil {
		fmt.Fprintln(out)
	}
}

// encoded is the picture as a PNG file in base64.
func encoded(m image.Image) (text string, size int, err error) {
	var b bytes.Buffer
	err = png.Encode(&b, m)
	return base64.StdEncoding.EncodeToString(b.Bytes()), b.Len(), err
}

// writeKitty is https://sw.kovidgoyal.net/kitty/graphics-protocol: pieces of 4096 bytes, no answers wanted (q=2).
func writeKitty(w io.Writer, m image.Image) error {
	text, _, err := encoded(m)
	if err != nil {
		return err
	}
	var b strings.Builder
	for first := true; first || text != ""; first = false {
		piece := text[:min(4096, len(text))]
		text = text[len(piece):]
		more, head := 0, ""
		if text != "" {
			more = 1
		}
		if first {
			head = "a=T,f=100,q=2,"
		}
		fmt.Fprintf(&b, "\x1b_G%sm=%d;%s\x1b\\", head, more, piece)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// writeITerm is https://iterm2.com/documentation-images.html.
func writeITerm(w io.Writer, m image.Image) error {
	text, size, err := encoded(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\x1b]1337;File=inline=1;size=%d;preserveAspectRatio=1:%s\a", size, text)
	return err
}

// writeSixel is DEC's format: bands of six rows, of each colour a line of characters whose six bits are pixels, with
// repeated characters counted (VT330/VT340 Programmer Reference Manual, chapter 14). Colours are 256 fixed ones, with
// Floyd and Steinberg's dithering.
func writeSixel(w io.Writer, m image.Image) error {
	at := m.Bounds()
	indexed := image.NewPaletted(image.Rect(0, 0, at.Dx(), at.Dy()), palette.Plan9)
	draw.FloydSteinberg.Draw(indexed, indexed.Rect, m, at.Min)
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "\x1bP0;1q\"1;1;%d;%d", at.Dx(), at.Dy())
	for i, c := range indexed.Palette {
		r, g, b, _ := c.RGBA()
		fmt.Fprintf(out, "#%d;2;%d;%d;%d", i, r*100/0xffff, g*100/0xffff, b*100/0xffff)
	}
	for y := 0; y < at.Dy(); y += 6 {
		writeBand(out, indexed, y)
	}
	fmt.Fprint(out, "\x1b\\")
	return out.Flush()
}

// writeBand writes six rows: every colour that they have goes over them once.
func writeBand(out *bufio.Writer, m *image.Paletted, y int) {
	rows := min(6, m.Rect.Dy()-y)
	var has [256]bool
	for dy := range rows {
		for x := range m.Rect.Dx() {
			has[m.ColorIndexAt(x, y+dy)] = true
		}
	}
	for c, used := range has {
		if !used {
			continue
		}
		fmt.Fprintf(out, "#%d", c)
		last, n := byte(0), 0
		for x := range m.Rect.Dx() {
			bits := byte(0)
			for dy := range rows {
				if int(m.ColorIndexAt(x, y+dy)) == c {
					bits |= 1 << dy
				}
			}
			if n > 0 && bits != last {
				writeSixels(out, last, n)
				n = 0
			}
			last, n = bits, n+1
		}
		writeSixels(out, last, n)
		out.WriteByte('$') // back to the band's left end
	}
	out.WriteByte('-') // to the next band
}

// writeSixels writes a character n times.
func writeSixels(out *bufio.Writer, bits byte, n int) {
	if n > 3 {
		fmt.Fprintf(out, "!%d%c", n, '?'+bits)
		return
	}
	for range n {
		out.WriteByte('?' + bits)
	}
}
