package training

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/trainer/rollout"
	"github.com/darkroom-rl/darkroom/trainer/rollout/episodes"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// What is particular to a run whose samples are conversations: the model, what rewards are told
// of one, and credit for tokens.

// learning is a policy that is trained, a painter or a speaker.
type learning interface {
	trainer.Policy
	State() ([]*autograd.Param, *optim.Mover, map[trainer.Weights]*optim.Shadow)
	Forget(w trainer.Weights) error
}

// learning is the model's policy, that of all ranks.
func (m *model) learning() learning {
	if m.group != nil {
		return m.group
	}
	return m.own()
}

// own is the policy of one rank.
func (m *model) own() learning {
	if m.talk != nil {
		return m.talk
	}
	return m.policy
}

// trained is which parameters a folder is opened to train; none where there is an adapter.
func trained(e *experiment.Experiment) (patterns []string, adapted bool) {
	switch {
	case len(e.Model.Train) == 1 && e.Model.Train[0] == "lora":
		return nil, true
	case len(e.Model.Train) == 1 && e.Model.Train[0] == "full":
		return []string{".*"}, false
	}
	return e.Model.Train, false
}

// openProgram sees whether the model's code can be run, before anything is opened that takes long.
func (t *Training) openProgram() error {
	if t.Episode == nil || t.Episode.Exec == nil {
		return nil
	}
	ready, err := program.Probe(context.Background(), t.Episode.Exec)
	if err == nil {
		t.Say("code that the model writes is run by %s: %s", t.Episode.Exec.Words(), ready)
	}
	return err
}

