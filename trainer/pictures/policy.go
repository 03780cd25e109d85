package pictures

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Policy makes pictures: a pipeline's denoiser, of which an adapter or some parameters are trained.
//
// Invariants (tests): Eval's outputs at a recorded state have the bits of Roll, in any batch; gradients have the same
// bytes for any Micro.
type Policy struct {
	Pipeline *pipeline.Pipeline
	Guidance pipeline.Guidance
	// Led is the guidance of the policy's targets: the weights Reference and Teacher; nil: Guidance. With more than
	// the policy's own it learns to do without guidance (Meng et al., 2023, "On Distillation of Guided Diffusion
	// Models").
	Led *pipeline.Guidance
	// Texts are the encoded prompts of some numbers, and the texts that guidance leads away from.
	Texts func(prompts []int) (texts, negatives []*pipeline.Text, err error)
	// TextNoise is how much noise the texts of a roll have, beside the root mean square of their states.
	TextNoise float64
	// Ready makes sure, before a roll, that the texts of its prompts are at hand; nil: Texts reads them when they come.
	Ready func(prompts []int) error
	// Sources are the sources of pictures of some keys, nil where they are made of texts alone; without it all are.
	Sources       func(keys []trainer.Key) ([]*pipeline.Given, error)
	Draws         trainer.Draws
	Checkpointing int  // of autograd.AllBlocks blocks, how many backward computes again; no bit depends on it
	prompts       int  // that are rolled at once; 0: all
	onDisk        int  // that are encoded to the disk at once
	Micro         int  // points in a pass; 0: as many as make about 4096 tokens
	points        int  // in the last roll or answer
	apart         bool // the device's memory is not the host's
	twin          bool // it computes beside another policy: half as many points, as fp32 takes, and no backward

	// The sampler of the iteration: that of pictures of its one size, or, with Forms, of the first one of
	// several, and the steps that may be judged.
	Form
	Forms   func(k trainer.Key) *Form
	Trained []int
	Passes  ledger.Passes // so far
	unfit   error         // why it cannot sample

	Logf     func(format string, args ...any) // reports less memory; nil: nobody reads
	Context  context.Context                  // stops a roll
	Progress func(done, all int)              // of a roll: pictures through the network
	learner  *model.Learner                   // made by Learn
	teacher  *pipeline.Pipeline               // nil: none
	pending  func()                           // gives the last answers' tape back
	known    recalled                         // the network's outputs during the roll
}

// Roll paints one picture a key.
func (p *Policy) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	if p.unfit != nil {
		return nil, p.unfit
	}
	p.known = p.remember(w)
	samples := make([]trainer.Sample, len(keys))
	if p.Ready != nil {
		if err := p.Ready(distinct(promptsOf(keys))); err != nil {
			return nil, err
		}
	}
	told := telling{left: len(keys), say: p.Progress}
	most := p.prompts
	if p.TextNoise > 0 { // each sample has a text of its own
		most = (most*len(distinct(promptsOf(keys))) + len(keys) - 1) / max(1, len(keys))
	}
	for _, portion := range portions(keys, most) {
		if err := p.rollPortion(w, keys[portion[0]:portion[1]], samples[portion[0]:portion[1]], &told); err != nil {
			return nil, err
		}
	}
	p.Passes.Rollout += told.before * p.each()
	return samples, nil
}

// rollPortion paints some of a roll's keys into their samples.
func (p *Policy) rollPortion(w trainer.Weights, keys []trainer.Key, into []trainer.Sample, told *telling) error {
	list, err := p.canvases(keys)
	if err != nil {
		return err
	}
	forms, places := p.alike(keys)
	for _, f := range forms {
		n := len(places[f])
		tracks, err := p.rollForm(w, f, trainer.Pick(list, places[f]), func(done, all int) { told.hear(done, all, n) })
		if err != nil {
			return err
		}
		told.next(n)
		for i, t := range tracks {
			p.known.add(t)
			into[places[f][i]] = sampleOf(keys[places[f][i]], f.At, t)
		}
	}
	return nil
}

// telling adds up how far the parts of a roll are.
type telling struct {
	before, rolled int // passes of the parts that are done, and of the one under way
	left           int // keys of the parts that are not done
	say            func(done, all int)
}

