package ppocr

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: the picture of a line: its box, warped to a rectangle of the longer of opposite edges. Pixels are cubic (a =
// -0.75) at the exact place, the edge repeated, rounded to 8 bits, as OpenCV 5 warps; a rectangle that is half as
// high again as wide is turned a quarter against the clock. Held to eyes.perspective_crop.

// Size is the width and the height of a box's picture, before it is turned.
func (q Quad) Size() (width, height int) {
	edge := func(a, b int) float64 { return portable.Hypot(q[a].X-q[b].X, q[a].Y-q[b].Y) }
	return int(max(edge(0, 1), edge(2, 3))), int(max(edge(0, 3), edge(1, 2)))
}

// Matrix takes four points to four others: rows of a projection whose last number is 1.
func Matrix(from, to Quad) (m [9]float64) {
	var a [8][9]float64
	for i := range 4 {
		x, y, u, v := from[i].X, from[i].Y, to[i].X, to[i].Y
		a[i] = [9]float64{x, y, 1, 0, 0, 0, -float64(x * u), -float64(y * u), u}
		a[i+4] = [9]float64{0, 0, 0, x, y, 1, -float64(x * v), -float64(y * v), v}
	}
	for i := range 8 {
		best := i
		for r := i + 1; r < 8; r++ {
			if math.Abs(a[r][i]) > math.Abs(a[best][i]) {
				best = r
			}
		}
		a[i], a[best] = a[best], a[i]
		if a[i][i] == 0 {
			continue
		}
		for r := range 8 {
			if r == i {
				continue
			}
			f := a[r][i] / a[i][i]
			for k := i; k < 9; k++ {
				a[r][k] -= float64(f * a[i][k])
			}
		}
	}
	for i := range 8 {
		if a[i][i] != 0 {
			m[i] = a[i][8] / a[i][i]
		}
	}
	m[8] = 1
	return m
}

// corners are those of a rectangle.
func corners(width, height int) Quad {
	w, h := float64(width), float64(height)
	return Quad{{0, 0}, {w, 0}, {w, h}, {0, h}}
}

// Crop is a box's picture; nil where the box has no area.
func Crop(m *vision.Image, q Quad) *vision.Image {
	width, height := q.Size()
	if width < 1 || height < 1 {
		return nil
	}
	t := Matrix(corners(width, height), q)
	out := vision.New(width, height)
	for y := range height {
		for x := range width {
			fx, fy := float64(x), float64(y)
			w := float64(t[6]*fx) + float64(t[7]*fy) + t[8]
			sx, sy := (float64(t[0]*fx)+float64(t[1]*fy)+t[2])/w, (float64(t[3]*fx)+float64(t[4]*fy)+t[5])/w
			copy(out.Pix[3*(y*width+x):], cubicAt(m, sx, sy))
		}
	}
	if float64(height)/float64(width) >= 1.5 {
		return turned(out)
	}
	return out
}

// cubicAt is a pixel between others.
func cubicAt(m *vision.Image, x, y float64) []uint8 {
	x, y = min(max(x, -1<<20), 1<<20), min(max(y, -1<<20), 1<<20)
	x0, y0 := int(math.Floor(x)), int(math.Floor(y))
	wx, wy := cubic(x-float64(x0)), cubic(y-float64(y0))
	var sum [3]float64
	for dy := range 4 {
		row := m.Row(min(max(y0+dy-1, 0), m.Height-1))
		for dx := range 4 {
			at := 3 * min(max(x0+dx-1, 0), m.Width-1)
			w := float64(wx[dx] * wy[dy])
			for c := range 3 {
				sum[c] += float64(w * float64(row[at+c]))
			}
		}
	}
	out := make([]uint8, 3)
	for c, v := range sum {
		out[c] = uint8(min(max(math.RoundToEven(v), 0), 255))
	}
	return out
}

// cubic are the weights of the four places around a fraction.
func cubic(f float64) (w [4]float64) {
	const a = -0.75
	near := func(d float64) float64 { return float64((float64((a+2)*d)-(a+3))*float64(d*d)) + 1 }
	far := func(d float64) float64 { return a * (float64((float64((d-5)*d)+8)*d) - 4) }
	return [4]float64{far(1 + f), near(f), near(1 - f), far(2 - f)}
}

// turned is a picture turned a quarter against the clock.
func turned(m *vision.Image) *vision.Image {
	out := vision.New(m.Height, m.Width)
	for y := range out.Height {
		for x := range out.Width {
			copy(out.Pix[3*(y*out.Width+x):][:3], m.Pix[3*(x*m.Width+m.Width-1-y):])
		}
	}
	return out
}

// upsideDown is a picture turned by half.
func upsideDown(m *vision.Image) *vision.Image {
	out, n := vision.New(m.Width, m.Height), m.Width*m.Height
	for i := range n {
		copy(out.Pix[3*i:3*i+3], m.Pix[3*(n-1-i):])
	}
	return out
}
