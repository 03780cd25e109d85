package vision

import (
	"fmt"
	"image"
	"image/color"
	"math"
)

// An Image is an 8-bit RGB picture: Pix holds Height rows of Width pixels of three bytes,
// with no gap. It is a draw.Image, so that the standard library can read and paint it.
type Image struct {
	Width, Height int
	Pix           []uint8
}

// New is a black picture. Sizes that are not positive, or that no memory holds, panic: check requests of strangers
// first.
func New(width, height int) *Image {
	return &Image{width, height, make([]uint8, bytesOf(width, height, 3))}
}

// NewFilled is a picture of one colour.
func NewFilled(width, height int, c color.RGBA) *Image {
	m := New(width, height)
	m.Fill(m.Bounds(), c)
	return m
}

func bytesOf(width, height, channels int) int {
	if width <= 0 || height <= 0 || width > math.MaxInt/4/height {
		panic(fmt.Sprintf("vision: a picture of %d x %d", width, height))
	}
	return width * height * channels
}

// Row is row y's bytes.
func (m *Image) Row(y int) []uint8 {
	n := 3 * m.Width
	return m.Pix[y*n : (y+1)*n : (y+1)*n]
}

// Clone is a copy.
func (m *Image) Clone() *Image {
	return &Image{m.Width, m.Height, append([]uint8(nil), m.Pix...)}
}

// Raster is a view of m with its number of channels.
func (m *Image) Raster() *Raster { return &Raster{m.Width, m.Height, 3, m.Pix} }

// Fill paints a rectangle, as far as it lies in the picture.
func (m *Image) Fill(r image.Rectangle, c color.RGBA) {
	r = r.Intersect(m.Bounds())
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row := m.Row(y)[3*r.Min.X : 3*r.Max.X]
		for i := 0; i < len(row); i += 3 {
			row[i], row[i+1], row[i+2] = c.R, c.G, c.B
		}
	}
}

// Paste copies a picture so that its corner comes to (x, y), as far as there is room.
func (m *Image) Paste(from *Image, x, y int) {
	r := from.Bounds().Add(image.Pt(x, y)).Intersect(m.Bounds())
	if r.Empty() {
		return
	}
	for ty := r.Min.Y; ty < r.Max.Y; ty++ {
		copy(m.Row(ty)[3*r.Min.X:3*r.Max.X], from.Row(ty - y)[3*(r.Min.X-x):])
	}
}

// Enlarge repeats each pixel times x times: whole numbers alone, nothing is interpolated.
func (m *Image) Enlarge(times int) *Image {
	if times == 1 {
		return m.Clone()
	}
	big := New(m.Width*times, m.Height*times)
	for y := range m.Height {
		first := big.Row(y * times)
		for x := range m.Width {
			p := m.Pix[3*(y*m.Width+x):]
			for i := range times {
				copy(first[3*(x*times+i):], p[:3])
			}
		}
		for i := 1; i < times; i++ {
			copy(big.Row(y*times+i), first)
		}
	}
	return big
}

// ColorModel, Bounds, At, Set and Opaque make m a draw.Image.
func (m *Image) ColorModel() color.Model { return color.RGBAModel }

func (m *Image) Bounds() image.Rectangle { return image.Rect(0, 0, m.Width, m.Height) }

func (m *Image) Opaque() bool { return true }

func (m *Image) At(x, y int) color.Color {
	if !image.Pt(x, y).In(m.Bounds()) {
		return color.RGBA{}
	}
	p := m.Pix[3*(y*m.Width+x):]
	return color.RGBA{p[0], p[1], p[2], 255}
}

// Set keeps no alpha: a translucent colour is laid on black.
func (m *Image) Set(x, y int, c color.Color) {
	if !image.Pt(x, y).In(m.Bounds()) {
		return
	}
	r, g, b, _ := c.RGBA()
	p := m.Pix[3*(y*m.Width+x):]
	p[0], p[1], p[2] = uint8(r>>8), uint8(g>>8), uint8(b>>8)
}

// A Raster is an 8-bit picture of one channel (gray), three (RGB) or four (RGB and alpha,
// colours not multiplied by it), row-major, channels last.
type Raster struct {
	Width, Height, Channels int
	Pix                     []uint8
}

// NewRaster is a picture of zeros. Sizes must be positive.
func NewRaster(width, height, channels int) *Raster {
	return &Raster{width, height, channels, make([]uint8, bytesOf(width, height, channels))}
}

// Row is row y's bytes.
func (r *Raster) Row(y int) []uint8 {
	n := r.Channels * r.Width
	return r.Pix[y*n : (y+1)*n : (y+1)*n]
}

// RGB drops alpha, whatever colours it hid, and repeats gray: as Pillow's convert("RGB") does. Three channels share
// their memory with the result.
func (r *Raster) RGB() *Image {
	if r.Channels == 3 {
		return &Image{r.Width, r.Height, r.Pix}
	}
	m := New(r.Width, r.Height)
	for i := range r.Width * r.Height {
		p, q := r.Pix[i*r.Channels:], m.Pix[3*i:3*i+3]
		if r.Channels == 1 {
			q[0], q[1], q[2] = p[0], p[0], p[0]
		} else {
			copy(q, p[:3])
		}
	}
	return m
}

