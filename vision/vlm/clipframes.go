package vlm

import (
	"errors"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/video"
)

// Card: which frames of a clip are read. Three published rules differ for the same clip:
//
//	qwen2_vl   Qwen2VLVideoProcessor of transformers: an even count, floor(i·(total/count)), rounded to fp32
//	qwen3_vl   Qwen3VLVideoProcessor: any count, round(linspace(0, total-1, count)) half to even
//	vendor     qwen-vl-utils: an even count, places as qwen3_vl's
//
// The count is total/rate·FPS, between Min and Max and not more than the clip has, or Count where it is given.
// Upstream's places of qwen2_vl are now and then one too many, past the end, where reading fails: PastEnd says
// so. Held to video.sample_frames.

// A FrameRule is one of the three.
type FrameRule string

// The rules.
const (
	Qwen2Frames  FrameRule = "qwen2_vl"
	Qwen3Frames  FrameRule = "qwen3_vl"
	VendorFrames FrameRule = "vendor"
)

// Frames says how many are read.
type Frames struct {
	Rule     FrameRule
	FPS      float64 // that are wanted a second; 0: Count
	Count    int
	Min, Max int
}

// PastEnd is the error of places of which the last lies past the clip's end.
type PastEnd struct{ Places []int }

func (e PastEnd) Error() string {
	return fmt.Sprintf("the last of the %d frames that are read, %d, lies past the clip's end: read one frame less", len(e.Places), e.Places[len(e.Places)-1])
}

// errCount is the error of counts that a clip does not have.
var errCount = errors.New("there are not as many frames, or fewer than 2 are wanted: give a longer clip, or another count")

// Of is the numbers of a clip's frames that are read, of total at a rate.
func (f Frames) Of(total int, rate float64) ([]int, error) {
	if total < 1 || f.FPS > 0 && !(rate > 0 && rate < 1e6) || f.FPS <= 0 && f.Count < 1 {
		return nil, fmt.Errorf("%d frames at %v a second, of which %v a second or %d in all: no clip has them", total, rate, f.FPS, f.Count)
	}
	n := f.Count
	switch {
	case f.Rule == Qwen3Frames && f.FPS > 0:
		n = min(max(int(float64(total)/rate*f.FPS), f.Min), f.Max, total)
	case f.Rule == Qwen3Frames:
	case f.FPS > 0:
		most := min(f.Max, total) / 2 * 2
		wanted := min(max(float64(total)/rate*f.FPS, float64(f.Min)), float64(most), float64(total))
		n = int(math.Floor(wanted/2)) * 2
	default:
		n = int(math.RoundToEven(float64(n)/2)) * 2
		if n > total {
			return nil, errCount
		}
	}
	if n < 1 || f.Rule != Qwen3Frames && n < 2 {
		return nil, errCount
	}
	if f.Rule == Qwen2Frames {
		return stepped(total, n)
	}
	return spaced(total, n), nil
}

// stepped is floor(i·(total/n)), as a range of numbers has them.
func stepped(total, n int) ([]int, error) {
	step := float64(total) / float64(n)
	var places []int
	for i := range int(math.Ceil(float64(total) / step)) {
		places = append(places, int(float32(float64(i)*step)))
	}
	if len(places) > n {
		return nil, PastEnd{places}
	}
	return places, nil
}

// spaced is n places from the first frame to the last, evenly, rounded half to even in float64 as numpy does.
func spaced(total, n int) []int {
	places := make([]int, n)
	for i := 1; i < n; i++ {
		places[i] = int(math.RoundToEven(float64(i) * (float64(total-1) / float64(n-1))))
	}
	if n > 1 {
		places[n-1] = total - 1
	}
	return places
}

// Read takes frames out of a clip, with what they are worth: the rate that they have then.
func (f Frames) Read(c *video.Clip) (frames []int, rate float64, err error) {
	if frames, err = f.Of(len(c.Frames), c.Rate.FPS()); err != nil {
		return nil, 0, err
	}
	return frames, float64(len(frames)) / float64(len(c.Frames)) * c.Rate.FPS(), nil
}
