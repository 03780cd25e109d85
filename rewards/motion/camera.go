package motion

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/video"
)

// Card: whether the camera moves as it was asked to. The flow of each pair of frames, over pixels that return, has a
// nearest affine map, and this one has four parts in pixels a frame, of which a camera that
//
//	pans right     moves the frame left        Pan > 0
//	tilts up       moves it down               Tilt > 0
//	zooms in       makes it larger             Zoom > 0, the motion at the root mean square distance from the middle
//	rolls clockwise turns it the other way     Roll > 0, likewise
//
// With a the asked part, 0 where its sign is wrong, and s = 1.5·min(height, width)/256, the value of a pair is
//
//	a²/(mean |flow|²) · min(1, a/s) · explained · visible · steady
//
// the last three as of Quality, and of a camera that is to stay still 1 - min(1, m/s), with m the median length of the
// flow, so that a thing may move before it. Where several moves are asked for, the pairs are shared out among them in
// order. Invariants (tests): an asked move of a textured scene is near 1; the opposite, another move, a thing that
// moves alone, rest, noise and cuts are near 0. A still clip has a still camera: such a reward needs motion beside it.

// A Move is a camera's.
type Move int

// The moves.
const (
	Still Move = iota
	PanLeft
	PanRight
	TiltUp
	TiltDown
	ZoomIn
	ZoomOut
	Clockwise
	Counterclockwise
)

// Camera has its moves, in means over pairs, and their worth.
type Camera struct{ Value, Pan, Tilt, Zoom, Roll float64 }

// part is the asked part of a pair's motion.
func (c Camera) part(m Move) float64 {
	return [...]float64{0, -c.Pan, c.Pan, c.Tilt, -c.Tilt, c.Zoom, -c.Zoom, c.Roll, -c.Roll}[m]
}

// Camera compares the camera's moves with those that were asked for, one after another.
func (m *Motion) Camera(asked ...Move) (sum Camera, err error) {
	if err := m.Check(); err != nil {
		return sum, err
	}
	n, least, steady := float64(len(m.Forward)), threshold(m.Clip)/4, m.steadiness(len(asked))
	for t := range m.Forward {
		home, visible := m.Home(t)
		c, squares := cameraOf(m.Forward[t], home)
		sum.Pan, sum.Tilt, sum.Zoom, sum.Roll = sum.Pan+c.Pan/n, sum.Tilt+c.Tilt/n, sum.Zoom+c.Zoom/n, sum.Roll+c.Roll/n
		want := asked[m.leg(t, len(asked))]
		if want == Still {
			sum.Value += (1 - min(1, median(m.Forward[t])/least)) / n
			continue
		}
		if a := max(0, c.part(want)); a > 0 {
			p := m.borne(t, home, visible)
			sum.Value += float64(a*a) / squares * min(1, a/least) * p.Explained * p.Visible * steady[t] / n
		}
	}
	return sum, nil
}

// cameraOf is the camera's part of a pair's motion, and the mean square of all of it.
func cameraOf(f *video.Field, over []bool) (c Camera, square float64) {
	maps, all, _ := affine(f, over)
	n, squares := 0.0, 0.0
	for i, on := range over {
		if on {
			x, y := float64(i%f.Width)-float64(f.Width)/2, float64(i/f.Width)-float64(f.Height)/2
			n, squares = n+1, squares+squared(x, y)
		}
	}
	if n == 0 || !(all > 0) {
		return c, 1
	}
	far := math.Sqrt(squares / n)
	c = Camera{Pan: -maps[0][0], Tilt: maps[1][0], Zoom: (maps[0][1] + maps[1][2]) / 2 * far, Roll: (maps[0][2] - maps[1][1]) / 2 * far}
	return c, all / n
}

// median is that of the flow's lengths.
func median(f *video.Field) float64 {
	lengths := make([]float64, len(f.X))
	for i := range lengths {
		lengths[i] = f.Length(i)
	}
	slices.Sort(lengths)
	return lengths[len(lengths)/2]
}
