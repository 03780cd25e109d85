package video

import (
	"image"
	"image/color"
)

// A canvas is the image on which animated formats paint frames: colours with alpha, not multiplied.
type canvas struct {
	width, height int
	pix           []uint8 // R, G, B, A
}

func newCanvas(width, height int) *canvas {
	return &canvas{width, height, make([]uint8, 4*width*height)}
}

// clear makes a rectangle transparent.
func (c *canvas) clear(r image.Rectangle) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		clear(c.pix[4*(y*c.width+r.Min.X) : 4*(y*c.width+r.Max.X)])
	}
}

// paint lays pixels on a rectangle of the canvas, which must hold it: over: translucent ones are blended with the
// canvas; else they replace it.
func (c *canvas) paint(r image.Rectangle, at func(x, y int) color.NRGBA, over bool) {
	for y := range r.Dy() {
		for x := range r.Dx() {
			n := at(x, y)
			p := c.pix[4*((r.Min.Y+y)*c.width+r.Min.X+x):][:4]
			switch {
			case !over || n.A == 255 || p[3] == 0:
				p[0], p[1], p[2], p[3] = n.R, n.G, n.B, n.A
			case n.A != 0:
				mix(p, n)
			}
		}
	}
}

// mix lays a colour on another by their alphas.
func mix(p []uint8, n color.NRGBA) {
	u, v := int(n.A)*255, (255-int(n.A))*int(p[3])
	all := u + v
	for i, s := range [3]uint8{n.R, n.G, n.B} {
		p[i] = uint8((int(s)*u + int(p[i])*v + all/2) / all)
	}
	p[3] = uint8((all + 127) / 255)
}

// frame returns the canvas on black.
func (c *canvas) frame() []uint8 {
	out := make([]uint8, 3*c.width*c.height)
	for i := range c.width * c.height {
		p, q := c.pix[4*i:4*i+4], out[3*i:3*i+3]
		for j := range 3 {
			q[j] = uint8((int(p[j])*int(p[3]) + 127) / 255)
		}
	}
	return out
}

func (c *canvas) clone() *canvas {
	return &canvas{c.width, c.height, append([]uint8(nil), c.pix...)}
}
