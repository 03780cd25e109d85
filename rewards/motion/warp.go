package motion

import "github.com/darkroom-rl/darkroom/video"

// Card: the warping error of Lai et al., "Learning blind video temporal consistency" (2018): the
// mean squared difference, colours in 0..1, of a frame and the next one warped to it, over
// pixels that are not occluded. Occluded are those where going there and back does not lead
// home, |back + there|^2 > 0.01(|back|^2 + |there|^2) + 0.5, and edges of motion, |gradient|^2 >
// 0.01|there|^2 + 0.002. Where all are occluded the sum, which is 0, is taken over all. A still
// clip has 0, so low is not good by itself.

// Warp is the error of each pair of frames, and which share of pixels it was taken over.
type Warp struct {
	Errors, Visible []float64
	Mean            float64
}

// WarpError measures a clip.
func WarpError(m *Motion) (Warp, error) {
	var w Warp
	if err := m.Check(); err != nil {
		return w, err
	}
	for t := range m.Forward {
		e, visible := m.warpError(t)
		w.Errors, w.Visible = append(w.Errors, e), append(w.Visible, visible)
	}
	w.Mean = mean(w.Errors)
	return w, nil
}

func (m *Motion) warpError(t int) (err, visible float64) {
	f, from, to := m.Forward[t], m.Clip.Frames[t], m.Clip.Frames[t+1]
	n, sum := 0, 0.0
	for i := range f.X {
		at, w, ok := corners(f, i, 1)
		if !ok || !returns(f, m.Backward[t], i, at, w) || edge(f, i) {
			continue
		}
		n++
		for c := range 3 {
			d := mix(to, at, w, 3, c)/255 - float64(from[3*i+c])/255
			sum += float64(d * d)
		}
	}
	over := n
	if n == 0 {
		over = len(f.X)
	}
	return sum / float64(3*over), float64(n) / float64(len(f.X))
}

// returns reports whether the way back, at the four corners where pixel i goes, leads home.
func returns(there, back *video.Field, i int, at [4]int, w [4]float64) bool {
	x, y := float64(there.X[i]), float64(there.Y[i])
	bx, by := mix(back.X, at, w, 1, 0), mix(back.Y, at, w, 1, 0)
	off := float64((bx+x)*(bx+x)) + float64((by+y)*(by+y))
	long := float64(bx*bx) + float64(by*by) + (float64(x*x) + float64(y*y))
	return off <= float64(0.01*long)+0.5
}

// edge reports whether motion changes from pixel i to the right or downwards.
func edge(f *video.Field, i int) bool {
	sum := 0.0
	step := func(j int) {
		x, y := float64(f.X[i])-float64(f.X[j]), float64(f.Y[i])-float64(f.Y[j])
		sum += float64(x*x) + float64(y*y)
	}
	if i%f.Width+1 < f.Width {
		step(i + 1)
	}
	if i+f.Width < len(f.X) {
		step(i + f.Width)
	}
	x, y := float64(f.X[i]), float64(f.Y[i])
	return sum > float64(0.01*(float64(x*x)+float64(y*y)))+0.002
}