// hear is called with the progress of a part of n keys; those after it count as if they took as many passes.
func (t *telling) hear(done, all, n int) {
	if t.rolled = done; t.say != nil {
		t.say(t.before+done, t.before+all+all*(t.left-n)/n)
	}
}

func (t *telling) next(n int) {
	t.before, t.rolled, t.left = t.before+t.rolled, 0, t.left-n
}

// canvases are the pictures of keys before anything is painted.
func (p *Policy) canvases(keys []trainer.Key) ([]pipeline.Picture, error) {
	sources, err := p.sources(keys)
	if err != nil {
		return nil, err
	}
	texts, negatives, err := p.Texts(promptsOf(keys))
	if err != nil {
		return nil, err
	}
	list := make([]pipeline.Picture, len(keys))
	for i, k := range keys {
		list[i].Text, list[i].Negative, list[i].Given = texts[i], negatives[i], sources[i]
		if p.TextNoise > 0 {
			list[i].Text = disturbed(texts[i], p.TextNoise, p.Draws.Of("text noise", k))
		}
		list[i].StartKey, list[i].StepKey = p.Draws.Keys(k)
		if f := p.form(k); f.Forest != nil {
			f.Forest.hang(&list[i], p.Draws, k)
		} else if f.One != nil {
			f.One.draw(&list[i], p.Draws, k)
		}
	}
	return list, nil
}

// promptsOf are the prompts' numbers.
func promptsOf(keys []trainer.Key) []int {
	all := make([]int, len(keys))
	for i, k := range keys {
		all[i] = k.Prompt
	}
	return all
}

// rollForm paints pictures of one size.
func (p *Policy) rollForm(w trainer.Weights, f *Form, list []pipeline.Picture, progress func(done, all int)) (tracks []pipeline.Track, err error) {
	sampler := pipeline.Sampler{At: f.At, Rows: f.Rows, Times: f.Times, Guidance: p.Guidance, Record: p.Trained, Batch: p.Micro, Progress: progress}
	if f.Forest != nil {
		sampler.Deterministic = f.Forest.Deterministic
	} else if f.One != nil {
		sampler.Deterministic = f.One.Deterministic
	}
	p.points = len(list)
	err = p.attempt(false, func() error {
		sampler.Batch = p.Micro
		return p.with(w, func() (err error) {
			tracks, err = p.Pipeline.Sample(p.context(), list, sampler)
			return err
		})
	})
	return tracks, err
}

// Card: memory that runs out in a pass. No bit depends on the size of passes, nor on the blocks that backward computes
// again: a pass that failed is repeated with less. A gradient is gathered anew from its first pass.

// Attempt implements trainer.Thrifty.
func (p *Policy) Attempt(f func() error) error { return p.attempt(true, f) }

// attempt runs f again and again with less memory where it runs out, until nothing less is left.
func (p *Policy) attempt(trains bool, f func() error) error {
	if p.Pipeline.Tokens != nil { // other ranks are in the midst of the same pass
		return f()
	}
	for {
		passes := p.Passes
		if trains {
			p.drop()
		}
		err := p.Pipeline.Pool.Attempt(f)
		if !memoryIsOut(err) {
			return err
		}
		if !trains {
			p.drop()
		}
		p.Passes, p.pending = passes, nil
		p.Pipeline.Reclaimed()
		p.learner.Settled()
		if p.teacher != nil {
			p.teacher.Reclaimed()
		}
		less := p.narrow(trains)
		if less == "" {
			return err
		}
		if p.Logf != nil {
			p.Logf("memory ran out in a pass: %s from now on (no bit depends on it): %v", less, err)
		}
	}
}

// memoryIsOut reports whether a device had too little memory.
func memoryIsOut(err error) bool {
	var out interface{ MemoryIsOut() bool }
	return errors.As(err, &out) && out.MemoryIsOut()
}

// narrow makes passes take less memory, and names the change; "": nothing takes less. Of matrices that lie elsewhere
// each pass fetches all, so that backward computes again before passes become smaller.
func (p *Policy) narrow(trains bool) string {
	n, again := min(p.perPass(&p.Form), max(1, p.points)), trains && p.Checkpointing < autograd.AllBlocks
	switch {
	case again && (n == 1 || p.Pipeline.Memory.Home != nn.Device):
		p.Checkpointing = autograd.AllBlocks
		return "backward computes blocks again"
	case n == 1 && trains && p.apart && !p.Pipeline.Memory.Aside:
		p.Pipeline.Memory.Aside = true
		return "inputs of blocks lie on the host"
	case n == 1:
		return ""
	}
	p.Micro = n / 2
	if p.Micro == 1 {
		return "one picture a pass"
	}
	return fmt.Sprintf("%d pictures a pass", p.Micro)
}

