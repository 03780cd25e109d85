package pictures

import (
	"errors"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer"
)

// Card: answers that are known. Before the weights move, the network would answer at a recorded state with the bits
// that it answered with when it rolled. So the first update asks once a pass less than others do: Eval says what is
// known, and Back, which computes the pass to go backward, holds it to that.

// recalled is what the network answered at the recorded states of an iteration's rolls, of which there are several
// where rewards outside are asked in between, or where more is rolled.
type recalled struct {
	outputs map[asking][]float64
	changes int // of the weights until then
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
	return recalled{outputs: map[asking][]float64{}, changes: p.changes()}
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

// answered is what is known of a pass: all of it, or nil.
func (p *Policy) answered(of pass) [][]float64 {
	if p.twin || p.known.outputs == nil || p.changes() != p.known.changes {
		return nil
	}
	all := make([][]float64, len(of.questions))
	for i, q := range of.questions {
		if all[i] = p.known.outputs[asking{&q.Latents[0], q.Time}]; all[i] == nil {
			return nil
		}
	}
	return all
}

// held is an error where a pass answers otherwise than it did when it was rolled.
func (p pass) held(outputs [][]float64) error {
	for i, x := range p.known {
		if !slices.Equal(x, outputs[i]) {
			return errors.New("the network answers otherwise than it did when the sample was rolled, by the same weights: " +
				"this device computes a picture's bits by its batch, or computes wrongly\nhint: DARKROOM_CUDA=own computes without libraries")
		}
	}
	return nil
}
