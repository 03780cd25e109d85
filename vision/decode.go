package vision

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"github.com/darkroom-rl/darkroom/outside/regular"
	"golang.org/x/image/webp"
)

// Limits bound the size of pictures. A zero field means its default.
type Limits struct {
	Bytes  int64 // of the file: 64 MiB
	Pixels int64 // width times height: 2^25, about 5800 x 5800
}

func (l Limits) filled() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 64 << 20
	}
	if l.Pixels <= 0 {
		l.Pixels = 1 << 25
	}
	return l
}

// maxSide keeps products of sizes far from overflow; no format of ours has larger pictures
// that fit Pixels in any sensible setting.
const maxSide = 1 << 20

// Open reads a picture file. Alpha is dropped, as training pipelines do; OpenRaster keeps it.
func Open(path string, l Limits) (*Image, error) {
	r, err := OpenRaster(path, l)
	if err != nil {
		return nil, err
	}
	return r.RGB(), nil
}

// OpenRaster reads a picture file with the channels that it has.
func OpenRaster(path string, l Limits) (*Raster, error) {
	data, err := regular.Read(path, l.filled().Bytes)
	if errors.Is(err, regular.ErrLarge) {
		err = fmt.Errorf("%w: store the picture smaller, or raise Limits.Bytes", err)
	}
	if err != nil {
		return nil, err
	}
	r, err := DecodeRaster(data, l)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Decode reads a PNG, JPEG, GIF or WebP picture and drops alpha. Of a GIF the first frame
// is read.
func Decode(data []byte, l Limits) (*Image, error) {
	r, err := DecodeRaster(data, l)
	if err != nil {
		return nil, err
	}
	return r.RGB(), nil
}

// SizeOf is a picture's width and height, as its header says.
func SizeOf(data []byte) (width, height int, err error) {
	f := formatOf(data)
	if f == nil {
		return 0, 0, fmt.Errorf("neither PNG, JPEG, GIF nor WebP: convert it to one of them")
	}
	sizes, err := f.sizes(data)
	if err != nil || len(sizes) == 0 {
		return 0, 0, fmt.Errorf("reading the header of a %s: %w", f.name, err)
	}
	return sizes[0].X, sizes[0].Y, nil
}

// OpenSize is SizeOf of a file, of which no more is read than it takes.
func OpenSize(path string) (width, height int, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	head, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return 0, 0, err
	}
	if width, height, err = SizeOf(head); err == nil {
		return width, height, nil
	}
	whole, err := regular.Read(path, Limits{}.filled().Bytes)
	if err == nil {
		width, height, err = SizeOf(whole)
	}
	return width, height, err
}

// DecodeRaster reads a picture with the channels that it has.
func DecodeRaster(data []byte, l Limits) (*Raster, error) {
	l = l.filled()
	if int64(len(data)) > l.Bytes {
		return nil, fmt.Errorf("%d bytes, more than the %d that are allowed: store the picture smaller, or raise Limits.Bytes", len(data), l.Bytes)
	}
	f := formatOf(data)
	if f == nil {
		return nil, fmt.Errorf("neither PNG, JPEG, GIF nor WebP: convert it to one of them")
	}
	sizes, err := f.sizes(data)
	if err != nil {
		return nil, fmt.Errorf("reading the header of a %s: %w", f.name, err)
	}
	for _, s := range sizes {
		if s.X <= 0 || s.Y <= 0 {
			return nil, fmt.Errorf("a %s of %d x %d pixels: it holds no picture", f.name, s.X, s.Y)
		}
		if s.X > maxSide || s.Y > maxSide || int64(s.X)*int64(s.Y) > l.Pixels {
			return nil, fmt.Errorf("a %s of %d x %d pixels, more than the %d that are allowed: make it smaller, or raise Limits.Pixels", f.name, s.X, s.Y, l.Pixels)
		}
	}
	if f.name == "JPEG" {
		if err := jpegWork(data, sizes[0].X, sizes[0].Y); err != nil {
			return nil, fmt.Errorf("a JPEG of %w", err)
		}
	}
	m, err := f.decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decoding a %s: %w", f.name, err)
	}
	if m.Bounds().Empty() {
		return nil, fmt.Errorf("a %s without pixels", f.name)
	}
	return rasterOf(m), nil
}

