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

// New is a black picture. Sizes that are not positive, or that no memory holds, panic: check
// what strangers ask for first.
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
