package video

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"io"
)

// Card: GIF89a. Frames are rectangles of palette colours, painted one over the other; a
// frame's delay is in hundredths of a second, and its disposal before the next: it stays, its rectangle is cleared, or
// the earlier canvas comes back. A Clip has one rate: frames by the sum of their delays. As browsers do, a delay below
// 2 means 10.

func decodeGIF(data []byte, l Limits) (*Clip, error) {
	if err := scanGIF(data, l); err != nil {
		return nil, err
	}
	g, err := gif.DecodeAll(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	c := &Clip{Width: g.Config.Width, Height: g.Config.Height}
	total := 0
	canvas := newCanvas(c.Width, c.Height)
	for i, m := range g.Image {
		r := m.Rect.Intersect(image.Rect(0, 0, c.Width, c.Height))
		before := canvas
		if g.Disposal[i] == gif.DisposalPrevious {
			before = canvas.clone()
		}
		inks := inksOf(m.Palette)
		canvas.paint(r, func(x, y int) color.NRGBA { return inks[m.Pix[m.PixOffset(r.Min.X+x, r.Min.Y+y)]] }, true)
		c.Frames = append(c.Frames, canvas.frame())
		switch g.Disposal[i] {
		case gif.DisposalPrevious:
			canvas = before
		case gif.DisposalBackground:
			canvas.clear(r)
		}
		if delay := g.Delay[i]; delay < 2 {
			total += 10
		} else {
			total += delay
		}
	}
	c.Rate = Rate{100 * len(c.Frames), total}.reduced()
	return c, c.Check()
}

// inksOf returns a palette; colours beyond it are transparent.
func inksOf(p color.Palette) (inks [256]color.NRGBA) {
	for i, c := range p[:min(len(p), 256)] {
		inks[i] = color.NRGBAModel.Convert(c).(color.NRGBA)
	}
	return inks
}

// scanGIF walks through the blocks without decompressing any, and adds up the decoder's memory: a frame costs its own
// rectangle and the canvas.
func scanGIF(data []byte, l Limits) error {
	r := bytes.NewReader(data)
	var head [13]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return errors.New("the header is cut short")
	}
	width, height := int(binary.LittleEndian.Uint16(head[6:])), int(binary.LittleEndian.Uint16(head[8:]))
	skipPalette := func(flags byte) { skip(r, 3<<(flags&7+1)*int(flags>>7)) }
	skipPalette(head[10])
	for frames := 0; ; {
		kind, err := r.ReadByte()
		switch {
		case err != nil || kind == 0x3b:
			if frames == 0 {
				return errors.New("it has no frames")
			}
			return l.check(width, height, frames)
		case kind == 0x21:
			skip(r, 1)
		case kind == 0x2c:
			var d [9]byte
			if _, err := io.ReadFull(r, d[:]); err != nil {
				return errors.New("a frame's header is cut short")
			}
			frames++
			if err := l.check(width, height, frames); err != nil {
				return err
			}
			skipPalette(d[8])
			skip(r, 1)
		default:
			return fmt.Errorf("a block of kind %#x: the file is damaged", kind)
		}
		for n := 1; n > 0; { // sub-blocks: a length, then that number of bytes
			b, err := r.ReadByte()
			if err != nil {
				break
			}
			n = int(b)
			skip(r, n)
		}
	}
}

func skip(r *bytes.Reader, n int) { _, _ = r.Seek(int64(n), io.SeekCurrent) }

// EncodeGIF writes a clip with one palette: exact where it has at most 256 colours, else of
// the colours that median cut finds. GIF's clock counts hundredths of a second, so the rate is the nearest, 50 frames a
// second at most.
func EncodeGIF(w io.Writer, c *Clip) error {
	if err := c.Check(); err != nil {
		return err
	}
	if c.Width > 65535 || c.Height > 65535 {
		return fmt.Errorf("a GIF of %d x %d pixels: sides of at most 65535 are possible", c.Width, c.Height)
	}
	p := paletteOf(c.Frames)
	g := &gif.GIF{Config: image.Config{ColorModel: p.colours, Width: c.Width, Height: c.Height}}
	fps := c.Rate.or(usual).FPS()
	shown := 0
	for i, f := range c.Frames {
		m := image.NewPaletted(image.Rect(0, 0, c.Width, c.Height), p.colours)
		p.index(m.Pix, f)
		until := max(int(float64(100*(i+1))/fps+0.5), shown+2)
		g.Image, g.Delay = append(g.Image, m), append(g.Delay, min(until-shown, 65535))
		shown = until
	}
	return gif.EncodeAll(w, g)
}
