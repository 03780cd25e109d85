package motion

import "math"

// Card: trails, for a page. On a grid of about sixteen points a side each point of the first frame follows the flow
// from frame to frame. A trail ends at the edge of the frame, and is lost where the way back does not lead home. Slow
// points, of less than half a pixel a frame, have none, and points of an even ground, whose flow is a guess.

// A Trail is the way of a point of a clip's first frame: where it is in each frame.
type Trail struct {
	Points [][2]float64 `json:"points"`
	Lost   bool         `json:"lost,omitempty"`
}

// trailsBeside are the points of a side.
const trailsBeside = 16

// Trails are those of a clip, in pixels of one that is larger by a factor.
func (m *Motion) Trails(times float64) (all []Trail) {
	width, height := m.Clip.Width, m.Clip.Height
	every := max(1, max(width, height)/trailsBeside)
	home := make([][]bool, len(m.Forward))
	for t := range m.Forward {
		home[t], _ = m.Home(t)
	}
	luma := m.Clip.Luma(0)
	for y := every / 2; y < height; y += every {
		for x := every / 2; x < width; x += every {
			if even(luma, width, x, y, max(1, every/2)) {
				continue
			}
			if trail, far := m.trail(float64(x)+0.5, float64(y)+0.5, home); far >= 0.5*float64(len(m.Forward)) {
				all = append(all, trail.enlarged(times))
			}
		}
	}
	return all
}

// trail is that of a point, and the length of its way.
func (m *Motion) trail(x, y float64, home [][]bool) (trail Trail, far float64) {
	trail.Points = append(trail.Points, [2]float64{x, y})
	for t, f := range m.Forward {
		if !(x >= 0 && y >= 0 && x < float64(f.Width) && y < float64(f.Height)) {
			break
		}
		i := int(y)*f.Width + int(x)
		if !home[t][i] {
			trail.Lost = true
			break
		}
		dx, dy := float64(f.X[i]), float64(f.Y[i])
		x, y, far = x+dx, y+dy, far+math.Sqrt(float64(dx*dx)+float64(dy*dy))
		trail.Points = append(trail.Points, [2]float64{x, y})
	}
	return trail, far
}

// enlarged is a trail of a larger clip, to a tenth of a pixel.
func (t Trail) enlarged(times float64) Trail {
	for i, p := range t.Points {
		t.Points[i] = [2]float64{math.Round(10*times*p[0]) / 10, math.Round(10*times*p[1]) / 10}
	}
	return t
}

// even reports whether the pixels around one are nearly alike.
func even(luma []uint8, width, x, y, around int) bool {
	low, high := uint8(255), uint8(0)
	for row := max(0, y-around); row <= min(len(luma)/width-1, y+around); row++ {
		line := luma[row*width:]
		for _, v := range line[max(0, x-around):min(width, x+around+1)] {
			low, high = min(low, v), max(high, v)
		}
	}
	return high-low < 16
}
