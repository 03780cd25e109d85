package motion

import (
	"math"

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
func (s *Steps) Camera(asked ...Move) (sum Camera) {
	n, least, steady := float64(len(s.all)), s.threshold()/4, s.steadiness(len(asked))
	for t, p := range s.all {
		c := p.camera
		sum.Pan, sum.Tilt, sum.Zoom, sum.Roll = sum.Pan+c.Pan/n, sum.Tilt+c.Tilt/n, sum.Zoom+c.Zoom/n, sum.Roll+c.Roll/n
		want := asked[s.leg(t, len(asked))]
		if want == Still {
			sum.Value += (1 - min(1, p.median/least)) / n
			continue
		}
		if a := max(0, c.part(want)); a > 0 {
			sum.Value += float64(a*a) / p.square * min(1, a/least) * p.explained * p.visible * steady[t] / n
		}
	}
	return sum
}

// cameraOf is the camera's part of a pair's motion, the mean square of all of it, and the share of it that the nearest
// affine map has: 1 for a camera that pans, turns or zooms, 0 where nothing moves.
func cameraOf(f *video.Field, over []bool) (c Camera, square, share float64) {
	maps, all, left := affine(f, over)
	n, squares := 0.0, 0.0
	for i, on := range over {
		if on {
			x, y := float64(i%f.Width)-float64(f.Width)/2, float64(i/f.Width)-float64(f.Height)/2
			n, squares = n+1, squares+squared(x, y)
		}
	}
	if all != 0 {
		share = max(1-left/all, 0)
	}
	if n == 0 || !(all > 0) {
		return c, 1, share
	}
	far := math.Sqrt(squares / n)
	c = Camera{Pan: -maps[0][0], Tilt: maps[1][0], Zoom: (maps[0][1] + maps[1][2]) / 2 * far, Roll: (maps[0][2] - maps[1][1]) / 2 * far}
	return c, all / n, share
}
