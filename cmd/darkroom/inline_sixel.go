package main

import (
	"bufio"
	"fmt"
	"image"
	"image/color/palette"
	"image/draw"
	"io"
)

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