// Over lays the picture on a colour by its alpha: the mean by alpha/255, half rounded up.
func (r *Raster) Over(back color.RGBA) *Image {
	m := r.RGB()
	if r.Channels != 4 {
		return m
	}
	b := [3]int{int(back.R), int(back.G), int(back.B)}
	for i := range r.Width * r.Height {
		a := int(r.Pix[4*i+3])
		for c := range 3 {
			m.Pix[3*i+c] = uint8((2*(a*int(m.Pix[3*i+c])+(255-a)*b[c]) + 255) / 510)
		}
	}
	return m
}

// rasterOf copies a decoded picture. Of 16-bit channels the upper byte is kept.
func rasterOf(m image.Image) *Raster {
	b := m.Bounds()
	switch m := m.(type) {
	case *image.Gray:
		r := NewRaster(b.Dx(), b.Dy(), 1)
		for y := range r.Height {
			copy(r.Row(y), m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):])
		}
		return r
	case *image.Gray16:
		return pixels(b, 1, func(p []uint8, x, y int) { p[0] = m.Pix[m.PixOffset(x, y)] })
	case *image.NRGBA:
		r := NewRaster(b.Dx(), b.Dy(), 4)
		for y := range r.Height {
			copy(r.Row(y), m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):])
		}
		return r
	case *image.NRGBA64:
		return pixels(b, 4, func(p []uint8, x, y int) {
			q := m.Pix[m.PixOffset(x, y):]
			p[0], p[1], p[2], p[3] = q[0], q[2], q[4], q[6]
		})
	case *image.RGBA:
		if m.Opaque() {
			return pixels(b, 3, func(p []uint8, x, y int) { copy(p, m.Pix[m.PixOffset(x, y):][:3]) })
		}
	case *image.YCbCr:
		return pixels(b, 3, func(p []uint8, x, y int) {
			at, chroma := m.YOffset(x, y), m.COffset(x, y)
			p[0], p[1], p[2] = color.YCbCrToRGB(m.Y[at], m.Cb[chroma], m.Cr[chroma])
		})
	case *image.Paletted:
		return unpaletted(m)
	case interface{ Opaque() bool }:
		if m.Opaque() {
			return general(m.(image.Image), b, 3)
		}
	}
	return general(m, b, 4)
}

// pixels makes a raster pixel by pixel: put gets the place and the coordinates in b.
func pixels(b image.Rectangle, channels int, put func(p []uint8, x, y int)) *Raster {
	r := NewRaster(b.Dx(), b.Dy(), channels)
	for y := range r.Height {
		row := r.Row(y)
		for x := range r.Width {
			put(row[x*channels:][:channels], b.Min.X+x, b.Min.Y+y)
		}
	}
	return r
}

func general(m image.Image, b image.Rectangle, channels int) *Raster {
	return pixels(b, channels, func(p []uint8, x, y int) {
		c := color.NRGBAModel.Convert(m.At(x, y)).(color.NRGBA)
		copy(p, []uint8{c.R, c.G, c.B, c.A})
	})
}

// unpaletted looks colours up. An index beyond the palette is black, as in other readers.
func unpaletted(m *image.Paletted) *Raster {
	var table [256]color.NRGBA
	channels := 3
	for i := range table {
		table[i] = color.NRGBA{A: 255}
		if i < len(m.Palette) {
			table[i] = color.NRGBAModel.Convert(m.Palette[i]).(color.NRGBA)
		}
		if table[i].A != 255 {
			channels = 4
		}
	}
	return pixels(m.Rect, channels, func(p []uint8, x, y int) {
		c := table[m.Pix[m.PixOffset(x, y)]]
		copy(p, []uint8{c.R, c.G, c.B, c.A})
	})
}

// Crop is width x height pixels from (x, y) on; pixels outside the picture are black.
func (m *Image) Crop(x, y, width, height int) (*Image, error) {
	if err := checkSize(width, height); err != nil {
		return nil, fmt.Errorf("cropping: %w", err)
	}
	out := New(width, height)
	if abs(x) <= maxSide && abs(y) <= maxSide {
		out.Paste(m, -x, -y)
	}
	return out, nil
}

func abs(x int) int { return max(x, -x) }

// CropBox crops between fractions of pixels: each corner is rounded half to even, as
// Pillow's Image.crop does.
func (m *Image) CropBox(x0, y0, x1, y1 float64) (*Image, error) {
	var c [4]int
	for i, v := range [...]float64{x0, y0, x1, y1} {
		if !(math.Abs(v) <= maxSide) {
			return nil, fmt.Errorf("cropping (%v, %v, %v, %v): no picture is that large", x0, y0, x1, y1)
		}
		c[i] = int(math.RoundToEven(v))
	}
	return m.Crop(c[0], c[1], c[2]-c[0], c[3]-c[1])
}

// CentreCrop is the middle of a picture, padded with black where it is smaller.
func (m *Image) CentreCrop(width, height int, c Centring) (*Image, error) {
	return m.Crop(c.Offset(m.Width, width), c.Offset(m.Height, height), width, height)
}
