package vision

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/webp"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// Limits bound what a picture may cost. A zero field means its default.
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
