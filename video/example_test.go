package video_test

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/video"
)

// Choices of frames: some of all, or a number per second.
func Example() {
	fmt.Println(video.Uniform(90, 4))
	fmt.Println(video.Thinned(90, video.Rate{Num: 30, Den: 1}, 2))
	// Output:
	// [0 30 59 89]
	// [0 15 30 45 60 75]
}
