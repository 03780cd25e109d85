package pictures

import (
	"context"
	"errors"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Policy makes pictures: a pipeline's denoiser, of which an adapter or some parameters are trained.
//
// Invariants (tests): what Eval answers at a recorded state has the bits that Roll had, in
// any batch; gradients have the same bytes for any Micro.
type Policy struct {
	Pipeline *pipeline.Pipeline
	At       pipeline.Shape
	Guidance pipeline.Guidance
	// Texts are the encoded prompt of a number, and the one that guidance leads away from.
	Texts func(prompt int) (text, negative *pipeline.Text)
	Draws trainer.Draws
	Micro int // points in a pass; 0: as many as make about 4096 tokens

	// The sampler of the iteration: its rows, what the network is told at each, and the
	// steps that may be judged. With a Forest, samples are the leaves of trees.
	Rows    []sde.Row
	Times   []float64
	Trained []int
	Forest  *Forest
	Passes  ledger.Passes // so far

	Context  context.Context     // stops a roll
	Progress func(done, all int) // of a roll: pictures through the network
	learner  *model.Learner      // made by Learn
	pending  func()              // gives the last answers' tape back
}

// Roll paints one picture a key.
func (p *Policy) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	list := make([]pipeline.Picture, len(keys))
	for i, k := range keys {
		list[i].Text, list[i].Negative = p.Texts(k.Prompt)
		list[i].StartKey, list[i].StepKey = p.Draws.Keys(k)
		if p.Forest != nil {
			p.Forest.hang(&list[i], p.Draws, k)
		}
	}
	sampler := pipeline.Sampler{At: p.At, Rows: p.Rows, Times: p.Times, Guidance: p.Guidance, Record: p.Trained, Batch: p.Micro, Progress: p.Progress}
	if p.Forest != nil {
		sampler.Quiet = p.Forest.Quiet
	}
	rolled := 0
	sampler.Progress = func(done, all int) {
		if rolled = done; p.Progress != nil {
			p.Progress(done, all)
		}
	}
	var tracks []pipeline.Track
	err := p.with(w, func() (err error) {
		tracks, err = p.Pipeline.Sample(p.context(), list, sampler)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.Passes.Rollout += rolled * p.each()
	samples := make([]trainer.Sample, len(keys))
	for i, t := range tracks {
		samples[i].Key, samples[i].Item.Final = keys[i], t.Final
		d := &samples[i].Decisions
		for _, s := range t.Steps {
			d.Step, d.State, d.Time = append(d.Step, s.Index), append(d.State, s.Before), append(d.Time, s.Time)
			d.Choice, d.Mean, d.LogProb = append(d.Choice, s.After), append(d.Mean, s.Mean), append(d.LogProb, s.LogProb)
			d.Trained = append(d.Trained, true)
		}
	}
	return samples, nil
}

func (p *Policy) context() context.Context {
	if p.Context == nil {
		return context.Background()
	}
	return p.Context
}

// Eval asks the network. Points that fit one pass are remembered for Back; of more, Back
// computes each pass once more before it goes backward, so that memory does not grow.
func (p *Policy) Eval(w trainer.Weights, at []trainer.Point) (trainer.Answers, error) {
	if w == trainer.Current {
		p.drop()
	}
	passes := slices.Collect(slices.Chunk(p.questions(at), p.perPass()))
	if w == trainer.Current {
		p.Passes.Train += len(at) * p.each()
	} else {
		p.Passes.Reference += len(at) * p.each()
	}
	var out trainer.Answers
	if w == trainer.Current && len(passes) == 1 {
		tape := p.Pipeline.Tape(true, false)
		answers, err := p.Pipeline.Ask(tape, p.At, p.Guidance, passes[0])
		if err != nil {
			tape.Reset()
			return out, err
		}
		p.pending = tape.Reset
		out.Outputs = answers.Outputs
		out.Back = func(grads [][]float64) error {
			defer func() { tape.Reset(); p.pending = nil }()
			p.Passes.Backward += len(at) * p.each()
			return answers.Back(grads)
		}
		return out, nil
	}
	err := p.with(w, func() error {
		tape := p.Pipeline.Tape(false, false)
		defer tape.Reset()
		for _, pass := range passes {
			answers, err := p.Pipeline.Ask(tape, p.At, p.Guidance, pass)
			if err != nil {
				return err
			}
			out.Outputs = append(out.Outputs, answers.Outputs...)
			tape.Reset()
		}
		return nil
	})
	if err == nil && w == trainer.Current {
		out.Back = func(grads [][]float64) error { return p.back(passes, grads) }
	}
	return out, err
}

// drop lets answers go that nobody took back.
func (p *Policy) drop() {
	if p.pending != nil {
		p.pending()
	}
	p.pending = nil
}

// questions are points with their texts.
func (p *Policy) questions(at []trainer.Point) []pipeline.Question {
	questions := make([]pipeline.Question, len(at))
	for i, point := range at {
		questions[i] = pipeline.Question{Latents: point.State, Time: point.Time}
		questions[i].Text, questions[i].Negative = p.Texts(point.Key.Prompt)
	}
	return questions
}

// each is how many runs an output takes.
func (p *Policy) each() int {
	if p.Guidance.Combines() {
		return 2
	}
	return 1
}

// perPass is how many points a pass has.
func (p *Policy) perPass() int {
	if p.Micro > 0 {
		return p.Micro
	}
	return max(1, 4096/max(1, p.At.Tokens))
}

// back computes each pass again, and goes backward.
func (p *Policy) back(passes [][]pipeline.Question, grads [][]float64) error {
	tape := p.Pipeline.Tape(true, false)
	defer tape.Reset()
	for _, pass := range passes {
		if len(grads) < len(pass) {
			return errors.New("fewer gradients than answers")
		}
		answers, err := p.Pipeline.Ask(tape, p.At, p.Guidance, pass)
		if err != nil {
			return err
		}
		if err := answers.Back(grads[:len(pass)]); err != nil {
			return err
		}
		p.Passes.Backward += len(pass) * p.each()
		grads = grads[len(pass):]
		tape.Reset()
	}
	return nil
}

// Params are the trained weights. Learn comes first.
func (p *Policy) Params() trainer.Params { return p.learner }

// Learn says what is trained: an adapter that was put on the denoiser, or, without one, the
// parameters that the pipeline was opened to train. needs are the further sets of weights.
func (p *Policy) Learn(a *nn.Adapters, o optim.Options, needs ...trainer.Weights) error {
	params, err := p.Pipeline.Denoiser()
	if err != nil {
		return err
	}
	p.learner, err = model.NewLearner(params.Trained(), a, o, needs...)
	return err
}

// Free gives back what Learn and the last Eval took.
func (p *Policy) Free() {
	p.drop()
	p.learner.Free()
	p.learner = nil
}

// with runs f under a set of weights.
func (p *Policy) with(w trainer.Weights, f func() error) error { return p.learner.With(w, f) }

// Forget drops other weights (Learner.Forget).
func (p *Policy) Forget(w trainer.Weights) error { return p.learner.Forget(w) }

// Twin is a policy that asks another pipeline in the same way; nothing of it is trained.
func (p *Policy) Twin(other *pipeline.Pipeline) *Policy {
	twin := *p
	twin.Pipeline, twin.learner, twin.pending = other, nil, nil
	return &twin
}

// Moved are the parameters that move.
func (p *Policy) Moved() []*autograd.Param { return p.learner.Moved() }
