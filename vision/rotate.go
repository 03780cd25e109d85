package vision

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: Pillow's Image.rotate(angle) with its defaults: counter-clockwise by degrees about
// the centre, the nearest pixel, the size kept, black where nothing was. An output pixel's
// centre is turned back in 16.16 fixed point by sums along rows and columns (Pillow's
// affine_fixed); 0, 180 and, in a square, 90 and 270 degrees only move pixels. Pictures of
// 32768 pixels a side and more do not fit the fixed point and are turned by float64, as there.
// Held to vlm.rotate_pil in golden/vlm/tools.json.

// Rotate turns a picture. An angle that is not a number leaves it black.
func (m *Image) Rotate(degrees float64) *Image {
	out := New(m.Width, m.Height)
	degrees = math.Mod(degrees, 360)
	if degrees < 0 {
		degrees += 360
	}
	switch {
	case math.IsNaN(degrees):
		return out
	case degrees == 0 || degrees == 360:
		copy(out.Pix, m.Pix)
		return out
	case degrees == 180:
		m.turn(out, func(x, y int) (int, int) { return m.Width - 1 - x, m.Height - 1 - y })
		return out
	case degrees == 90 && m.Width == m.Height:
		m.turn(out, func(x, y int) (int, int) { return m.Width - 1 - y, x })
		return out
	case degrees == 270 && m.Width == m.Height:
		m.turn(out, func(x, y int) (int, int) { return y, m.Height - 1 - x })
		return out
	}
	a := affineOf(degrees, m.Width, m.Height)
	if a.fits(m.Width, m.Height) {
		m.affineFixed(out, a)
	} else {
		m.affineFloat(out, a)
	}
	return out
}

// turn takes each pixel of out from a place in m, black where that lies outside.
func (m *Image) turn(out *Image, from func(x, y int) (int, int)) {
	for y := range out.Height {
		for x := range out.Width {
			sx, sy := from(x, y)
			if sx >= 0 && sx < m.Width && sy >= 0 && sy < m.Height {
				copy(out.Row(y)[3*x:3*x+3], m.Row(sy)[3*sx:])
			}
		}
	}
}

// affine is where an output point lies in the input: (a0 x + a1 y + a2, a3 x + a4 y + a5).
type affine [6]float64

// affineOf turns back about the centre. The matrix is rounded to 15 decimal places.
func affineOf(degrees float64, width, height int) affine {
	angle := -(degrees * (math.Pi / 180))
	round := func(x float64) float64 { return math.RoundToEven(x*1e15) / 1e15 }
	c, s := round(portable.Cos(angle)), round(portable.Sin(angle))
	a := affine{c, s, 0, round(-portable.Sin(angle)), c, 0}
	cx, cy := float64(width)/2, float64(height)/2
	a[2] = float64(float64(a[0]*-cx)+float64(a[1]*-cy)) + cx
	a[5] = float64(float64(a[3]*-cx)+float64(a[4]*-cy)) + cy
	return a
}

// fits reports whether all corners can be said in 16.16 fixed point.
func (a affine) fits(width, height int) bool {
	for _, x := range []float64{0, float64(width)} {
		for _, y := range []float64{0, float64(height)} {
			if math.Abs(float64(x*a[0])+float64(y*a[1])+a[2]) >= 32768 || math.Abs(float64(x*a[3])+float64(y*a[4])+a[5]) >= 32768 {
				return false
			}
		}
	}
	return true
}

func (m *Image) affineFixed(out *Image, a affine) {
	fix := func(v float64) int32 { return int32(math.Floor(float64(v*65536) + 0.5)) }
	a0, a1, a3, a4 := fix(a[0]), fix(a[1]), fix(a[3]), fix(a[4])
	startX := fix(a[2] + float64(a[0]*0.5) + float64(a[1]*0.5))
	startY := fix(a[5] + float64(a[3]*0.5) + float64(a[4]*0.5))
	m.turn(out, func(x, y int) (int, int) {
		return int((startX + int32(x)*a0 + int32(y)*a1) >> 16), int((startY + int32(x)*a3 + int32(y)*a4) >> 16)
	})
}

func (m *Image) affineFloat(out *Image, a affine) {
	m.turn(out, func(x, y int) (int, int) {
		fx, fy := float64(x)+0.5, float64(y)+0.5
		return int(math.Floor(float64(a[0]*fx) + float64(a[1]*fy) + a[2])), int(math.Floor(float64(a[3]*fx) + float64(a[4]*fy) + a[5]))
	})
}
