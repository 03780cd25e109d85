package ranks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision"
)

// Model is the models of all ranks as one. Each was opened on its own, with the same adapter, and is trained alike.
// Rank 0 does the work of a single rank: the check before the first update (ranks that share tokens make it together),
// value heads and likeliest answers for the estimators that ask for them, records, checkpoints.
//
// Invariants (tests in trainer/run): a run of two ranks leaves the same bytes twice, and where it was stopped
// and resumed; samples of its first iteration are those of one rank; ranks hold the same fp32 weights at every
// checkpoint, or none is written (packed copies of weights whose owner is another rank are not compared); a rank that
// fails, wherever it does, ends the run with its name and leaves a folder that --resume goes on with.
type Model struct {
	*Policy
	model.Trainable // rank 0's
	model.Recorder  // rank 0's
	models          []model.Model
	states          *model.States                    // of parameters that have owners; nil: every rank has all
	received        map[exchange.Subtree][][]float32 // nodes that other processes computed; nil: none
	settings        experiment.Settings              // of the iteration under way
}

// First is rank 0's.
func (m *Model) First() model.Model { return m.models[0] }

// every calls f for one rank after another.
func (m *Model) every(f func(own model.Model) error) error {
	for _, own := range m.models {
		if err := f(own); err != nil {
			return err
		}
	}
	return nil
}

// Begin begins an iteration on every rank.
func (m *Model) Begin(settings experiment.Settings, root rng.Key, scale float64) error {
	m.received, m.settings = nil, settings
	m.Whole = settings.Experiment != nil && settings.Episode != nil && settings.Episode.Tree != nil
	return m.every(func(own model.Model) error { return own.Begin(settings, root, scale) })
}

// Objective is rank 0's; its questions to the policy are shared out.
func (m *Model) Objective(settings experiment.Settings, policy trainer.Policy) (trainer.Objective, error) {
	return m.First().Objective(settings, policy)
}

// Fixed shares keys out as Roll does.
func (m *Model) Fixed(ctx context.Context, settings experiment.Settings, root rng.Key) trainer.Policy {
	ctx, stop := context.WithCancel(ctx)
	p := &Policy{Team: m.Team, Meeting: m.Meeting}
	p.Team.Stop = stop
	for _, own := range m.models {
		p.Members = append(p.Members, own.Fixed(ctx, settings, root))
	}
	return p
}

// Portion is that of all ranks.
func (m *Model) Portion() (n int) {
	if m.Meeting != nil {
		return m.First().Portion()
	}
	for _, own := range m.models {
		n += own.Portion()
	}
	return n
}

// Items shares samples out.
func (m *Model) Items(samples []trainer.Sample) ([]rewards.Item, error) {
	items := make([]rewards.Item, len(samples))
	err := m.apart(len(samples), func(r, lo, hi int) error {
		some, err := m.models[r].Items(samples[lo:hi])
		copy(items[lo:hi], some)
		return err
	})
	return items, err
}

// Check is rank 0's. Ranks that share the tokens of a pass make it together.
func (m *Model) Check(o trainer.Objective, samples []trainer.Sample) (*ledger.Check, error) {
	if m.Meeting == nil {
		return m.Trainable.Check(o, samples)
	}
	all := make([]*ledger.Check, len(m.models))
	team := m.Team
	m.Meeting.Begin()
	team.Stop = func() { m.Meeting.Abort(errors.New("another rank has failed")) } // and rolls to come are made all the same
	err := team.Each(len(m.models), func(r int) error {
		own, err := m.models[r].Objective(m.settings, m.Policy)
		if err == nil {
			all[r], err = m.models[r].Check(own, samples)
		}
		return err
	})
	return all[0], err
}

// Develop is trainer.Developer's, by rank 0.
func (m *Model) Develop(of []trainer.Key, finals [][]float64, at func(from int, pictures []vision.Pixels) ([][]float32, error)) ([][]float64, error) {
	d, err := m.developer(0)
	if err != nil {
		return nil, err
	}
	return d.Develop(of, finals, at)
}

