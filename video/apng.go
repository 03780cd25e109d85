package video

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// Card: APNG (PNG specification, third edition). acTL announces an animation; fcTL before a
// frame gives its rectangle, its delay as a fraction of a second, its disposal and its blending with the canvas; a
// frame's data is in IDAT if it is also the still picture, else in fdAT with a sequence number before the bytes. Each
// frame is made a PNG of its own, which the standard library decodes.

// APNG is the container. A plain PNG is a clip of one frame.
var APNG = Container{Name: "PNG", Card: "Animated PNG: every pixel as it is, and a picture for programs that know no animation.",
	Endings: []string{".png", ".apng"}, Picture: ".png", Magic: pngMagic, Decode: decodeAPNG, Encode: EncodeAPNG}

const pngMagic = "\x89PNG\r\n\x1a\n"

// A chunk is a part of a PNG file; data lies in it.
type chunk struct {
	name string
	data []byte
}

// nextChunk takes one chunk off a file.
func nextChunk(rest []byte) (c chunk, after []byte, err error) {
	if len(rest) < 12 {
		return c, nil, errors.New("it ends without an end: the file is damaged")
	}
	size := int64(binary.BigEndian.Uint32(rest))
	if size > int64(len(rest)-12) {
		return c, nil, fmt.Errorf("chunk %q is cut short: the file is damaged", rest[4:8])
	}
	if crc32.ChecksumIEEE(rest[4:8+size]) != binary.BigEndian.Uint32(rest[8+size:]) {
		return c, nil, fmt.Errorf("chunk %q has a wrong checksum: the file is damaged", rest[4:8])
	}
	return chunk{string(rest[4:8]), rest[8 : 8+size]}, rest[12+size:], nil
}

func appendChunk(out []byte, name string, data []byte) []byte {
	out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
	from := len(out)
	out = append(append(out, name...), data...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[from:]))
}

// part is a frame as the file holds it.
type part struct {
	rect          image.Rectangle
	delay         float64 // seconds
	dispose, over byte
	data          []byte
}

// apng is a file taken apart.
type apng struct {
	header   []byte  // IHDR
	colours  []chunk // PLTE and tRNS: frames share them
	parts    []part
	animated bool
}

func decodeAPNG(data []byte, l Limits) (*Clip, error) {
	a, err := takeApart(data, l)
	if err != nil {
		return nil, err
	}
	c := &Clip{Width: int(binary.BigEndian.Uint32(a.header)), Height: int(binary.BigEndian.Uint32(a.header[4:]))}
	canvas := newCanvas(c.Width, c.Height)
	seconds := 0.0
	for i, p := range a.parts {
		m, err := png.Decode(bytes.NewReader(a.alone(p)))
		if err != nil {
			return nil, fmt.Errorf("frame %d: %w", i, err)
		}
		before := canvas
		if p.dispose == 2 {
			before = canvas.clone()
		}
		canvas.paint(p.rect, colours(m), p.over != 0)
		c.Frames = append(c.Frames, canvas.frame())
		switch p.dispose {
		case 1:
			canvas.clear(p.rect)
		case 2:
			canvas = before
		}
		seconds += p.delay
	}
	if a.animated && seconds > 0 {
		c.Rate = nearestRate(float64(len(c.Frames)) / seconds)
	}
	return c, c.Check()
}

// colours reads a decoded frame's pixels from its corner on, with a fast path for the most common types.
func colours(m image.Image) func(x, y int) color.NRGBA {
	b := m.Bounds()
	switch m := m.(type) {
	case *image.RGBA: // opaque, where the decoder makes one
		return func(x, y int) color.NRGBA {
			p := m.Pix[y*m.Stride+4*x:][:4]
			return color.NRGBA{p[0], p[1], p[2], p[3]}
		}
	case *image.NRGBA:
		return func(x, y int) color.NRGBA {
			p := m.Pix[y*m.Stride+4*x:][:4]
			return color.NRGBA{p[0], p[1], p[2], p[3]}
		}
	}
	return func(x, y int) color.NRGBA {
		return color.NRGBAModel.Convert(m.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA)
	}
}

// nearestRate writes a rate as a fraction: whole, a half, by 1001 as television has it, or the
// nearest thousandth.
func nearestRate(fps float64) Rate {
	for _, den := range []int{1, 2, 1001, 1000} {
		num := math.Round(fps * float64(den))
		exact := den == 1000 || math.Abs(num/float64(den)-fps) < 1e-6*fps
		if num >= 1 && num < math.MaxInt32 && exact {
			return Rate{int(num), den}.reduced()
		}
	}
	return Rate{}
}

// takeApart finds the frames, and refuses those that are too large or too many.
func takeApart(data []byte, l Limits) (*apng, error) {
	first, rest, err := nextChunk(data[len(pngMagic):])
	if err != nil {
		return nil, err
	}
	if first.name != "IHDR" || len(first.data) != 13 {
		return nil, errors.New("it does not begin with its header: the file is damaged")
	}
	a := &apng{header: first.data}
	w, h := binary.BigEndian.Uint32(first.data), binary.BigEndian.Uint32(first.data[4:])
	if w > maxSide || h > maxSide {
		return nil, l.check(maxSide+1, maxSide+1, 1)
	}
	width, height := int(w), int(h)
	if err := l.check(width, height, 1); err != nil {
		return nil, err
	}
	var still []byte
	for {
		var c chunk
		if c, rest, err = nextChunk(rest); err != nil {
			return nil, err
		}
		switch c.name {
		case "PLTE", "tRNS":
			a.colours = append(a.colours, c)
		case "acTL":
			a.animated = true
		case "fcTL":
			p, err := readControl(c.data, width, height)
			if err != nil {
				return nil, err
			}
			if err := l.check(width, height, len(a.parts)+1); err != nil {
				return nil, err
			}
			a.parts = append(a.parts, p)
		case "IDAT":
			if len(a.parts) > 0 {
				a.add(c.data)
			} else {
				still = append(still, c.data...)
			}
		case "fdAT":
			if len(a.parts) == 0 || len(c.data) < 4 {
				return nil, errors.New("a frame's data without a frame: the file is damaged")
			}
			a.add(c.data[4:])
		case "IEND":
			if len(a.parts) == 0 || !a.animated {
				for _, p := range a.parts {
					still = append(still, p.data...)
				}
				a.parts = []part{{rect: image.Rect(0, 0, width, height), data: still}}
			}
			return a, nil
		}
	}
}

