package preference

import (
	"errors"
	"math"

	"github.com/darkroom-rl/darkroom/video"
)

// Card: which frames VideoReward reads (VideoAlign's vision_process.py, after qwen-vl-utils). Count frames, or
// FPS of them a second between Least and Most, rounded half to even to a multiple of 2, and at most the clip's:
// an odd number can come out, which upstream's patches do not hold. They lie evenly from the first to the last.
// MultiPoints takes six frames around each of four points of the clip at eight frames a second.
//
// Held to qwen2vl.frame_indices.

// Reading says which frames are read.
type Reading struct {
	FPS         float64
	Count       int // 0: by FPS
	Least, Most int // 0: 4, and 768
	MultiPoints bool
}

// Of is the frames' numbers.
func (r Reading) Of(total int, rate float64) ([]int, error) {
	if total < 2 || !(rate > 0 && rate < 1e6) {
		return nil, errors.New("a clip of fewer than 2 frames, or without a rate: VideoReward reads neither")
	}
	if r.MultiPoints {
		return points(total, rate)
	}
	n := r.Count
	if n == 0 {
		least, most := r.Least, r.Most
		if least == 0 {
			least = 4
		}
		if most == 0 {
			most = min(768, total)
		}
		wanted := math.Max(float64(total)/rate*r.FPS, float64((least+1)/2*2))
		n = even(math.Min(wanted, float64(most/2*2)))
	} else {
		n = even(float64(n))
	}
	if n = min(n, total); n < 2 {
		return nil, errors.New("fewer than 2 frames would be read: ask for more")
	}
	return video.Uniform(total, n), nil
}

// even is a number rounded half to even to a multiple of 2.
func even(x float64) int { return int(math.RoundToEven(x/2)) * 2 }

// points are six frames around each of four.
func points(total int, rate float64) ([]int, error) {
	n := int(math.Floor(float64(total) * 8 / rate))
	if n < 7 {
		return nil, errors.New("a clip of less than a second has no four points to look around")
	}
	all := video.Uniform(total, n)
	var frames []int
	for _, at := range video.Uniform(n-6, 4) {
		frames = append(frames, all[at:at+6]...)
	}
	return frames, nil
}
