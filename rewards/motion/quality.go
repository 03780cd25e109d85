package motion

import (
	"math"

	"github.com/darkroom-rl/darkroom/video"
)

// Card: true motion, 0 to 1, as a reward that cannot be had by standing still, by cuts, noise
// or brightness that goes up and down. For each pair of frames
//
//	amount     how far the longest 5 % move, of VBench's threshold, at most 1
//	explained  1 - E(f)/min(E(0), E(-f)), with E(f) the mean squared difference of a frame and
//	           the next one warped by f, over pixels that return. Warping alone blurs noise, which
//	           lowers E a little: the wrong way E(-f) blurs as much
//	visible    the share of pixels that return, and whose flow stays within the frame
//	steady     1 - |change along the path|/(length before + after), of the flow over two pairs
//	           that follow: shaking goes back and forth
//
// and the value is the mean of their product. It is not in VBench: DynamicDegree is. A camera that pans over a still
// picture moves truly; camera is the share of the motion that is one affine map of the whole frame; it is shown, not
// counted. Invariants (tests): true motion is far above a still clip, cuts, noise, pumping, strobing, shuffled frames
// and shaking; a cut or noise in a moving clip lowers it.

// Quality says how a clip moves; parts are means over pairs.
type Quality struct {
	Value                              float64
	Amount, Explained, Visible, Steady float64
	Camera                             float64
	Pairs                              []Pair
}

// Pair is a frame and the next one.
type Pair struct{ Amount, Explained, Visible, Steady, Camera float64 }

func (p Pair) value() float64 { return p.Amount * p.Explained * p.Visible * p.Steady }

// Quality measures the clip.
func (s *Steps) Quality() (q Quality) {
	n, steady := float64(len(s.all)), s.steadiness(1)
	for t, of := range s.all {
		p := Pair{of.amount, of.explained, of.visible, steady[t], of.share}
		q.Pairs = append(q.Pairs, p)
		q.Value += p.value() / n
		q.Amount += p.Amount / n
		q.Explained += p.Explained / n
		q.Visible += p.Visible / n
		q.Steady += p.Steady / n
		q.Camera += p.Camera / n
	}
	return q
}

// doubt is the squared error that rounding to bytes leaves, in levels.
const doubt = 0.5 * 0.5

// Home says which pixels of a frame return and stay within it, and how many do.
func (m *Motion) Home(t int) (home []bool, n int) {
	f := m.Forward[t]
	home = make([]bool, len(f.X))
	for i := range home {
		px, py := i%f.Width, i/f.Width
		at, w, ok := corners(f, px, py, 1)
		if home[i] = ok && returns(f, m.Backward[t], i, at, w) && stays(f, px, py); home[i] {
			n++
		}
	}
	return home, n
}

// stays reports whether the flow of a pixel ends within the frame.
func stays(f *video.Field, px, py int) bool {
	i := py*f.Width + px
	x, y := float64(px)+float64(f.X[i]), float64(py)+float64(f.Y[i])
	return x >= 0 && y >= 0 && x <= float64(f.Width-1) && y <= float64(f.Height-1)
}

// affine is the map of the frame nearest to its motion over some pixels, a + b x + c y from the middle for either axis,
// with the sums of the squared motion and of the rest beside the map.
func affine(f *video.Field, over []bool) (maps [2][3]float64, all, left float64) {
	midX, midY := float64(f.Width)/2, float64(f.Height)/2
	for axis, v := range [][]float32{f.X, f.Y} {
		counts := func(i int) bool { x := float64(v[i]); return over[i] && !math.IsNaN(x) && !math.IsInf(x, 0) }
		// v is a + b x + c y, by normal equations in coordinates from the middle.
		var m [3][4]float64
		for i := range over {
			if counts(i) {
				x, y, v := float64(i%f.Width)-midX, float64(i/f.Width)-midY, float64(v[i])
				m[0][0], m[0][1], m[0][2], m[0][3] = m[0][0]+1, m[0][1]+x, m[0][2]+y, m[0][3]+v
				m[1][1], m[1][2], m[1][3] = m[1][1]+float64(x*x), m[1][2]+float64(x*y), m[1][3]+float64(x*v)
				m[2][2], m[2][3] = m[2][2]+float64(y*y), m[2][3]+float64(y*v)
			}
		}
		m[1][0], m[2][0], m[2][1] = m[0][1], m[0][2], m[1][2]
		c := solved(m)
		maps[axis] = c
		for i := range over {
			if counts(i) {
				v := float64(v[i])
				d := v - float64(c[0]) - float64(c[1]*(float64(i%f.Width)-midX)) - float64(c[2]*(float64(i/f.Width)-midY))
				all, left = all+float64(v*v), left+float64(d*d)
			}
		}
	}
	return maps, all, left
}

// solved eliminates; a system without a unique solution gives 0.
func solved(m [3][4]float64) (c [3]float64) {
	for i := range m {
		if !(m[i][i] > 1e-9) {
			continue
		}
		for j := range m {
			if j != i {
				k := m[j][i] / m[i][i]
				for n := range m[j] {
					m[j][n] -= float64(k * m[i][n])
				}
			}
		}
	}
	for i := range m {
		if m[i][i] > 1e-9 {
			c[i] = m[i][3] / m[i][i]
		}
	}
	return c
}
