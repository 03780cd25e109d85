package pictures

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Clips are pictures with frames: latents [frames, rows, columns, channels] in place of [rows, columns, channels].
// Everything else is shared: how they are sampled, judged, noised, remembered, and what memory they take.
// Where two networks take turns: networks.go.

// shape is that of latents for a size and a number of frames.
func shape(p *pipeline.Pipeline, size experiment.Size, frames int) (pipeline.Shape, error) {
	if err := checkFrames(p, frames); err != nil {
		return pipeline.Shape{}, err
	}
	if frames > 1 {
		return p.ClipShape(frames, size[1], size[0])
	}
	return p.Shape(size[1], size[0])
}

// checkFrames refuses a number of frames that the network cannot make.
func checkFrames(p *pipeline.Pipeline, frames int) error {
	switch {
	case p.Clips() && frames == 0:
		return fmt.Errorf("a %s makes clips, and sampler.frames is missing (upstream's have %d; 1 makes pictures)", p.Class(), p.Defaults().Frames)
	case p.Clips() || frames > 1:
		return p.CheckFrames(frames)
	}
	return nil
}

// checkOwnFrames refuses pictures among clips, and clips among pictures: own are a prompt's frames, others the turn's.
func checkOwnFrames(p *pipeline.Pipeline, own, others int) error {
	if own > 0 && (own == 1) != (others == 1) && p.Clips() {
		return fmt.Errorf("a prompt's frames are %d, where others have %d: one is a picture, and samples are either pictures or clips", own, others)
	}
	return nil
}

// checkClips refuses clips that the networks cannot make.
func (c generator) checkClips(turn int, at *experiment.Experiment, p *pipeline.Pipeline) {
	for _, held := range []bool{false, true} {
		if held && c.Evaluate.Prompts == "" {
			continue
		}
		keys := "sampler.frames|model.path"
		if held && c.Evaluate.Frames > 0 {
			keys = "evaluate.frames"
		}
		if err := checkFrames(p, experiment.Turn{Experiment: at, Evaluates: held}.Frames()); err != nil {
			c.RefuseAt(turn, keys, err.Error(), "")
			return
		}
	}
	if one, err := at.Turn(0); err == nil {
		if err := checkNetworks(p, one); err != nil {
			c.RefuseAt(turn, "loss.kl.guidance|sampler.guidance_2|sampler.window|model.experts|model.path", err.Error(), "")
		}
	}
	if x := at.Model.Experts; x != "both" && p.Experts() == 1 {
		c.RefuseAt(turn, "model.experts", fmt.Sprintf("the model in %s has one network, and %q is one of two", c.Model.Path, x), "leave it out")
	}
}
