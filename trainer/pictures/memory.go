package pictures

import (
	"errors"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// Memory predicts what a run takes by making an iteration of it on an empty backend that counts, in
// the code that will run: no weight is read, and of an iteration's samples as many are made as go
// through a network at once.
func Memory(e *experiment.Experiment, dry model.Dry) (need *model.Memory, err error) {
	o := model.Options{Backend: dry}
	if o.Train, err = prompts.Open(e.Rollout.Prompts); err != nil {
		return nil, err
	}
	if e.Evaluate.Prompts != "" {
		if o.HeldOut, err = prompts.Open(e.Evaluate.Prompts); err != nil {
			return nil, err
		}
	}
	if len(o.Train) == 0 {
		return nil, errors.New("there are no prompts to count by")
	}
	m, err := Open(e, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	need = &model.Memory{}
	phase := func(into *int64) {
		*into = int64(dry.Peak())
		dry.ResetPeak()
	}
	first, err := m.Pipeline.Encode(o.Prompt(0).Text) // beside the network, as when it is drawn
	if err != nil {
		return nil, err
	}
	textBytes := first[0].Bytes()
	phase(&need.Texts)
	turn, err := e.Turn(0)
	if err != nil {
		return nil, err
	}
	p, all := m.Policy, e.Rollout.PromptsPerIteration*e.Rollout.Group
	if err := m.follow(p, turn, rng.New(uint64(e.Run.Seed)), false); err != nil {
		return nil, err
	}
	largest, err := m.largest(turn)
	if err != nil {
		return nil, err
	}
	p.Form, p.Forms = *largest, nil
	p.Trained = turn.Trained
	keys := make([]trainer.Key, min(all, max(1, 4096/m.At.Tokens, (1<<18)/(m.At.Width*m.At.Height))))
	for i := range keys { // others than those of its group, as in an iteration
		keys[i] = trainer.Key{Prompt: i / e.Rollout.Group % len(o.Train), Sample: i}
	}
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		return nil, err
	}
	phase(&need.Sampling)
	if _, err := m.Items(samples); err != nil {
		return nil, err
	}
	phase(&need.Decoding)
	points := make([]trainer.Point, len(samples))
	for i, s := range samples {
		points[i] = trainer.Point{State: s.Item.Final, Time: turn.Schedule.Timesteps[0]}
	}
	if !turn.Noised() && turn.Loss.NoiseFloor != "off" && e.Model.Precision == "bf16" {
		if err := m.inF32(func(p *Policy) error {
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
	texts := min(int64(o.Len()), max(int64(e.Rollout.PromptsPerIteration), mostRemembered/max(1, textBytes))) * textBytes
	need.Samples = texts + 2*int64(all)*int64(8*(3*len(turn.Trained)+6)*m.At.Len()+m.At.Width*m.At.Height*3*(1+4+4))
	return need, nil
}

// largest is the form of the largest pictures that a turn, or an evaluation, makes.
func (m *Model) largest(turn experiment.Turn) (*Form, error) {
	held := turn
	held.Evaluates = true
	var most *Form
	for _, size := range slices.Concat(m.sizes(turn), m.sizes(held), m.own) {
		f, err := m.formOf(turn, size)
		if err != nil {
			return nil, err
		}
		if most == nil || f.At.Tokens > most.At.Tokens {
			most = f
		}
	}
	return most, nil
}
