package pictures

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/data/album"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// part is diffusers' name for the one model of a folder, or transformers', by its config.json; "": a folder of another
// kind.
func (c generator) part() (class, architecture string) {
	var said struct {
		Class         string   `json:"_class_name"`
		Architectures []string `json:"architectures"`
	}
	text, err := regular.Read(filepath.Join(c.Dir, "config.json"), 1<<20)
	if err != nil || json.Unmarshal(text, &said) != nil {
		return "", ""
	}
	return said.Class, strings.Join(said.Architectures, ", ")
}

// inspect holds a generator's folder against an experiment.
func inspect(f *model.Folder) {
	c := generator{f}
	if !c.Has("model_index.json") && c.Has("config.json") {
		hint := "a vision-language model is trained in conversations: write [episode]"
		part, architecture := c.part()
		if architecture != "" && !strings.Contains(architecture, "Qwen") {
			hint = fmt.Sprintf("a %s is not known; 'darkroom list families' has the generators that are, and conversations are of Qwen-VL models", architecture)
		}
		if part != "" {
			hint = fmt.Sprintf("it is one part of a pipeline, a %s: name the folder that has it and model_index.json", part)
		}
		c.Refuse("model.path", fmt.Sprintf("%s holds one model and no generator's pipeline", c.Model.Path), hint)
		return
	}
	patterns, adapted := c.Model.Trained()
	p, err := c.open(pipeline.Options{Pool: c.Pool, Train: patterns, Frozen: frozenOf(c.Model.Experts), Base: c.Model.Base, TextLength: c.Model.TextLength, TextLayers: c.Model.TextLayers})
	if err != nil {
		return // reported
	}
	defer p.Close()
	for i, at := range c.EachStage() {
		c.checkProcess(i, at, p)
		c.checkGuidance(i, at, p)
		c.checkClips(i, at, p)
		c.checkNegative(i, at)
	}
	c.checkSizes(p)
	c.noteFitted(p)
	c.checkSources(p)
	networks, err := openNetworks(p)
	if err != nil {
		c.Fail(map[bool]string{true: "model.train", false: "model.path"}[len(patterns) > 0], err)
		return
	}
	for _, n := range networks {
		if adapted {
			c.CheckAdapter(n.Params, known(p, n.Number), p.Targets())
		}
	}
	c.CheckMoves(partsOf(networks)...)
}

// generator is a folder of one.
type generator struct{ *model.Folder }

// checkProcess compares the sampler with the network's trained output.
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

// checkGuidance refuses a scale for a network without that input.
func (c generator) checkGuidance(turn int, at *experiment.Experiment, p *pipeline.Pipeline) {
	s, led := at.Sampler, at.Loss.KL.Guidance
	if s.GuideBy == "embedded" && led > 0 && !p.Defaults().Embedded {
		c.RefuseAt(turn, "loss.kl.guidance|loss.kl", fmt.Sprintf("the network in %s takes no scale of guidance, so %v would be ignored", c.Model.Path, led), `guidance_kind = "cfg" combines two outputs`)
	}
	if s.GuideBy == "embedded" && s.Guidance != 1 && !p.Defaults().Embedded {
		c.RefuseAt(turn, "sampler.guidance_kind|sampler.preset|preset|model.path", fmt.Sprintf("the network in %s takes no scale of guidance, so %v%s would be ignored", c.Model.Path, s.Guidance, c.presetOf("sampler.guidance")),
			`guidance_kind = "cfg" combines two outputs, for twice the passes; guidance = 1 is none`)
	}
}

// presetOf names the preset that sets a key, where one does.
func (c generator) presetOf(key string) string {
	if by := c.Origin(key); strings.HasPrefix(by, "preset ") {
		return ", of " + by + ","
	}
	return ""
}

// noteFitted warns of pictures to learn from that have another size than the model's: they are enlarged or reduced.
func (c generator) noteFitted(p *pipeline.Pipeline) {
	for _, at := range c.EachStage() {
		if !at.Rollout.Offline || len(at.Sampler.Sizes) > 0 {
			continue
		}
		want := experiment.Size{cmp.Or(at.Sampler.Width, p.Defaults().Width), cmp.Or(at.Sampler.Height, p.Defaults().Height)}
		for _, name := range at.Rollout.Prompts {
			pages, err := album.Open(name)
			if err != nil {
				continue // reported where prompts are read
			}
			width, height, err := pages[0].Size(0)
			note := fmt.Sprintf("pictures of %s are fitted to %dx%d: the first has %dx%d", name, want[0], want[1], width, height)
			if err == nil && (width != want[0] || height != want[1]) && !slices.Contains(c.Notes, note) {
				c.Notes = append(c.Notes, note)
			}
		}
	}
}

// open opens the folder. Its error about a text's length is the mistake where it opens without one.
func (c generator) open(o pipeline.Options) (*pipeline.Pipeline, error) {
	p, err := pipeline.Open(c.Dir, o)
	if err == nil && o.TextLength != 0 && !p.ReadsLength() {
		err = errors.Join(fmt.Errorf("%s in %s has no T5 encoder, and no zeros in its place: the length of its texts is fixed", p.Class(), c.Model.Path), p.Close())
		c.Fail("model.text_length", err)
		return nil, err
	}
	if err != nil && len(o.TextLayers) > 0 {
		o.TextLayers = nil
		without, other := pipeline.Open(c.Dir, o)
		if other == nil {
			c.Fail("model.text_layers", err)
			return nil, errors.Join(err, without.Close())
		}
		err = other
	}
	if err == nil || o.TextLength == 0 {
		if err != nil {
			c.Fail("model.path", err)
		}
		return p, err
	}
	o.TextLength = 0
	without, other := pipeline.Open(c.Dir, o)
	if other != nil {
		c.Fail("model.path", other)
		return nil, other
	}
	c.Fail("model.text_length", err)
	return nil, errors.Join(err, without.Close())
}

// checkNegative refuses a text that guidance is to lead away from where it combines no outputs.
func (c generator) checkNegative(turn int, at *experiment.Experiment) {
	s := at.Sampler
	elsewhere := max(c.Evaluate.Guided, at.Loss.KL.Guidance)
	if s.Negative == "" || GuidanceOf(s).Combines() || elsewhere > 1 && s.GuideBy != "embedded" {
		return
	}
	c.RefuseAt(turn, "sampler.negative", fmt.Sprintf("guidance %v by %q combines no two outputs, and leads away from no text", s.Guidance, s.GuideBy), `guidance above 1 with guidance_kind = "cfg", or leave it out`)
}

// networks are the parameters of a folder's networks that are trained, as Open opens them.
func networks(dir string, m experiment.Model, pool *tensor.Pool) ([]model.Network, func() error, error) {
	patterns, _ := m.Trained()
	p, err := pipeline.Open(dir, pipeline.Options{Pool: pool, Precision: pipeline.BF16, Train: patterns, Frozen: frozenOf(m.Experts), Base: m.Base})
	if err != nil {
		return nil, nil, err
	}
	all, err := openNetworks(p)
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return all, p.Close, nil
}
