package faces

import (
	"math"

	"github.com/darkroom-rl/darkroom/vision"
)

// Card: the alignment of insightface (face_align.py). Five points, the eye at the left of the picture, the other eye,
// the tip of the nose, the corners of the mouth, go to those of a template by the similarity with the least squares: a
// turn, one scale, a shift, no mirror (Umeyama 1991). With points as complex numbers, centred,
//
//	z -> a·z + b,   a = sum conj(p)·q / sum |p|²,   b = mean q - a · mean p
//
// The template is of 112 pixels; sizes of a multiple of 128 move it by 8 to the right, as upstream does. Pixels are
// bilinear, black outside, rounded to 8 bits, as OpenCV 5 warps. Held to eyes.face_matrix and eyes.face_crop.

// A Point is a place in a picture.
type Point struct{ X, Y float64 }

// Landmarks are a face's five points.
type Landmarks [5]Point

// template is where points lie in a face of 112 x 112.
var template = Landmarks{{38.2946, 51.6963}, {73.5318, 51.5014}, {56.0252, 71.7366}, {41.5493, 92.3655}, {70.7299, 92.2041}}

// Matrix takes a picture's places to those of an aligned face of a size, a multiple of 112 or of 128: two rows of
// three.
func Matrix(l Landmarks, size int) [6]float64 {
	ratio, shift := float64(size)/112, 0.0
	if size%112 != 0 {
		ratio = float64(size) / 128
		shift = 8 * ratio
	}
	var from, to Point
	var want Landmarks
	for i, p := range template {
		want[i] = Point{float64(p.X*ratio) + shift, p.Y * ratio}
		from.X, from.Y = from.X+l[i].X/5, from.Y+l[i].Y/5
		to.X, to.Y = to.X+want[i].X/5, to.Y+want[i].Y/5
	}
	var re, im, norm float64
	for i := range l {
		px, py, qx, qy := l[i].X-from.X, l[i].Y-from.Y, want[i].X-to.X, want[i].Y-to.Y
		re += float64(px*qx) + float64(py*qy)
		im += float64(px*qy) - float64(py*qx)
		norm += float64(px*px) + float64(py*py)
	}
	if norm == 0 {
		return [6]float64{}
	}
	re, im = re/norm, im/norm
	return [6]float64{re, -im, to.X - float64(re*from.X) + float64(im*from.Y), im, re, to.Y - float64(im*from.X) - float64(re*from.Y)}
}

// Align is the picture of a face; nil where its points are one.
func Align(m *vision.Image, l Landmarks, size int) *vision.Image {
	t := Matrix(l, size)
	det := float64(t[0]*t[4]) - float64(t[1]*t[3])
	if det == 0 || math.IsNaN(det) || math.IsInf(det, 0) {
		return nil
	}
	out := vision.New(size, size)
	for y := range size {
		for x := range size {
			u, v := float64(x)-t[2], float64(y)-t[5]
			pixel(out.Pix[3*(y*size+x):][:3], m, (float64(t[4]*u)-float64(t[1]*v))/det, (float64(t[0]*v)-float64(t[3]*u))/det)
		}
	}
	return out
}

// pixel is a pixel between four others, those outside black.
func pixel(to []uint8, m *vision.Image, x, y float64) {
	x, y = min(max(x, -1<<20), 1<<20), min(max(y, -1<<20), 1<<20)
	x0, y0 := math.Floor(x), math.Floor(y)
	fx, fy := x-x0, y-y0
	var sum [3]float64
	for dy := range 2 {
		for dx := range 2 {
			sx, sy := int(x0)+dx, int(y0)+dy
			if sx < 0 || sy < 0 || sx >= m.Width || sy >= m.Height {
				continue
			}
			w := (1 - math.Abs(float64(dx)-fx)) * (1 - math.Abs(float64(dy)-fy))
			for c := range 3 {
				sum[c] += float64(w * float64(m.Pix[3*(sy*m.Width+sx)+c]))
			}
		}
	}
	for c, v := range sum {
		to[c] = uint8(min(max(math.RoundToEven(v), 0), 255))
	}
}
