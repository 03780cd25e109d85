package motion

import "math"

// Card: whether what moves goes where it was asked to go, and as fast. For each pair of frames
//
//	v          the mean flow of the moving pixels, which are those whose flow returns and is at least half as long as
//	           the longest 5 % are
//	agreement  max(0, 1 - |v - asked| / |asked|)
//
// and the value is the mean over pairs of agreement·explained·visible·steady, the last three as of Quality: a flow that
// frames do not bear out (noise, cuts, a flash) earns nothing.
// Invariants (tests): the motion that was asked for is near 1, its opposite, rest and another axis 0; half the speed
// earns about half; noise and cuts nothing.

// Heading says how a clip moves beside what was asked.
type Heading struct {
	Value, Agreement float64
	X, Y             float64 // the mean motion, pixels a frame
}

// Heading compares the clip's motion with one that was asked for, in pixels a frame.
func (m *Motion) Heading(asked [2]float64) (Heading, error) {
	var h Heading
	q, err := m.Quality()
	if err != nil {
		return h, err
	}
	n, length := float64(len(m.Forward)), math.Sqrt(squared(asked[0], asked[1]))
	for t, p := range q.Pairs {
		x, y := m.moving(t)
		agreement := max(0, 1-math.Sqrt(squared(x-asked[0], y-asked[1]))/length)
		h.X, h.Y, h.Agreement = h.X+x/n, h.Y+y/n, h.Agreement+agreement/n
		h.Value += agreement * p.Explained * p.Visible * p.Steady / n
	}
	return h, nil
}

// moving is the mean flow of the pixels that move from frame t on.
func (m *Motion) moving(t int) (x, y float64) {
	f := m.Forward[t]
	top := longest(f)
	if !(top > 0) {
		return 0, 0
	}
	n := 0.0
	for i := range f.X {
		at, w, ok := corners(f, i, 1)
		if !ok || f.Length(i) < top/2 || !returns(f, m.Backward[t], i, at, w) {
			continue
		}
		x, y, n = x+float64(f.X[i]), y+float64(f.Y[i]), n+1
	}
	if n == 0 {
		return 0, 0
	}
	return x / n, y / n
}

// squared is a motion's squared length.
func squared(x, y float64) float64 { return float64(x*x) + float64(y*y) }