// Pull is trainer.Developer's: each rank takes its share back. Of shared tokens a rank's gradient of a state is 0
// outside of its own.
func (m *Model) Pull(at []trainer.Point, grads [][]float64) (states [][]float64, err error) {
	states = make([][]float64, len(at))
	parts := make([][][]float64, len(m.models))
	err = m.Backward(len(at), func(r, lo, hi int) error {
		d, err := m.developer(r)
		if err != nil {
			return err
		}
		parts[r], err = d.Pull(at[lo:hi], grads[lo:hi])
		if m.Meeting == nil { // a rank of several shards comes here once for each
			copy(states[lo:hi], parts[r])
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case m.Meeting == nil:
		return states, nil
	}
	for _, part := range parts[1:] {
		for i, x := range part {
			for k, v := range x {
				parts[0][i][k] += v
			}
		}
	}
	return parts[0], nil
}

func (m *Model) developer(rank int) (trainer.Developer, error) {
	d, ok := m.models[rank].(trainer.Developer)
	if !ok {
		return nil, errors.New("the reward's gradient was asked for, and what the model makes has no derivative")
	}
	return d, nil
}

// Shape is rank 0's.
func (m *Model) Shape(samples []trainer.Sample, totals []float64) { m.First().Shape(samples, totals) }

// Passes are those of all ranks. With shards they are not counted: their number depends on that of ranks, and nothing
// else in the ledger does.
func (m *Model) Passes() *ledger.Passes {
	switch {
	case m.Meeting != nil:
		return m.First().Passes()
	case m.Shards > 0:
		return nil
	}
	var sum *ledger.Passes
	for _, own := range m.models {
		sum = sum.Plus(own.Passes())
	}
	return sum
}

// Settle begins a stage on every rank.
func (m *Model) Settle(o optim.Options, moves experiment.Moves) {
	for _, own := range m.models {
		own.Settle(o, moves)
	}
}

// Tensors are rank 0's, which all ranks hold.
func (m *Model) Tensors() ([]safetensors.Tensor, error) {
	if err := m.agree(); err != nil {
		return nil, err
	}
	return m.First().Tensors()
}

// agree reports a rank whose weights are no longer rank 0's: a device that computes wrongly, or a mistake in the
// program. Its files would not be a checkpoint of this run. Every rank's weights are read once, a parameter after
// another.
func (m *Model) agree() error {
	moved := m.moved()
	x := make([][]float32, len(moved))
	for k, p := range moved[0] {
		if slices.ContainsFunc(moved, func(own []*autograd.Param) bool { return own[k].Value == nil }) {
			continue // a rank computes with a packed copy, and its owner's values are saved
		}
		err := m.Team.Each(len(moved), func(r int) error {
			x[r] = moved[r][k].Value.F32()
			return nil
		})
		if err != nil {
			return fmt.Errorf("comparing the ranks' weights, before they are saved: %w", err)
		}
		for r := range x {
			if !slices.Equal(x[r], x[0]) {
				return fmt.Errorf("rank %d no longer holds the weights of rank 0: %s differs, and nothing was saved\nhint: --resume goes on from the checkpoint before; if it happens again, leave that rank's device out", r, p.Name)
			}
		}
	}
	return nil
}

// Load goes back on every rank.
func (m *Model) Load(f *safetensors.File) error {
	return m.every(func(own model.Model) error { return own.Load(f) })
}

// Forget drops other weights of all ranks.
func (m *Model) Forget(w trainer.Weights) error {
	return m.every(func(own model.Model) error { return own.Forget(w) })
}

// Close closes the models of all ranks.
func (m *Model) Close() error {
	var errs []error
	for _, own := range m.models {
		errs = append(errs, own.Close())
	}
	return errors.Join(errs...)
}

// A remote is a Model whose rolls other processes can compute: its values are those of rank 0, and all ranks take them.
type remote struct {
	*Model
	first model.Remote
}

// Values are rank 0's.
func (m remote) Values(w trainer.Weights) ([]safetensors.Tensor, error) { return m.first.Values(w) }

// Take gives every rank the values of a file.
func (m remote) Take(f *safetensors.File) error {
	return m.every(func(own model.Model) error { return own.(model.Remote).Take(f) })
}

// Fits is rank 0's.
func (m remote) Fits(r model.Rolled, samples []trainer.Sample) error { return m.first.Fits(r, samples) }

// Most is rank 0's.
func (m remote) Most(r model.Rolled, keys []trainer.Key) int64 { return m.first.Most(r, keys) }

// Recall is that of the rank that rolled the sample.
func (m remote) Recall(s trainer.Sample) [][]float64 {
	for _, own := range m.models {
		if r, ok := own.(model.Recaller); ok {
			if outputs := r.Recall(s); outputs != nil {
				return outputs
			}
		}
	}
	return nil
}

// Remember lets every rank know.
func (m remote) Remember(samples []trainer.Sample, outputs [][][]float64, differs func(of trainer.Key)) {
	for _, own := range m.models {
		own.(model.Recaller).Remember(samples, outputs, differs)
	}
}

// Means are rank 0's.
func (m remote) Means(r model.Rolled, samples []trainer.Sample, outputs [][][]float64) ([][][]float64, error) {
	return m.first.(model.Recaller).Means(r, samples, outputs)
}

// A codec is a remote of conversations.
type codec struct {
	remote
	of model.EpisodeCodec
}

// Encode is rank 0's.
func (m codec) Encode(s trainer.Sample) (model.EncodedEpisode, error) { return m.of.Encode(s) }

// Decode is rank 0's.
func (m codec) Decode(samples []trainer.Sample, texts []model.EncodedEpisode) error {
	return m.of.Decode(samples, texts)
}

// travelling is the model with the sides of rank 0's that travel between processes.
func (m *Model) travelling() model.Model {
	switch first := m.First().(type) {
	case model.EpisodeCodec:
		return codec{remote{m, first}, first}
	case model.Remote:
		return remote{m, first}
	}
	return m
}

// Receive takes nodes that cover all shards, in the place of the ranks' own gradients: Norm adds them up. No rank has
// a gradient then.
func (m *Model) Receive(nodes []model.Node) error {
	next := 0
	slices.SortFunc(nodes, func(a, b model.Node) int { return a.Lo - b.Lo })
	for _, n := range nodes {
		if n.Lo != next {
			return fmt.Errorf("the gradient of shards %d to %d is missing", next, n.Lo-1)
		}
		next = n.Hi
	}
	if next != m.Shards {
		return errors.New("gradients do not cover all shards")
	}
	m.received = map[exchange.Subtree][][]float32{}
	for _, n := range nodes {
		m.received[n.Subtree] = n.Sums
	}
	return nil
}

// Node computes the gradient of a subtree of shards, of which the ranks have subtrees. No rank has a gradient then.
// A job that ends early, since a worker was faster, stops no roll to come.
func (m *Model) Node(t exchange.Subtree, of func(k int) ([]model.Pass, error)) (model.Node, error) {
	size := t.Hi - t.Lo
	own := model.Runs(size, min(len(m.models), size), m.First().Moved())
	parts := make([][]model.Node, len(own))
	team := m.Team
	team.Stop = nil
	err := team.Each(len(own), func(r int) error {
		for _, part := range exchange.Nodes(size, own[r]) {
			n, err := model.NodeOf(m.models[r], exchange.Subtree{Lo: t.Lo + part.Lo, Hi: t.Lo + part.Hi}, of)
			if err != nil {
				return err
			}
			parts[r] = append(parts[r], n)
		}
		return nil
	})
	nodes := slices.Concat(parts...)
	if err != nil {
		return model.Node{}, err
	}
	if len(nodes) == 1 {
		return nodes[0], nil
	}
	sum := model.Node{Subtree: t, Sums: make([][]float32, len(m.First().Moved()))}
	defer m.First().Params().Skip()
	for i, p := range m.First().Moved() {
		if !slices.ContainsFunc(nodes, func(n model.Node) bool { return n.Sums[i] != nil }) {
			continue
		}
		sum.Sums[i] = p.Graft(t.Lo, t.Hi, func(lo, hi int) ([]float32, bool) {
			at := slices.IndexFunc(nodes, func(n model.Node) bool { return n.Lo == lo && n.Hi == hi })
			if at < 0 {
				return nil, false
			}
			return nodes[at].Sums[i], true
		}).F32()
	}
	return sum, nil
}

// graft leaves every rank with the sum of the received nodes.
func (m *Model) graft(params [][]*autograd.Param) error {
	defer func() { m.received = nil }()
	defer m.states.Release()
	return m.Team.Each(len(params), func(r int) error {
		for k, p := range params[r] {
			reached := false
			for _, sums := range m.received {
				reached = reached || sums[k] != nil
			}
			if !reached {
				continue
			}
			p.Graft(0, m.Shards, func(lo, hi int) ([]float32, bool) {
				sums, whole := m.received[exchange.Subtree{Lo: lo, Hi: hi}]
				if !whole {
					return nil, false
				}
				return sums[k], true
			})
		}
		return nil
	})
}

// Dir is rank 0's.
func (m *Model) Dir() string { return m.First().Dir() }
