package training

import (
	"errors"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/trainer/rollout"
)

// Need is bytes of memory beside the program itself: the most in each phase of an iteration, in
// their order, and what the host holds of its samples. Rewards that are networks are not in it.
type Need struct {
	Texts    int64 `json:"texts"`
	Sampling int64 `json:"sampling"`
	Decoding int64 `json:"decoding"`
	Check    int64 `json:"check"` // the network in fp32, as a stage begins
	Training int64 `json:"training"`
	Samples  int64 `json:"samples"`
}

// Peak is the most at once.
func (n Need) Peak() int64 { return n.PeakOf(1) }

// PeakOf is that of several ranks which share a memory. Each holds the model, and asks it as much at
// once as one alone.
func (n Need) PeakOf(ranks int) int64 {
	return int64(ranks)*max(n.Texts, n.Sampling, n.Decoding, n.Check, n.Training) + n.Samples
}

// Needs predicts what a run takes by making an iteration of it on an empty backend that counts, in
// the code that will run: no weight is read, and of an iteration's samples as many are made as go
// through a network at once.
func Needs(e *experiment.Experiment, dry pipeline.Dry) (need *Need, err error) {
	if e.Episode != nil {
		return nil, errors.New("the memory of language models is not predicted yet")
	}
	var lists [][]prompts.Prompt
	for _, path := range []string{e.Rollout.Prompts, e.Evaluate.Prompts} {
		if path == "" {
			continue
		}
		list, err := prompts.Open(path)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	if len(lists) == 0 || len(lists[0]) == 0 {
		return nil, errors.New("there are no prompts to count by")
	}
	m, err := openModel(e, Options{Backend: dry}, lists...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	need = &Need{}
	phase := func(into *int64) {
		*into = int64(dry.Peak())
		dry.ResetPeak()
	}
	phase(&need.Texts)
	turn, err := e.Turn(0)
	if err != nil {
		return nil, err
	}
	p, all := m.policy, e.Rollout.PromptsPerIteration*e.Rollout.Group
	p.Rows, p.Times, p.Trained, p.Guidance = turn.Rows, turn.Schedule.Timesteps, turn.Trained, guidance(turn.Sampler)
	keys := make([]trainer.Key, min(all, max(1, 4096/m.at.Tokens, (1<<18)/(m.at.Width*m.at.Height))))
	for i := range keys { // others than those of its group, as in an iteration
		keys[i] = trainer.Key{Prompt: i / e.Rollout.Group % len(lists[0]), Sample: i}
	}
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		return nil, err
	}
	phase(&need.Sampling)
	if _, err := m.pictures(samples); err != nil {
		return nil, err
	}
	phase(&need.Decoding)
	points := make([]trainer.Point, len(samples))
	for i, s := range samples {
		points[i] = trainer.Point{State: s.Item.Final, Time: turn.Schedule.Timesteps[0]}
	}
	if !turn.Noised() && turn.Loss.NoiseFloor != "off" && e.Model.Precision == "bf16" {
		if err := m.inF32(func(p *rollout.Pictures) error {
			_, err := p.Eval(trainer.Current, points[:min(len(points), mostChecked)])
			return err
		}); err != nil {
			return nil, err
		}
		phase(&need.Check)
	}
	answers, err := p.Eval(trainer.Current, points)
	if err == nil {
		err = answers.Back(answers.Outputs)
	}
	if err != nil {
		return nil, err
	}
	p.Params().Move(1, 0)
	phase(&need.Training)
	// Of a step before, after and their mean, in float64; a picture in bytes and, while it is
	// decoded and judged, in fp32 twice. All of it as much again: Go's collector lets garbage lie
	// up to what lives.
	need.Samples = 2 * int64(all) * int64(8*(3*len(turn.Trained)+6)*m.at.Len()+m.at.Width*m.at.Height*3*(1+4+4))
	return need, nil
}