// openTalker opens a vision-language model's folder. Questions open their pictures when asked.
func openTalker(e *experiment.Experiment, o Options, lists ...[]prompts.Prompt) (*model, error) {
	dir, err := assets.Resolve(e.Model.Path)
	if err != nil {
		return nil, err
	}
	patterns, adapted := trained(e)
	s, err := episodes.Open(dir, episodes.Options{Pool: tensor.NewPool(o.Backend), F32: e.Model.Precision == "f32", Train: patterns})
	if err != nil {
		return nil, err
	}
	m := &model{speaker: s}
	key := rng.New(uint64(e.Run.Seed))
	if adapted {
		l := e.Model.LoRA
		m.lora = nn.LoRA{Rank: l.Rank, Alpha: float32(l.Alpha), Targets: l.Targets, Key: key.With("lora")}
		if m.adapters, err = s.Params.AddLoRA(m.lora); err != nil {
			return nil, errors.Join(fmt.Errorf("model.lora: %w", err), m.close())
		}
	}
	protocol, err := e.Episode.Play()
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.talk = &episodes.Policy{Speaker: s, Protocol: protocol, Limits: e.Episode.Limits(), Turn: e.Episode.TurnTokens, Parallel: e.Episode.Parallel, Sampling: e.Episode.Sampling,
		Silence: e.Episode.Silence, Exec: e.Episode.Exec, Draws: rollout.Draws{Root: key}, Ask: asker(e, lists)}
	err = m.talk.Learn(m.adapters, e.Optim, needed(e)...)
	if err == nil && hasCritic(e) {
		err = m.talk.Expect(key.With("values"), e.Optim)
	}
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// asker asks the question of a number, training's first.
func asker(e *experiment.Experiment, lists [][]prompts.Prompt) func(n int) (episodes.Question, error) {
	files := []string{e.Rollout.Prompts, e.Evaluate.Prompts}
	return func(n int) (episodes.Question, error) {
		at := 0
		for at < len(lists)-1 && n >= len(lists[at]) {
			n -= len(lists[at])
			at++
		}
		p := lists[at][n]
		pictures, err := p.Pictures(filepath.Dir(files[at]))
		if err != nil {
			return episodes.Question{}, err
		}
		q := episodes.Asked(p.Text, pictures...)
		if e.Episode.System != "" {
			q.Messages = append([]vlm.Message{{Role: "system", Content: vlm.Text(e.Episode.System)}}, q.Messages...)
		}
		return q, nil
	}
}

// transcript is what rewards are told of a conversation.
func transcript(e *trainer.Episode) *rewards.Transcript {
	t := &rewards.Transcript{}
	for i, turn := range e.Turns {
		one := rewards.Turn{}
		if i < len(e.Texts) {
			one.Text = e.Texts[i]
		}
		for _, c := range turn.Calls {
			if one.Tool == "" {
				one.Tool = c.Tool
			}
			t.Failed = c.Refused != ""
		}
		if len(turn.Calls) > 0 && one.Tool == "" {
			one.Tool = "unreadable"
		}
		t.Turns = append(t.Turns, one)
	}
	for at, on := range e.Sampled {
		if on {
			t.Tokens = append(t.Tokens, int(e.Tokens[at]))
		}
	}
	for _, s := range e.Shots {
		if s.Turn < 0 {
			if t.Width == 0 {
				t.Width, t.Height = s.Width, s.Height
			}
			continue
		}
		t.Pictures++
		if s.Root >= 0 {
			t.Crops = append(t.Crops, rewards.Crop{Picture: s.Root, Box: boxes.Box(s.Box)})
		}
	}
	return t
}

// shape makes totals of what [episode] says of long answers and of those that were cut off.
func (t *Training) shape(samples []trainer.Sample, totals []float64) {
	for i, s := range samples {
		if e := s.Item.Episode; e != nil {
			totals[i] = t.turn.Episode.Shaped(totals[i], len(e.Response()), e.End == "cut" || e.Over)
		}
	}
}

// spoken is the objective of tokens.
func spoken(t *Training, turn experiment.Turn, anchor trainer.Weights) trainer.Objective {
	kl := turn.Loss.KL
	o := trainer.Spoken{Loss: turn.Loss.Tokens(), Reference: kl.Weight > 0 && kl.Reference != "old", Anchor: anchor}
	if turn.Advantage.Estimator == "gae" {
		o.Critic = &trainer.Critic{Clip: turn.Loss.Value.ClipRange, Aggregate: loss.Aggregate{Mode: "token-mean"}}
	}
	if turn.Loss.Objective == "clip-cov" {
		o.Draw = func(k trainer.Key, token int) float64 {
			return t.root().With("clip-cov").Iteration(k.Iteration).Prompt(uint64(k.Prompt)).Sample(k.Sample).Step(token).Draw().Float64()
		}
	}
	return o
}

// credit spreads what episodes earned over their tokens, where advantages of samples are not all
// there is to it: rewards to come (REINFORCE++), whitening over all tokens.
func (t *Training) credit(samples []trainer.Sample, advantages, totals []float64) error {
	c := t.turn.Advantage.Credit
	if t.turn.Episode == nil || c.How == "spread" && !c.Whiten.On {
		return nil
	}
	rows := advantage.Tokens{Outcome: advantages}
	for _, s := range samples {
		rows.Groups = append(rows.Groups, s.Key.Prompt)
		mask := make([]float64, len(s.Item.Episode.Response()))
		for k, step := range s.Decisions.Step {
			if s.Decisions.Trained[k] {
				mask[step-s.Item.Episode.Prompt] = 1
			}
		}
		rows.Mask = append(rows.Mask, mask)
	}
	if c.How == "gae" {
		if err := t.baselines(&rows, samples, totals); err != nil {
			return err
		}
		rows.Rewards = advantage.AtEnd(totals, rows.Mask, nil, 0)
	}
	of, returns, err := c.Of(rows)
	if err != nil {
		return err
	}
	for i := range samples {
		d := &samples[i].Decisions
		d.Advantage = perDecision(samples[i], of[i])
		if rows.Values != nil {
			d.Value, d.Return = perDecision(samples[i], rows.Values[i]), perDecision(samples[i], returns[i])
		}
		if c.How == "gae" && !math.IsNaN(advantages[i]) {
			advantages[i] = mean(d.Advantage) // what is told of the sample, and whether it teaches anything
		}
	}
	return nil
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(1, len(x)))
}

// perDecision are an answer's numbers at what the model chose.
func perDecision(s trainer.Sample, row []float64) []float64 {
	var out []float64
	for _, step := range s.Decisions.Step {
		out = append(out, row[step-s.Item.Episode.Prompt])
	}
	return out
}
