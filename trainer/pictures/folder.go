package pictures

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// inspect holds a generator's folder against an experiment.
func inspect(f *model.Folder) {
	c := generator{f}
	if !c.Has("model_index.json") && c.Has("config.json") {
		c.Refuse("model.path", fmt.Sprintf("%s holds one model and no generator's pipeline", c.Model.Path), "a vision-language model is trained in conversations: write [episode]")
		return
	}
	patterns, adapted := c.Model.Trained()
	p, err := pipeline.Open(c.Dir, pipeline.Options{Pool: c.Pool, Train: patterns})
	if err != nil {
		c.Fail("model.path", err)
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
		c.Fail(map[bool]string{true: "model.train", false: "model.path"}[len(patterns) > 0], err)
		return
	}
	if adapted {
		c.CheckTargets(params, p.Targets())
	}
}

// generator is a folder of one.
type generator struct{ *model.Folder }

// checkProcess compares the sampler with what the network was trained to put out.
func (c generator) checkProcess(turn int, at *experiment.Experiment, p *pipeline.Pipeline) {
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
func (c generator) checkGuidance(turn int, at *experiment.Experiment, p *pipeline.Pipeline) {
	if s := at.Sampler; s.GuideBy == "embedded" && s.Guidance != 1 && !p.Defaults().Embedded {
		c.RefuseAt(turn, "sampler.guidance_kind|sampler.preset|preset|model.path", fmt.Sprintf("the network in %s reads no scale of guidance, and %v would be passed over", c.Model.Path, s.Guidance),
			`guidance_kind = "cfg" combines two outputs, for twice the passes; guidance = 1 is none`)
	}
}

// checkSize refuses rewards that know pictures of one size alone.
func (c generator) checkSize(p *pipeline.Pipeline) {
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

// network is the parameters of a folder's denoiser, as Open opens them.
func network(dir string, pool *tensor.Pool, train []string) (*nn.Params, func() error, error) {
	p, err := pipeline.Open(dir, pipeline.Options{Pool: pool, Precision: pipeline.BF16, Train: train})
	if err != nil {
		return nil, nil, err
	}
	params, err := p.Denoiser()
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return params, p.Close, nil
}
