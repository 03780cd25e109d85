package preflight

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// openPictures opens a generator's folder.
func (c *check) openPictures(dir string) {
	if !exists(dir, "model_index.json") && exists(dir, "config.json") {
		c.Refuse("model.path", fmt.Sprintf("%s holds one model and no generator's pipeline", c.Model.Path), "a vision-language model is trained in conversations: write [episode]")
		return
	}
	patterns, adapted := c.Model.Trained()
	p, err := pipeline.Open(dir, pipeline.Options{Pool: c.pool, Train: patterns})
	if err != nil {
		c.refuse("model.path", err)
		return
	}
	defer p.Close()
	for i, at := range c.Turns() {
		c.checkProcess(i, at, p)
		c.checkGuidance(i, at, p)
	}
	c.checkSize(p)
	params, err := p.Denoiser()
	if err != nil {
		c.refuse(map[bool]string{true: "model.train", false: "model.path"}[len(patterns) > 0], err)
		return
	}
	if adapted {
		c.checkTargets(params, p.Targets())
	}
}

// checkProcess compares the sampler with what the network was trained to put out.
func (c *check) checkProcess(turn int, at *experiment.Experiment, p *pipeline.Pipeline) {
	const keys = "sampler.solver|sampler.schedule.kind|sampler.schedule|sampler.preset|preset|model.path"
	s := at.Sampler
	switch ladder := at.Sampler.Ladder(); {
	case ladder && p.Flow():
		c.RefuseAt(turn, keys, fmt.Sprintf("%s is for a variance-preserving ladder, and the model in %s is a flow", s.Solver, c.Model.Path), `for example solver = "flow-sde" with schedule = { kind = "shifted" }`)
	case !ladder && !p.Flow():
		c.RefuseAt(turn, keys, fmt.Sprintf("%s is for a flow, and the model in %s is a variance-preserving ladder", s.Solver, c.Model.Path), `write solver = "ddim", outside = "ddim", eval_solver = "ddim" and schedule = { kind = "ddpm" }, or preset = "ddpo"`)
	case ladder && s.Prediction != string(p.Prediction()):
		c.RefuseAt(turn, "sampler.prediction|"+keys, fmt.Sprintf("the network in %s puts out %s, and %s is sampled by", c.Model.Path, p.Prediction(), s.Prediction), fmt.Sprintf("write prediction = %q", p.Prediction()))
	}
}

// checkGuidance refuses a scale that is told to a network which reads none.
func (c *check) checkGuidance(turn int, at *experiment.Experiment, p *pipeline.Pipeline) {
	if s := at.Sampler; s.GuideBy == "embedded" && s.Guidance != 1 && !p.Defaults().Embedded {
		c.RefuseAt(turn, "sampler.guidance_kind|sampler.preset|preset|model.path", fmt.Sprintf("the network in %s reads no scale of guidance, and %v would be passed over", c.Model.Path, s.Guidance),
			`guidance_kind = "cfg" combines two outputs, for twice the passes; guidance = 1 is none`)
	}
}

// checkSize refuses rewards that know pictures of one size alone.
func (c *check) checkSize(p *pipeline.Pipeline) {
	d := p.Defaults()
	if d.Width == scenes.Size && d.Height == scenes.Size {
		return
	}
	for i, r := range c.Rewards {
		if k, ok := experiment.RewardNamed(r.Name); ok && k.Scenes && r.URL == "" {
			c.Refuse(fmt.Sprintf("reward[%d].name", i), fmt.Sprintf("reward %q judges the program's own scenes of %d x %d, and this model's pictures have %d x %d", r.Name, scenes.Size, scenes.Size, d.Width, d.Height),
				`a reward for any picture, such as name = "pickscore" with the path of its weights, or your own: name = "exec" or "http"`)
		}
	}
}

// checkTargets puts the adapter on: each target must match a layer. Where the file names none, they are the usual ones.
func (c *check) checkTargets(params *nn.Params, usual []string) {
	l := &c.Model.LoRA
	if !c.Given("model.lora.targets") && usual != nil {
		l.Targets = usual
	}
	hint := fmt.Sprintf("usual for this model: targets = [%s]", `"`+strings.Join(usual, `", "`)+`"`)
	set, err := params.AddLoRA(nn.LoRA{Rank: l.Rank, Alpha: float32(l.Alpha), Targets: l.Targets})
	if err != nil {
		c.Refuse("model.lora.targets|model.lora|model.path", err.Error(), hint)
		return
	}
	for _, t := range l.Targets {
		if t != "all-linear" && !matches(set.Modules(), t) {
			c.Refuse("model.lora.targets|model.lora|model.path", fmt.Sprintf("%q matches no layer, though others do", t), hint)
		}
	}
}

// matches reports whether a layer's name is a target, or ends in it.
func matches(layers []string, target string) bool {
	for _, name := range layers {
		if name == target || strings.HasSuffix(name, "."+target) {
			return true
		}
	}
	return false
}
