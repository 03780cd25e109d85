package video

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"io"
)

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
