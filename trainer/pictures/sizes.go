package pictures

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Sizes that are asked for, held against the model and the rewards before anything is computed.

// A place is where a size is asked for.
type place struct {
	turn int
	keys string // in the experiment's file
	of   string // in the list of prompts; "": no prompt names it
	experiment.Size
	frames int // of the iteration
	own    int // of the prompt; 0: it names none
}

// checkFrames refuses frames that the network cannot make, and pictures among clips.
func (a place) checkFrames(p *pipeline.Pipeline) error {
	if err := checkOwnFrames(p, a.own, a.frames); err != nil {
		return err
	}
	return checkFrames(p, a.extent().frames)
}

func (a place) extent() extent {
	if a.own > 0 {
		return extent{a.Size, a.own}
	}
	return extent{a.Size, a.frames}
}

// checkSizes refuses sizes that the network cannot make, and rewards that know one size alone.
func (c generator) checkSizes(p *pipeline.Pipeline) {
	d, shown := p.Defaults(), -1
	other := place{Size: experiment.Size{scenes.Size, scenes.Size}} // than the scenes'
	for _, asked := range c.places(experiment.Size{d.Width, d.Height}) {
		if err := asked.checkFrames(p); err != nil {
			if asked.own > 0 {
				c.RefuseAt(asked.turn, asked.keys, asked.of+err.Error(), "change the prompt's frames, or [sampler] frames")
			}
			continue // that of an iteration is reported
		}
		at, err := shape(p, asked.Size, asked.extent().frames)
		if err != nil {
			c.RefuseAt(asked.turn, asked.keys, asked.of+err.Error(), "")
			continue
		}
		if asked.of == "" && asked.turn > shown {
			shown = asked.turn
			c.Show(asked.turn, at.Tokens)
		}
		if scene := (experiment.Size{scenes.Size, scenes.Size}); asked.Size != scene && other.Size == scene {
			other = asked
		}
	}
	if other.Size[0] != scenes.Size || other.Size[1] != scenes.Size {
		c.refuseScenes(other)
	}
}

// places are all sizes that are asked for, those of the first stage first.
func (c generator) places(otherwise experiment.Size) (all []place) {
	for i, at := range c.EachStage() {
		for _, held := range []bool{false, true} {
			if held && c.Evaluate.Prompts == "" {
				continue
			}
			keys := "sampler.width|sampler.height"
			if held && c.Evaluate.Width > 0 {
				keys = "evaluate.width"
			}
			settings := experiment.Settings{Experiment: at, Evaluates: held}
			asked, frames := settings.PictureSizes(), settings.Frames()
			for k, size := range asked {
				one := place{turn: i, keys: keys, Size: size, frames: frames}
				if keys != "evaluate.width" && at.Sampler.Width == 0 {
					one.keys = fmt.Sprintf("sampler.sizes[%d]", k)
				}
				if !slices.Contains(all, one) {
					all = append(all, one)
				}
			}
			if len(asked) == 0 {
				all = append(all, place{turn: i, keys: "model.path", Size: otherwise, frames: frames})
			}
		}
	}
	for _, key := range []string{"rollout.prompts", "evaluate.prompts"} {
		for _, p := range firstOfSize(c.Prompts[key]) {
			settings := experiment.Settings{Experiment: c.Experiment, Evaluates: key == "evaluate.prompts"}
			one := place{keys: key, of: fmt.Sprintf("%s: prompt %q: ", p.List, p.Text), Size: experiment.Size{p.Width, p.Height}, frames: settings.Frames(), own: p.Frames}
			if asked := settings.PictureSizes(); !p.Sized() && len(asked) > 0 {
				one.Size = asked[0]
			} else if !p.Sized() {
				one.Size = otherwise
			}
			all = append(all, one)
		}
	}
	return all
}

// firstOfSize are the first prompts of each size and number of frames.
func firstOfSize(list []prompts.Prompt) (first []prompts.Prompt) {
	seen := map[extent]bool{{}: true}
	for _, p := range list {
		if one := ownExtent(p); !seen[one] {
			seen[one], first = true, append(first, p)
		}
	}
	return first
}

// refuseScenes refuses rewards that judge the program's own scenes.
func (c generator) refuseScenes(asked place) {
	for i, r := range c.Rewards {
		if k, _ := r.Kind(); k.Is(rewards.Scenes) && r.URL == "" && !(k.Is(rewards.Edits) && rewards.SceneEdit{}.Judges(asked.Size[0], asked.Size[1])) {
			c.Refuse(fmt.Sprintf("reward[%d].name", i), fmt.Sprintf("%sreward %q judges the program's own scenes of %d x %d, and this model's pictures have %s", asked.of, r.Name, scenes.Size, scenes.Size, asked.Size),
				`a reward for any picture, such as name = "pickscore" with the path of its weights, or your own: name = "exec" or "http"`)
		}
	}
}

// Clips are pictures with frames: latents [frames, rows, columns, channels] in place of [rows, columns, channels].
// Everything else is shared: their sampling, judging, noising, remembering, and memory. Where two networks take
// turns: networks.go.

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

// checkOwnFrames refuses pictures among clips, and clips among pictures: own are a prompt's frames, others the
// iteration's.
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
		if err := checkFrames(p, experiment.Settings{Experiment: at, Evaluates: held}.Frames()); err != nil {
			c.RefuseAt(turn, keys, err.Error(), "")
			return
		}
	}
	if one, err := at.Iteration(0); err == nil {
		if err := checkNetworks(p, one); err != nil {
			c.RefuseAt(turn, "loss.kl.guidance|sampler.guidance_2|sampler.window|model.experts|model.path", err.Error(), "")
		}
	}
	if x := at.Model.Experts; x != "both" && p.Experts() == 1 {
		c.RefuseAt(turn, "model.experts", fmt.Sprintf("the model in %s has one network, and %q is one of two", c.Model.Path, x), "leave it out")
	}
}
