package vision

import (
	"image"
	"image/color"
)

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

// RGB drops alpha, whatever colours it hid, and repeats gray: what Pillow's convert("RGB")
// does. Three channels share their memory with the result.
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
