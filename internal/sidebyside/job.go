package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// job is the input of the other program.
type job struct {
	Model       string      `json:"model"`
	Seed        int         `json:"seed"`
	Threads     int         `json:"threads"`
	Rank        int         `json:"rank"`
	Alpha       float64     `json:"alpha"`
	Targets     []string    `json:"targets"`
	Sigmas      []float64   `json:"sigmas"`
	Noise       float64     `json:"noise"`
	Group       int         `json:"group"`
	AdvEps      float64     `json:"advantage_eps"`
	AdvClip     float64     `json:"advantage_clip"`
	Clip        float64     `json:"clip_range"`
	WeightDecay float64     `json:"weight_decay"`
	Betas       [2]float64  `json:"betas"`
	AdamEps     float64     `json:"adam_eps"`
	GradClip    float64     `json:"grad_clip"`
	EvalEvery   int         `json:"evaluate_every"`
	EvalSamples int         `json:"evaluate_samples"`
	Iterations  []iteration `json:"iterations"`
	Train       []scene     `json:"train"`
	HeldOut     []scene     `json:"heldout"`
}

// iteration is the work of both programs in one iteration.
type iteration struct {
	Prompts []int     `json:"prompts"`
	Window  []int     `json:"window"`
	Rates   []float64 `json:"rates"` // of its updates
}

// scene is a caption with its objects.
type scene struct {
	Prompt     string   `json:"prompt"`
	Background string   `json:"background"`
	Objects    []object `json:"objects"`
}

type object struct {
	Color string     `json:"color"`
	Shape string     `json:"shape"`
	Box   [4]float64 `json:"box"`
}

// captions are different scenes, split as everywhere: 240 to train on and 48 held out.
func captions() (train, heldOut []scenes.Scene) {
	draw, seen := rng.New(77).With("captions of two programs").Draw(), map[string]bool{}
	for len(train) < 240 || len(heldOut) < 48 {
		s := scenes.Random(draw, scenes.Mix{Relation: 0.75, Count: 0.25})
		held := scenes.HeldOut(s.Prompt)
		switch {
		case seen[s.Prompt]:
		case held && len(heldOut) < 48:
			heldOut = append(heldOut, s)
		case !held && len(train) < 240:
			train = append(train, s)
		}
		seen[s.Prompt] = true
	}
	return train, heldOut
}

// writeCaptions writes the lists that the experiment names.
func writeCaptions(dir string, train, heldOut []scenes.Scene) error {
	for name, list := range map[string][]scenes.Scene{"train.txt": train, "heldout.txt": heldOut} {
		var text []byte
		for _, s := range list {
			text = append(append(text, s.Prompt...), '\n')
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// newJob describes the experiment in numbers.
func newJob(e *experiment.Experiment, threads int, train, heldOut []scenes.Scene) (*job, error) {
	model, err := assets.Resolve(e.Model.Path)
	if err != nil {
		return nil, err
	}
	o := e.Optim
	if o.Steps == 0 {
		o.Steps = e.Run.Iterations * o.Updates
	}
	j := &job{Model: model, Seed: e.Run.Seed, Threads: threads, Rank: e.Model.LoRA.Rank, Alpha: e.Model.LoRA.Alpha, Targets: e.Model.LoRA.Targets,
		Noise: e.Sampler.Noise, Group: e.Rollout.Group, AdvEps: e.Advantage.Eps, AdvClip: e.Advantage.Clip, Clip: e.Loss.ClipRange,
		WeightDecay: o.WeightDecay, Betas: o.Betas, AdamEps: o.Eps, GradClip: o.GradClip, EvalEvery: e.Evaluate.Every, EvalSamples: e.Evaluate.Samples,
		Train: told(train), HeldOut: told(heldOut)}
	key := rng.New(uint64(e.Run.Seed)).With("prompts")
	for i := range e.Run.Iterations {
		settings, err := e.Iteration(i)
		if err != nil {
			return nil, err
		}
		j.Sigmas = settings.Schedule.Sigmas
		one := iteration{Prompts: prompts.Pick(key, i, e.Rollout.PromptsPerIteration, len(train)), Window: settings.Trained}
		for u := range o.Updates {
			one.Rates = append(one.Rates, o.Rate(i*o.Updates+u))
		}
		j.Iterations = append(j.Iterations, one)
	}
	return j, nil
}

func told(list []scenes.Scene) []scene {
	var all []scene
	for _, s := range list {
		one := scene{Prompt: s.Prompt, Background: s.Background}
		for _, o := range s.Objects {
			one.Objects = append(one.Objects, object{o.Color, o.Shape, o.Box})
		}
		all = append(all, one)
	}
	return all
}

func (j *job) write(path string) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
