package prompts

import (
	"strconv"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// Pictures that are to move: embed:animate, and embed:animate-heldout, whose captions no training saw. The prompt says
// what the picture shows and where its thing goes; image is the clip's first frame, which does not say where.

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

// animated are the prompts of so many rounds through all scenes: those whose captions are held out, or all others.
func animated(rounds int, heldOut bool) (list []Prompt) {
	for n := range rounds * len(moving.All()) {
		if text := begunScene(n).Prompt(); moving.HeldOut(text) == heldOut {
			list = append(list, Prompt{Text: text, Image: Images{begun + strconv.Itoa(n)}})
		}
	}
	return list
}
