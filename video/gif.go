package video

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"io"
	"slices"
)

// Card: GIF89a. Frames are rectangles of palette colours, painted one over the other; a
// frame's delay is in hundredths of a second, and its disposal before the next: it stays, its rectangle is cleared, or
// the earlier canvas comes back. A Clip has one rate: frames by the sum of their delays. As browsers do, a delay below
// 2 means 10.

// GIF is the container.
var GIF = Container{Name: "GIF", Card: "GIF89a: palettes of 256 colours, delays of whole hundredths.", Endings: []string{".gif"}, Magic: "GIF8", Decode: decodeGIF, Encode: EncodeGIF}

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

// Card: median cut (Heckbert, 1982). The box of colours that is longest, by its spread times
// the square root of its pixels' number, is cut where half of its pixels lie on either side,
// until there are 256; a box becomes its mean colour. Colours are counted with 5 bits a
// channel where there are more than 256 of them.

type palette struct {
	colours color.Palette
	exact   map[[3]uint8]uint8 // where all colours have a place
	coarse  []uint8            // by 5 bits a channel, else
}

// counted is a colour, or the sum of colours that are alike.
type counted struct {
	sum [3]int
	n   int
}

func (c counted) mean(i int) int { return c.sum[i] / c.n }

func coarse(r, g, b uint8) int { return int(r)>>3<<10 | int(g)>>3<<5 | int(b)>>3 }

func paletteOf(frames [][]uint8) *palette {
	p := &palette{exact: map[[3]uint8]uint8{}}
	bins := make([]counted, 1<<15)
	for _, f := range frames {
		for i := 0; i < len(f); i += 3 {
			c := [3]uint8{f[i], f[i+1], f[i+2]}
			bin := &bins[coarse(c[0], c[1], c[2])]
			bin.n++
			for j, v := range c {
				bin.sum[j] += int(v)
			}
			if p.exact != nil {
				p.exact[c] = 0
				if len(p.exact) > 256 {
					p.exact = nil
				}
			}
		}
	}
	if p.exact != nil {
		for _, c := range sortedKeys(p.exact) {
			p.exact[c] = uint8(len(p.colours))
			p.colours = append(p.colours, color.RGBA{c[0], c[1], c[2], 255})
		}
		return p
	}
	p.cut(bins)
	return p
}

func sortedKeys(m map[[3]uint8]uint8) [][3]uint8 {
	var keys [][3]uint8
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [3]uint8) int { return slices.Compare(a[:], b[:]) })
	return keys
}

// cut makes 256 colours, and says for each coarse colour which of them it becomes.
func (p *palette) cut(bins []counted) {
	var used []int
	for i, b := range bins {
		if b.n > 0 {
			used = append(used, i)
		}
	}
	boxes := [][]int{used}
	for len(boxes) < 256 {
		best, axis, score := -1, 0, 0.0
		for i, box := range boxes {
			if a, s := spread(bins, box); s > score {
				best, axis, score = i, a, s
			}
		}
		if best < 0 {
			break
		}
		box := boxes[best]
		slices.SortFunc(box, func(a, b int) int { return cmp.Compare(bins[a].mean(axis), bins[b].mean(axis)) })
		half := 0
		for _, i := range box {
			half += bins[i].n
		}
		at, below := 0, 0
		for below < half/2 && at < len(box)-1 {
			below += bins[box[at]].n
			at++
		}
		at = max(at, 1)
		boxes[best] = box[:at]
		boxes = append(boxes, box[at:])
	}
	p.coarse = make([]uint8, len(bins))
	for i, box := range boxes {
		var all counted
		for _, j := range box {
			all.n += bins[j].n
			for k := range all.sum {
				all.sum[k] += bins[j].sum[k]
			}
			p.coarse[j] = uint8(i)
		}
		p.colours = append(p.colours, color.RGBA{uint8(all.mean(0)), uint8(all.mean(1)), uint8(all.mean(2)), 255})
	}
}

// spread is a box's longest axis, and how much it deserves to be cut there.
func spread(bins []counted, box []int) (axis int, score float64) {
	n := 0
	lo, hi := [3]int{255, 255, 255}, [3]int{}
	for _, i := range box {
		n += bins[i].n
		for k := range 3 {
			lo[k], hi[k] = min(lo[k], bins[i].mean(k)), max(hi[k], bins[i].mean(k))
		}
	}
	for k := range 3 {
		if d := float64(hi[k] - lo[k]); len(box) > 1 && d*d*float64(n) > score {
			axis, score = k, d*d*float64(n)
		}
	}
	return axis, score
}

// index says which colour each pixel becomes.
func (p *palette) index(dst, frame []uint8) {
	for i := range dst {
		r, g, b := frame[3*i], frame[3*i+1], frame[3*i+2]
		if p.exact != nil {
			dst[i] = p.exact[[3]uint8{r, g, b}]
		} else {
			dst[i] = p.coarse[coarse(r, g, b)]
		}
	}
}
