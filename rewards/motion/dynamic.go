package motion

import (
	"errors"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/video"
)

// Card: VBench's dynamic degree. For each pair of frames, the mean length of the longest 5 %
// of motion; the clip moves if round(4 n/16) pairs of n frames, half to even, exceed
// 6 min(height, width)/256. VBench thins frames to about 8 a second first (video.Thinned) and
// takes RAFT's flow. With few frames no pair is needed, and any clip moves. Noise, cuts and
// brightness that goes up and down count as motion: see Quality.

// Dynamic is what VBench says of a clip.
type Dynamic struct {
	Top       []float64 // of each pair, the mean of the longest 5 %
	Threshold float64
	Needed    int
	Moves     bool
}

// DynamicDegree measures a clip by its forward motion.
func DynamicDegree(m *Motion) (Dynamic, error) {
	var d Dynamic
	if err := m.Check(); err != nil {
		return d, err
	}
	d.Threshold = threshold(m.Clip)
	d.Needed = int(math.RoundToEven(4 * (float64(len(m.Clip.Frames)) / 16)))
	count := 0
	for _, f := range m.Forward {
		top := longest(f)
		if math.IsNaN(top) {
			return d, errors.New("a twentieth of such small frames is no pixel: dynamic degree needs 20 or more")
		}
		d.Top = append(d.Top, top)
		if top > d.Threshold {
			count++
		}
		d.Moves = d.Moves || count >= d.Needed
	}
	return d, nil
}

func threshold(c *video.Clip) float64 { return 6 * (float64(min(c.Width, c.Height)) / 256) }

// longest is the mean length of the longest 5 %, NaN where that is no pixel.
func longest(f *video.Field) float64 {
	lengths := make([]float64, len(f.X))
	for i := range lengths {
		lengths[i] = f.Length(i)
	}
	slices.Sort(lengths)
	return mean(lengths[len(lengths)-int(float64(len(lengths))*0.05):])
}
