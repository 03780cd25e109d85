package video

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Card: YUV4MPEG2, uncompressed frames that ffmpeg and mplayer exchange. A header line of
// words by letter (W width, H height, F rate, C colours), then for each frame a line FRAME and
// the planes Y, Cb, Cr. Colours are ITU-R BT.601, in 16..235 and 16..240 unless the header
// says XCOLORRANGE=FULL. 8 bits in 4:2:0, 4:2:2, 4:4:4 and mono are read; smaller chroma is
// repeated, wherever its samples sit. Clips are written as 4:4:4, which turns a byte by two
// at most.

// Y4M is the container.
var Y4M = Container{Name: "Y4M", Card: "YUV4MPEG2: uncompressed frames, for other programs.", Endings: []string{".y4m"}, Magic: y4mMagic, Decode: decodeY4M, Encode: EncodeY4M}

const y4mMagic = "YUV4MPEG2"

type y4m struct {
	width, height int
	rate          Rate
	across, down  int // pixels a chroma sample; 0 for none
	full          bool
}

func decodeY4M(data []byte, l Limits) (*Clip, error) { return readY4M(bytes.NewReader(data), l) }

// readY4M reads a stream to its end, and takes memory for a frame when it has come.
func readY4M(from io.Reader, l Limits) (*Clip, error) {
	r := bufio.NewReaderSize(from, 1<<16)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("the header line has no end: %w", err)
	}
	h, err := readY4MHeader(string(line[:len(line)-1]))
	if err != nil {
		return nil, err
	}
	if err := l.check(h.width, h.height, 1); err != nil {
		return nil, err
	}
	c := &Clip{Width: h.width, Height: h.height, Rate: h.rate}
	var planes bytes.Buffer
	for {
		mark, err := r.ReadSlice('\n')
		if err == io.EOF && len(mark) == 0 {
			return c, c.Check()
		}
		if err != nil || !bytes.HasPrefix(mark, []byte("FRAME")) {
			return nil, fmt.Errorf("frame %d does not begin with FRAME: the file is damaged", len(c.Frames))
		}
		if err := l.check(h.width, h.height, len(c.Frames)+1); err != nil {
			return nil, err
		}
		planes.Reset()
		if n, err := io.CopyN(&planes, r, int64(h.size())); err != nil {
			return nil, fmt.Errorf("frame %d is cut short: %d of %d bytes: %w", len(c.Frames), n, h.size(), err)
		}
		c.Frames = append(c.Frames, h.frame(planes.Bytes()))
	}
}

func readY4MHeader(line string) (*y4m, error) {
	h := &y4m{across: 2, down: 2}
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != y4mMagic {
		return nil, fmt.Errorf("the header line does not begin with %s", y4mMagic)
	}
	for _, word := range words[1:] {
		var err error
		switch key, value := word[0], word[1:]; key {
		case 'W':
			h.width, err = strconv.Atoi(value)
		case 'H':
			h.height, err = strconv.Atoi(value)
		case 'F':
			num, den, _ := strings.Cut(value, ":")
			var n, d int
			if n, err = strconv.Atoi(num); err == nil {
				d, err = strconv.Atoi(den)
			}
			if n > 0 && d > 0 && n < 1<<31 && d < 1<<31 {
				h.rate = Rate{n, d}.reduced()
			}
		case 'C':
			err = h.colours(value)
		case 'X':
			if value == "COLORRANGE=FULL" {
				h.full = true
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%q in the header: %w", word, err)
		}
	}
	return h, nil
}

func (h *y4m) colours(name string) error {
	switch name {
	case "420", "420jpeg", "420mpeg2", "420paldv":
		h.across, h.down = 2, 2
	case "422":
		h.across, h.down = 2, 1
	case "444":
		h.across, h.down = 1, 1
	case "mono":
		h.across, h.down = 0, 0
	default:
		return errors.New("only 420, 422, 444 and mono of 8 bits are read: ffmpeg -i CLIP -pix_fmt yuv444p out.y4m")
	}
	return nil
}

// chroma is the size of a smaller plane.
func (h *y4m) chroma() (width, height int) {
	if h.across == 0 {
		return 0, 0
	}
	return (h.width + h.across - 1) / h.across, (h.height + h.down - 1) / h.down
}

func (h *y4m) size() int {
	w, n := h.chroma()
	return h.width*h.height + 2*w*n
}

// frame turns planes into RGB.
func (h *y4m) frame(planes []byte) []uint8 {
	out := make([]uint8, 3*h.width*h.height)
	w, n := h.chroma()
	luma, cb, cr := planes[:h.width*h.height], planes[h.width*h.height:], planes[h.width*h.height+w*n:]
	for y := range h.height {
		for x := range h.width {
			u, v := uint8(128), uint8(128)
			if w > 0 {
				at := y/h.down*w + x/h.across
				u, v = cb[at], cr[at]
			}
			p := out[3*(y*h.width+x):][:3]
			p[0], p[1], p[2] = toRGB(luma[y*h.width+x], u, v, h.full)
		}
	}
	return out
}

// toRGB is BT.601 in 16.16 fixed point.
func toRGB(y, u, v uint8, full bool) (r, g, b uint8) {
	l, cb, cr := int(y)<<16, int(u)-128, int(v)-128
	kr, kgu, kgv, kb := 91881, 22554, 46802, 116130 // 1.402, 0.344136, 0.714136, 1.772
	if !full {
		l = (int(y) - 16) * 76309                       // 255/219
		kr, kgu, kgv, kb = 104597, 25675, 53279, 132201 // times 255/224
	}
	return byte16(l + kr*cr), byte16(l - kgu*cb - kgv*cr), byte16(l + kb*cb)
}

func byte16(v int) uint8 { return uint8(min(max((v+1<<15)>>16, 0), 255)) }

// fromRGB is its inverse in the smaller range.
func fromRGB(r, g, b uint8) (y, u, v uint8) {
	x, z, w := int(r), int(g), int(b)
	return byte16(16<<16 + 16829*x + 33039*z + 6416*w),
		byte16(128<<16 - 9714*x - 19071*z + 28784*w + 1),
		byte16(128<<16 + 28784*x - 24103*z - 4681*w)
}

// EncodeY4M writes a clip as 4:4:4.
func EncodeY4M(w io.Writer, c *Clip) error {
	if err := c.Check(); err != nil {
		return err
	}
	rate := c.Rate.or(usual)
	if _, err := fmt.Fprintf(w, "%s W%d H%d F%d:%d Ip A1:1 C444 XCOLORRANGE=LIMITED\n", y4mMagic, c.Width, c.Height, rate.Num, rate.Den); err != nil {
		return err
	}
	n := c.Width * c.Height
	planes := make([]byte, 3*n)
	for _, f := range c.Frames {
		for i := range n {
			planes[i], planes[n+i], planes[2*n+i] = fromRGB(f[3*i], f[3*i+1], f[3*i+2])
		}
		if _, err := io.WriteString(w, "FRAME\n"); err != nil {
			return err
		}
		if _, err := w.Write(planes); err != nil {
			return err
		}
	}
	return nil
}