func (a *apng) add(data []byte) {
	p := &a.parts[len(a.parts)-1]
	p.data = append(p.data, data...)
}

// readControl reads an fcTL.
func readControl(b []byte, width, height int) (p part, err error) {
	if len(b) != 26 {
		return p, errors.New("a frame's header has a wrong length: the file is damaged")
	}
	var n [4]int64 // width, height, x, y
	for i := range n {
		n[i] = int64(binary.BigEndian.Uint32(b[4+4*i:]))
	}
	if n[0] < 1 || n[1] < 1 || n[2]+n[0] > int64(width) || n[3]+n[1] > int64(height) {
		return p, fmt.Errorf("a frame of %d x %d at (%d, %d) in a picture of %d x %d: the file is damaged", n[0], n[1], n[2], n[3], width, height)
	}
	p.rect = image.Rect(int(n[2]), int(n[3]), int(n[2]+n[0]), int(n[3]+n[1]))
	num, den := float64(binary.BigEndian.Uint16(b[20:])), float64(binary.BigEndian.Uint16(b[22:]))
	if den == 0 {
		den = 100
	}
	p.delay, p.dispose, p.over = num/den, b[24], b[25]
	return p, nil
}

// alone is a frame as a PNG file.
func (a *apng) alone(p part) []byte {
	header := bytes.Clone(a.header)
	binary.BigEndian.PutUint32(header, uint32(p.rect.Dx()))
	binary.BigEndian.PutUint32(header[4:], uint32(p.rect.Dy()))
	out := appendChunk([]byte(pngMagic), "IHDR", header)
	for _, c := range a.colours {
		out = appendChunk(out, c.name, c.data)
	}
	return appendChunk(appendChunk(out, "IDAT", p.data), "IEND", nil)
}

// EncodeAPNG writes a clip without loss. Its delays are exact for rates whose parts fit 16
// bits.
func EncodeAPNG(w io.Writer, c *Clip) error {
	if err := c.Check(); err != nil {
		return err
	}
	rate := c.Rate.or(usual).reduced()
	if rate.Num > 65535 || rate.Den > 65535 {
		rate = Rate{int(min(max(rate.FPS()*100, 1), 65535)), 100}
	}
	out := []byte(pngMagic)
	sequence := uint32(0)
	next := func() []byte { sequence++; return binary.BigEndian.AppendUint32(nil, sequence-1) }
	for i, f := range c.Frames {
		header, data, err := compressed(f, c.Width, c.Height)
		if err != nil {
			return err
		}
		if i == 0 {
			out = appendChunk(out, "IHDR", header)
			count := binary.BigEndian.AppendUint32(nil, uint32(len(c.Frames)))
			out = appendChunk(out, "acTL", append(count, 0, 0, 0, 0)) // for ever
		}
		control := next()
		for _, v := range []int{c.Width, c.Height, 0, 0} {
			control = binary.BigEndian.AppendUint32(control, uint32(v))
		}
		control = binary.BigEndian.AppendUint16(control, uint16(rate.Den))
		control = binary.BigEndian.AppendUint16(control, uint16(rate.Num))
		out = appendChunk(out, "fcTL", append(control, 0, 0))
		if i == 0 {
			out = appendChunk(out, "IDAT", data)
		} else {
			out = appendChunk(out, "fdAT", append(next(), data...))
		}
	}
	_, err := w.Write(appendChunk(out, "IEND", nil))
	return err
}

// compressed is a frame's header and data as the standard library writes them.
func compressed(frame []uint8, width, height int) (header, data []byte, err error) {
	var file bytes.Buffer
	if err := encodePNG(&file, frame, width, height); err != nil {
		return nil, nil, err
	}
	rest := file.Bytes()[len(pngMagic):]
	for len(rest) > 0 {
		var c chunk
		if c, rest, err = nextChunk(rest); err != nil {
			return nil, nil, err
		}
		switch c.name {
		case "IHDR":
			header = c.data
		case "IDAT":
			data = append(data, c.data...)
		}
	}
	return header, data, nil
}

// encodePNG writes one frame.
func encodePNG(w io.Writer, frame []uint8, width, height int) error {
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		copy(m.Pix[4*i:], frame[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	return png.Encode(w, m)
}

// Plays reports whether a file is a PNG that plays: one with an animation, as runs keep their clips. An unreadable file
// does not; opening it returns the error.
func Plays(path string) bool {
	data, err := regular.Read(path, Limits{}.filled().Bytes)
	if err != nil || !bytes.HasPrefix(data, []byte(pngMagic)) {
		return false
	}
	for rest := data[len(pngMagic):]; ; {
		c, after, err := nextChunk(rest)
		if err != nil || c.name == "IDAT" {
			return false
		}
		if c.name == "acTL" {
			return true
		}
		rest = after
	}
}
