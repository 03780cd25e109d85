package prompts

import (
	"strconv"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// First frames of clips: embed:animate, and embed:animate-heldout, whose captions no training saw. The prompt names the
// picture's content and its thing's direction; image is the clip's first frame, without the direction.

// begun begins the names of first frames.
const begun = "embed:animate/"

// begunScene is a first frame's scene: all of them in turn, each time in other places.
func begunScene(n int) moving.Scene {
	all := moving.All()
	return all[n%len(all)]
}

// firstFrame is the picture.
func firstFrame(n int) *vision.Image {
	at := moving.Jitter(rng.New(77).With("animate").Sample(n).Draw())
	return &vision.Image{Width: moving.Size, Height: moving.Size, Pix: begunScene(n).Begin(at).Frames[0]}
}

// animated returns the prompts of a number of rounds through all scenes, with held-out captions or with the others.
func animated(rounds int, heldOut bool) (list []Prompt) {
	for n := range rounds * len(moving.All()) {
		if text := begunScene(n).Prompt(); moving.HeldOut(text) == heldOut {
			list = append(list, Prompt{Text: text, Image: Images{begun + strconv.Itoa(n)}})
		}
	}
	return list
}
