package fleet

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Card: answers that a roll knows. Until the weights move, the network answers at a sample's decisions with the bits
// that it answered with when the sample was rolled, on whichever machine. So outputs come with samples, and the first
// update asks for none: a run takes three passes of a trained decision for the roll, the gradient's forward pass and
// its backward pass, and no fourth. The means of decisions follow from outputs, and do not travel beside them. Of
// conversations, tokens' log-probabilities are the outputs.
//
// Where the gradient of pictures is computed here, its forward pass is compared with the known outputs. A worker that
// said others is dismissed, though this update has learned from them: audits find the rest. A gradient that a worker
// computes, and conversations, are compared by audits and by the check of a stage's first samples alone.
//
// Invariant (tests in trainer/run): a run of honest workers has the bytes of one that nobody helps.

// recalled are known outputs of the current weights.
type recalled map[asking][]float64

// asking is a question to the network, by the place of its state or its conversation.
type asking struct {
	state  *float64
	said   trainer.Episode
	time   float64
	prompt int
}

func askingOf(p trainer.Point) (q asking, ok bool) {
	if p.Episode != nil {
		return asking{said: p.Episode, prompt: p.Key.Prompt}, !p.Entropy && !p.Value
	}
	if len(p.State) == 0 {
		return q, false
	}
	return asking{state: &p.State[0], time: p.Time, prompt: p.Key.Prompt}, true
}

// remember keeps the outputs of a result.
func (m *Model) remember(r Result) {
	for i, s := range r.Samples {
		d := s.Decisions
		if e := s.Item.Episode; e != nil {
			if outputs := m.recaller.Recall(s); outputs != nil {
				m.recalled[asking{said: e, prompt: s.Key.Prompt}] = outputs[0]
			}
			continue
		}
		for n, x := range r.outputs(i) {
			m.recalled[asking{state: &d.State[n][0], time: d.Time[n], prompt: s.Key.Prompt}] = x
		}
	}
	m.recaller.Remember(r.Samples, r.Outputs, m.misled)
}

// all are the outputs at points; nil: some are not known.
func (k recalled) all(at []trainer.Point) [][]float64 {
	if len(k) == 0 {
		return nil
	}
	outputs := make([][]float64, len(at))
	for i, p := range at {
		q, ok := askingOf(p)
		if ok {
			outputs[i], ok = k[q]
		}
		if !ok {
			return nil
		}
	}
	return outputs
}

// recall takes the outputs at a job's samples that the model knows, where the means follow from them.
func (r *Result) recall(by model.Recaller, e *experiment.Experiment, j Job) error {
	outputs := make([][][]float64, len(r.Samples))
	for i, s := range r.Samples {
		if s.Item.Episode == nil {
			outputs[i] = by.Recall(s)
		}
	}
	settings, err := j.How.settings(e)
	if err != nil {
		return err
	}
	means, err := by.Means(model.Rolled{Settings: settings, Root: j.How.Root, Fixed: j.How.Fixed}, r.Samples, outputs)
	if err != nil {
		return err
	}
	for i, s := range r.Samples {
		if outputs[i] != nil && slices.EqualFunc(means[i], s.Decisions.Mean, sameBits) {
			if r.Outputs == nil {
				r.Outputs = make([][][]float64, len(r.Samples))
			}
			r.Outputs[i] = outputs[i]
		}
	}
	return nil
}

// misled dismisses the worker that rolled a sample at whose decisions the network answers otherwise than it said.
func (m *Model) misled(of trainer.Key) error {
	for _, j := range m.made {
		if j.by != Here && slices.Contains(j.All(), of) {
			return m.fleet.Differs(j.by, j.Job)
		}
	}
	return model.ErrOtherwise
}

// sameBits compares lists of numbers.
func sameBits(x, y []float64) bool {
	return slices.EqualFunc(x, y, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })
}
