package fleet

import (
	"context"
	"errors"
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
// The forward pass of the first gradient has these outputs again: here, or on a worker, which returns their digest with
// the gradient. Before the update is applied they are compared with the known ones:
//
//	a digest differs     the trainer does this job, too: a worker with another gradient is dismissed
//	outputs differ       an update with false outputs is dropped. The sample's job is done here again: with other bytes
//	                     its worker is dismissed, and the iteration begins anew. Kept results of the others count; with
//	                     the same bytes the network answers otherwise than it rolled (model.ErrOtherwise)
//	                     Outputs of a job (gradient.go) are computed here again, and the update once more
//
// Episodes with programs and servers are not done again: the trainer's own outputs at their tokens decide.
//
// Not compared: samples that the first update does not learn from (optim.split), those of lagged weights, and outputs
// of other weights than the current ones, such as an anchor's. Nor are outputs of the current weights that no roll
// knows (under lagged weights, of the buffer, of further updates, entropies, values) where one worker answers a part
// and computes its gradient: its digest agrees with its own answer. Audits find these.
//
// Invariant (tests in trainer/run): a run has the bytes of one that nobody helps, with honest workers, and with one
// whose outputs are false.

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
	m.recaller.Remember(r.Samples, r.Outputs, m.doubt)
}

// doubt notes a sample whose worker knew other outputs.
func (m *Model) doubt(of trainer.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doubts[of] = true
}

// compare holds outputs of the current weights against those that rolls know.
func (m *Model) compare(at []trainer.Point, outputs [][]float64) {
	for _, k := range m.differing(at, outputs) {
		m.doubt(k)
	}
}

// differing are the samples of points at which a roll knows other outputs.
func (m *Model) differing(at []trainer.Point, outputs [][]float64) (all []trainer.Key) {
	if len(m.recalled) == 0 {
		return nil
	}
	for i, p := range at {
		q, _ := askingOf(p)
		known, now := m.recalled[q], outputs[i]
		if known != nil && !sameBits(known, now[:min(len(known), len(now))]) { // entropies and values come behind
			all = append(all, p.Key)
		}
	}
	return all
}

// ErrMisled reports an update that was dropped, since samples had false outputs. Their worker is dismissed, and the
// iteration is to begin anew.
var ErrMisled = errors.New("samples of a dismissed worker are rolled again")

// settle compares samples of doubtful outputs, before an update is applied.
func (m *Model) settle(ctx context.Context) error {
	m.mu.Lock()
	doubts := m.doubts
	m.doubts = map[trainer.Key]bool{}
	m.mu.Unlock()
	if len(doubts) == 0 {
		return nil
	}
	defer m.fleet.Flush()
	m.Model.Params().Skip()
	liars := map[string]bool{}
	for _, j := range m.made {
		if liars[j.by] || !slices.ContainsFunc(j.All(), func(k trainer.Key) bool { return doubts[k] }) {
			continue
		}
		if j.by == Here {
			return model.ErrOtherwise
		}
		m.fleet.Tell("warning: fleet: the network answers otherwise than job %s of worker %s says: the update is dropped, and the job is compared", j.Job, j.by)
		if !m.impure {
			s := share{Model: m, how: j.How, roll: j.roll}
			payload, err := s.here(ctx, j.Job)
			if err != nil {
				return err
			}
			if HashOf(payload) == j.payload {
				return model.ErrOtherwise
			}
		}
		if err := m.fleet.Differs(j.by, j.Job); err != nil {
			return err
		}
		liars[j.by] = true
	}
	if len(liars) == 0 {
		return model.ErrOtherwise
	}
	var again []Hash
	for _, j := range m.made {
		if liars[j.by] {
			again = append(again, j.Name())
		}
	}
	if err := m.fleet.Forget(ctx, again); err != nil {
		return err
	}
	m.recaller.Remember(nil, nil, nil)
	m.anew = true
	return ErrMisled
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

// sameBits compares lists of numbers.
func sameBits(x, y []float64) bool {
	return slices.EqualFunc(x, y, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })
}
