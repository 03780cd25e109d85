package motion

import (
	"math"
	"slices"

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
func (m *Motion) Quality() (Quality, error) {
	var q Quality
	if err := m.Check(); err != nil {
		return q, err
	}
	n, steady := float64(len(m.Forward)), m.steadiness(1)
	for t := range m.Forward {
		home, visible := m.Home(t)
		p := m.borne(t, home, visible)
		p.Steady, p.Camera = steady[t], camera(m.Forward[t], home)
		q.Pairs = append(q.Pairs, p)
		q.Value += p.value() / n
		q.Amount += p.Amount / n
		q.Explained += p.Explained / n
		q.Visible += p.Visible / n
		q.Steady += p.Steady / n
		q.Camera += p.Camera / n
	}
	return q, nil
}

// doubt is the squared error that rounding to bytes leaves, in levels.
const doubt = 0.5 * 0.5

// borne says how far frames bear out the flow of a pair, n of whose pixels return.
func (m *Motion) borne(t int, home []bool, n int) Pair {
	p := Pair{Visible: float64(n) / float64(len(home))}
	top := longest(m.Forward[t])
	if math.IsNaN(top) || n == 0 {
		return p
	}
	p.Amount = min(top/threshold(m.Clip), 1)
	still, wrong, right := m.error(t, home, 0), m.error(t, home, -1), m.error(t, home, 1)
	p.Explained = max(1-(right+doubt)/(min(still, wrong)+doubt), 0)
	return p
}

// Home says which pixels of a frame return and stay within it, and how many do.
func (m *Motion) Home(t int) (home []bool, n int) {
	f := m.Forward[t]
	home = make([]bool, len(f.X))
	for i := range home {
		at, w, ok := corners(f, i, 1)
		x, y := float64(i%f.Width)+float64(f.X[i]), float64(i/f.Width)+float64(f.Y[i])
		inside := x >= 0 && y >= 0 && x <= float64(f.Width-1) && y <= float64(f.Height-1)
		if home[i] = ok && inside && returns(f, m.Backward[t], i, at, w); home[i] {
			n++
		}
	}
	return home, n
}

// error is the mean squared difference, in levels, of a frame and the next one warped by a
// multiple of the flow, over some pixels.
func (m *Motion) error(t int, over []bool, times float64) float64 {
	f, from, to := m.Forward[t], m.Clip.Frames[t], m.Clip.Frames[t+1]
	n, sum := 0, 0.0
	for i, on := range over {
		if !on {
			continue
		}
		at, w, ok := corners(f, i, times)
		if !ok {
			continue
		}
		for c := range 3 {
			d := mix(to, at, w, 3, c) - float64(from[3*i+c])
			sum += float64(d * d)
		}
		n += 3
	}
	return sum / float64(max(n, 1))
}

// camera is the share of squared motion, over some pixels, that the nearest affine map of the
// frame has: 1 for one that pans, turns or zooms, 0 where nothing moves.
func camera(f *video.Field, over []bool) float64 {
	_, all, left := affine(f, over)
	if all == 0 {
		return 0
	}
	return max(1-left/all, 0)
}

// affine is the map of the frame nearest to its motion over some pixels, a + b x + c y from the middle for either axis,
// with the sums of the squared motion and of the rest beside the map.
func affine(f *video.Field, over []bool) (maps [2][3]float64, all, left float64) {
	for axis, v := range [][]float32{f.X, f.Y} {
		// v is a + b x + c y, by normal equations in coordinates from the middle.
		var m [3][4]float64
		each := func(do func(p [3]float64, v float64)) {
			for i, on := range over {
				if x := float64(v[i]); on && !math.IsNaN(x) && !math.IsInf(x, 0) {
					do([3]float64{1, float64(i%f.Width) - float64(f.Width)/2, float64(i/f.Width) - float64(f.Height)/2}, x)
				}
			}
		}
		each(func(p [3]float64, v float64) {
			for i, a := range p {
				for j, b := range p {
					m[i][j] += float64(a * b)
				}
				m[i][3] += float64(a * v)
			}
		})
		c := solved(m)
		maps[axis] = c
		each(func(p [3]float64, v float64) {
			d := v - float64(c[0]) - float64(c[1]*p[1]) - float64(c[2]*p[2])
			all, left = all+float64(v*v), left+float64(d*d)
		})
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

// leg is which of some equal parts of the clip pair t belongs to.
func (m *Motion) leg(t, legs int) int { return t * legs / len(m.Forward) }

// steadiness compares the flow of every pair with those before and after in its leg, along the path; the worse
// counts. A leg of one pair is steady.
func (m *Motion) steadiness(legs int) []float64 {
	steady := slices.Repeat([]float64{1}, len(m.Forward))
	for t := range len(m.Forward) - 1 {
		if m.leg(t, legs) == m.leg(t+1, legs) {
			a := agreement(m.Forward[t], m.Forward[t+1])
			steady[t], steady[t+1] = min(steady[t], a), min(steady[t+1], a)
		}
	}
	return steady
}

func agreement(before, after *video.Field) float64 {
	change, long := 0.0, 0.0
	for i := range before.X {
		at, w, ok := corners(before, i, 1)
		if !ok {
			return 0
		}
		x, y := mix(after.X, at, w, 1, 0), mix(after.Y, at, w, 1, 0)
		change += math.Sqrt(float64((x-float64(before.X[i]))*(x-float64(before.X[i]))) + float64((y-float64(before.Y[i]))*(y-float64(before.Y[i]))))
		long += before.Length(i) + math.Sqrt(float64(x*x)+float64(y*y))
	}
	if long == 0 {
		return 1
	}
	return max(1-change/long, 0)
}