// sampleOf is a key's sample.
func sampleOf(k trainer.Key, at pipeline.Shape, t pipeline.Track) trainer.Sample {
	s := trainer.Sample{Key: k, Item: trainer.Item{Final: t.Final, Size: [2]int{at.Width, at.Height}, Frames: at.Frames}}
	d := &s.Decisions
	for _, s := range t.Steps {
		d.Step, d.State, d.Time = append(d.Step, s.Index), append(d.State, s.Before), append(d.Time, s.Time)
		d.Action, d.Mean, d.LogProb = append(d.Action, s.After), append(d.Mean, s.Mean), append(d.LogProb, s.LogProb)
		d.Trained = append(d.Trained, true)
	}
	return s
}

func (p *Policy) context() context.Context {
	if p.Context == nil {
		return context.Background()
	}
	return p.Context
}

// Params are the trained weights. Learn comes first.
func (p *Policy) Params() trainer.Params { return p.learner }

// Free gives back the memory of Learn and of the last Eval.
func (p *Policy) Free() {
	p.drop()
	p.learner.Free()
	p.learner = nil
}

// with runs f under a set of weights.
func (p *Policy) with(w trainer.Weights, f func() error) error { return p.learner.With(w, f) }

// Forget drops other weights (Learner.Forget).
func (p *Policy) Forget(w trainer.Weights) error { return p.learner.Forget(w) }

// Twin is a policy that asks another pipeline in the same way, the same network in fp32 or a teacher; nothing of it is
// trained.
func (p *Policy) Twin(other *pipeline.Pipeline) *Policy {
	twin := *p
	twin.Pipeline, twin.learner, twin.pending, twin.known, twin.twin = other, nil, nil, recalled{}, true
	return &twin
}

// Moved are the parameters that move.
func (p *Policy) Moved() []*autograd.Param { return p.learner.Moved() }

// How the network answers at recorded states, and takes the gradients of its answers.

// Eval runs the network. Points that fit one pass are remembered for Back; of more, Back computes each pass once more
// before it goes backward, so that memory does not grow. Outputs known from the roll are not computed again before
// that.
func (p *Policy) Eval(w trainer.Weights, at []trainer.Point) (trainer.Forward, error) {
	if w == trainer.Teacher {
		return p.taught(at)
	}
	if w == trainer.Current {
		p.drop()
	}
	passes, err := p.passes(at)
	if err != nil {
		return trainer.Forward{}, err
	}
	p.points = len(at)
	if w == trainer.Current {
		p.Passes.Train += len(at) * p.each()
	} else {
		p.Passes.Reference += len(at) * runs(p.guidanceOf(w))
	}
	guidance := p.guidanceOf(w)
	var out trainer.Forward
	if w == trainer.Current && len(passes) == 1 && !p.twin {
		tape := p.Pipeline.Tape(true, p.Checkpointing)
		forward, err := p.Pipeline.Forward(tape, passes[0].At, p.Guidance, passes[0].points)
		if err == nil && p.known.differs != nil { // others may have said the outputs
			passes[0].known = p.answered(passes[0])
			err = p.compare(passes[0], at, forward.Outputs)
		}
		if err != nil {
			tape.Reset()
			return out, err
		}
		p.pending = tape.Reset
		out.Outputs = forward.Outputs
		out.Back = func(grads [][]float64) error {
			defer func() { tape.Reset(); p.pending = nil }()
			p.Passes.Backward += len(at) * p.each()
			return forward.Back(grads)
		}
		return out, nil
	}
	err = p.with(w, func() error {
		tape := p.Pipeline.Tape(false, 0)
		defer tape.Reset()
		for i, pass := range passes {
			if w == trainer.Current {
				if passes[i].known = p.answered(pass); passes[i].known != nil {
					out.Outputs = append(out.Outputs, passes[i].known...)
					continue
				}
			}
			forward, err := p.Pipeline.Forward(tape, pass.At, guidance, pass.points)
			if err != nil {
				return err
			}
			out.Outputs = append(out.Outputs, forward.Outputs...)
			tape.Reset()
		}
		return nil
	})
	if err == nil && w == trainer.Current && !p.twin {
		out.Back = func(grads [][]float64) error {
			_, err := p.back(at, passes, grads)
			return err
		}
	}
	return out, err
}

