package pictures

import (
	"errors"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer"
)

// How the network answers at recorded states, and takes the gradients of its answers.

// Eval asks the network. Points that fit one pass are remembered for Back; of more, Back
// computes each pass once more before it goes backward, so that memory does not grow. What was answered while the
// points were rolled is not asked again before that (known.go).
func (p *Policy) Eval(w trainer.Weights, at []trainer.Point) (trainer.Answers, error) {
	if w == trainer.Teacher {
		return p.taught(at)
	}
	if w == trainer.Current {
		p.drop()
	}
	passes, err := p.passes(at)
	if err != nil {
		return trainer.Answers{}, err
	}
	if w == trainer.Current {
		p.Passes.Train += len(at) * p.each()
	} else {
		p.Passes.Reference += len(at) * runs(p.guidanceOf(w))
	}
	guidance := p.guidanceOf(w)
	var out trainer.Answers
	if w == trainer.Current && len(passes) == 1 && !p.twin {
		tape := p.Pipeline.Tape(true, p.Checkpointing)
		answers, err := p.Pipeline.Ask(tape, passes[0].At, p.Guidance, passes[0].questions)
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
			answers, err := p.Pipeline.Ask(tape, pass.At, guidance, pass.questions)
			if err != nil {
				return err
			}
			out.Outputs = append(out.Outputs, answers.Outputs...)
			tape.Reset()
		}
		return nil
	})
	if err == nil && w == trainer.Current && !p.twin {
		out.Back = func(grads [][]float64) error { return p.back(passes, grads) }
	}
	return out, err
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

// back computes each pass again, and goes backward.
func (p *Policy) back(passes []pass, grads [][]float64) error {
	tape := p.Pipeline.Tape(true, p.Checkpointing)
	defer tape.Reset()
	for _, pass := range passes {
		n := len(pass.questions)
		if len(grads) < n {
			return errors.New("fewer gradients than answers")
		}
		answers, err := p.Pipeline.Ask(tape, pass.At, p.Guidance, pass.questions)
		if err != nil {
			return err
		}
		if err := pass.held(answers.Outputs); err != nil {
			return err
		}
		if err := answers.Back(grads[:n]); err != nil {
			return err
		}
		p.Passes.Backward += n * p.each()
		grads = grads[n:]
		tape.Reset()
	}
	return nil
}