// A format reads one kind of file. sizes says all that its decoder will allocate for, from
// headers alone.
type format struct {
	name   string
	is     func(data []byte) bool
	sizes  func(data []byte) ([]image.Point, error)
	decode func(io.Reader) (image.Image, error)
}

func formatOf(data []byte) *format {
	for _, f := range []format{
		{"PNG", begins(pngMagic), config(png.DecodeConfig), png.Decode},
		{"JPEG", begins("\xff\xd8"), config(jpeg.DecodeConfig), jpeg.Decode},
		{"GIF", begins("GIF8"), config(gif.DecodeConfig), gif.Decode},
		{"WebP", isWebP, webpSizes, webp.Decode},
	} {
		if f.is(data) {
			return &f
		}
	}
	return nil
}

func begins(magic string) func([]byte) bool {
	return func(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) }
}

func config(read func(io.Reader) (image.Config, error)) func([]byte) ([]image.Point, error) {
	return func(data []byte) ([]image.Point, error) {
		c, err := read(bytes.NewReader(data))
		return []image.Point{{X: c.Width, Y: c.Height}}, err
	}
}

// A WebP file is a list of chunks: "RIFF" size "WEBP", then name, size and data of each,
// padded to an even length. An extended file says the size of its canvas first, and the
// picture in it says its own size once more; a decoder allocates by both, and nothing makes
// them agree.

func isWebP(data []byte) bool {
	return len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP"
}

// webpSizes are the canvas and the sizes of all pictures in it.
func webpSizes(data []byte) ([]image.Point, error) {
	c, err := webp.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	sizes := []image.Point{{X: c.Width, Y: c.Height}}
	for rest := data[12:]; len(rest) >= 8; {
		name, size := string(rest[:4]), int64(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[8:]
		switch {
		case name == "ANIM" || name == "ANMF":
			return nil, errors.New("it is animated: store its frames as a GIF or as PNG files")
		case name == "VP8 " && len(body) >= 10:
			w, h := binary.LittleEndian.Uint16(body[6:]), binary.LittleEndian.Uint16(body[8:])
			sizes = append(sizes, image.Pt(int(w&0x3fff), int(h&0x3fff)))
		case name == "VP8L" && len(body) >= 5:
			bits := binary.LittleEndian.Uint32(body[1:])
			sizes = append(sizes, image.Pt(int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1))
		}
		if size += size & 1; size > int64(len(body)) {
			break
		}
		rest = body[size:]
	}
	return sizes, nil
}

// Card: a progressive JPEG refines its picture scan by scan, and each scan visits every block, though
// it may take 54 bytes of the file. So the work of a JPEG is its scans times its pixels, which its
// header says nothing of: 174 KB can take 15 s, and 64 MB hours. Scans are counted before anything is
// decoded. The bytes FF DA begin one; within compressed data FF is never followed by DA, and those of
// a thumbnail are counted too, which errs on the safe side.
//
// Invariant (test): no file takes more than mostVisits, about half a second.

// mostVisits is how many pixels the scans of a JPEG visit at most: 128 scans of the largest picture
// that is read by default. Encoders write about ten.
const mostVisits = 1 << 32

// jpegWork refuses a JPEG whose scans would visit too many pixels.
func jpegWork(data []byte, width, height int) error {
	scans := int64(bytes.Count(data, []byte{0xff, 0xda}))
	if pixels := int64(width) * int64(height); scans*pixels > mostVisits {
		return fmt.Errorf("%d scans of %d x %d pixels: no encoder writes that many: save the picture again", scans, width, height)
	}
	return nil
}
