package video

import "math"

// Which frames are looked at, where all are too many.

// Uniform is n frames of total, evenly, with the first and the last: round(linspace(0, total-1,
// n)) half to even in fp32, as torch computes it from both ends and Qwen's video readers use
// it. More than there are repeat; one alone is the first.
func Uniform(total, n int) []int {
	if total <= 0 || n <= 0 {
		return nil
	}
	frames := make([]int, n)
	if n == 1 {
		return frames
	}
	last := float32(total - 1)
	step := last / float32(n-1)
	for i := range frames {
		at := float32(step * float32(i))
		if i >= n/2 {
			at = last - float32(step*float32(n-1-i))
		}
		frames[i] = int(math.RoundToEven(float64(at)))
	}
	return frames
}

// Thinned is every k-th frame with k = max(1, round(rate/fps)), half to even: VBench looks at
// about 8 frames a second so.
func Thinned(total int, rate Rate, fps float64) []int {
	k := 1
	if every := math.RoundToEven(rate.FPS() / fps); fps > 0 && every > 1 {
		k = int(min(every, float64(max(total, 1))))
	}
	var frames []int
	for i := 0; i < total; i += k {
		frames = append(frames, i)
	}
	return frames
}