// Replay implements model.Replayer: nothing known is compared.
func (p *Policy) Replay(at []trainer.Point, grads [][]float64) ([][]float64, error) {
	p.drop()
	passes, err := p.passes(at)
	if err != nil {
		return nil, err
	}
	p.points = len(at)
	p.Passes.Train += len(at) * p.each()
	return p.back(at, passes, grads)
}

// guidanceOf is how a set of weights follows prompts.
func (p *Policy) guidanceOf(w trainer.Weights) pipeline.Guidance {
	if p.Led != nil && (w == trainer.Reference || w == trainer.Teacher) {
		return *p.Led
	}
	return p.Guidance
}

// drop lets answers go that nobody took back.
func (p *Policy) drop() {
	if p.pending != nil {
		p.pending()
	}
	p.pending = nil
}

// back computes each pass, again where it was computed before, goes backward, and returns the outputs.
func (p *Policy) back(at []trainer.Point, passes []pass, grads [][]float64) (outputs [][]float64, err error) {
	tape := p.Pipeline.Tape(true, p.Checkpointing)
	defer tape.Reset()
	for _, pass := range passes {
		n := len(pass.points)
		if len(grads) < n {
			return nil, errors.New("fewer gradients than answers")
		}
		forward, err := p.Pipeline.Forward(tape, pass.At, p.Guidance, pass.points)
		if err != nil {
			return nil, err
		}
		if err := p.compare(pass, at, forward.Outputs); err != nil {
			return nil, err
		}
		if err := forward.Back(grads[:n]); err != nil {
			return nil, err
		}
		p.Passes.Backward += n * p.each()
		outputs, at, grads = append(outputs, forward.Outputs...), at[n:], grads[n:]
		tape.Reset()
	}
	return outputs, nil
}

// compare holds a pass's outputs against the known ones.
func (p *Policy) compare(of pass, at []trainer.Point, outputs [][]float64) error {
	for i, x := range of.known {
		switch {
		case slices.Equal(x, outputs[i]):
		case p.known.differs == nil:
			return model.ErrOtherwise
		default:
			p.known.differs(at[i].Key)
		}
	}
	return nil
}

// Card: answers that are known. Before the weights move, the network would answer at a recorded state with the bits
// that it answered with when it rolled. So the first update asks once a pass less than others do: Eval returns the
// known outputs, and Back, which computes the pass to go backward, compares them.

// recalled is the network's outputs at the recorded states of an iteration's rolls, of which there are several where
// rewards outside are asked in between, or where more is rolled.
type recalled struct {
	outputs map[asking][]float64
	changes int                  // of the weights until then
	differs func(of trainer.Key) // is called where the network answers otherwise; nil: that is an error
}

// asking is a recorded state, by where it lies, and the time.
type asking struct {
	state *float64
	time  float64
}

// remember begins a roll's answers, beside those of the rolls before it by the same weights; those of other weights
// than the current ones are not kept.
func (p *Policy) remember(w trainer.Weights) recalled {
	if w != trainer.Current || p.twin || p.learner == nil || len(p.Trained) == 0 {
		return recalled{}
	}
	if p.known.outputs != nil && p.known.changes == p.changes() {
		return p.known
	}
	return recalled{outputs: map[asking][]float64{}, changes: p.changes(), differs: p.known.differs}
}

// add keeps the answers of a picture's recorded steps.
func (k recalled) add(t pipeline.Track) {
	if k.outputs == nil {
		return
	}
	for _, s := range t.Steps {
		k.outputs[asking{&s.Before[0], s.Time}] = s.Output
	}
}

// changes is how often the trained weights were changed.
func (p *Policy) changes() (n int) {
	for _, w := range p.learner.Moved() {
		n += w.Changes()
	}
	return n
}

// answered is the known outputs of a pass: all of it, or nil.
func (p *Policy) answered(of pass) [][]float64 {
	if p.twin || p.known.outputs == nil || p.changes() != p.known.changes {
		return nil
	}
	all := make([][]float64, len(of.points))
	for i, q := range of.points {
		if all[i] = p.known.outputs[asking{&q.Latents[0], q.Time}]; all[i] == nil {
			return nil
		}
	}
	return all
}
