package training

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/trainer/ranks"
)

// Training on several devices: every rank opens the model on its own, with the same adapter, and trains
// it alike (trainer/ranks). What a rank does alone, rank 0 does: rewards, the check before the first
// update, heads of values and likeliest answers for the estimators that ask for them, checkpoints.
//
// Invariants (tests): a run of two ranks leaves the same bytes twice, and where it was stopped and
// resumed; samples of its first iteration are those of one rank; ranks hold the same weights at every
// checkpoint, or none is written.

// A group is the ranks of a model. As a policy it is all of them.
type group struct {
	*ranks.Policy
	models []*model // rank 0 first
	sum    exchange.Sum
}

// openRanks opens the model on every backend.
func openRanks(e *experiment.Experiment, o Options, lists ...[]prompts.Prompt) (*model, error) {
	m, err := openModel(e, o, lists...)
	if err != nil || len(o.Further) == 0 {
		return m, err
	}
	g := &group{Policy: &ranks.Policy{Members: []trainer.Policy{m.own()}}, models: []*model{m},
		sum: exchange.Sum{Ranks: append([]kernels.Backend{o.Backend}, o.Further...), Wire: o.Wire}}
	if g.sum.Wire == nil {
		g.sum.Wire = exchange.NewHost(g.sum.Ranks...)
	}
	g.Sum, m.group = g.addUp, g
	for r, be := range o.Further {
		alike := o
		alike.Backend = be
		next, err := openModel(e, alike, lists...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("rank %d: %w", r+1, err), m.close())
		}
		g.models, g.Members = append(g.models, next), append(g.Members, next.own())
	}
	return m, nil
}

// all are the models of all ranks.
func (m *model) all() []*model {
	if m.group == nil {
		return []*model{m}
	}
	return m.group.models
}

func (m *model) closeGroup() error {
	var errs []error
	for _, other := range m.all()[1:] {
		errs = append(errs, other.closeOwn())
	}
	return errors.Join(errs...)
}

// State is rank 0's, which checkpoints hold.
func (g *group) State() ([]*autograd.Param, *optim.Mover, map[trainer.Weights]*optim.Shadow) {
	return g.models[0].own().State()
}

// Forget drops other weights of all ranks.
func (g *group) Forget(w trainer.Weights) error {
	for _, m := range g.models {
		if err := m.own().Forget(w); err != nil {
			return err
		}
	}
	return nil
}

// moved are all parameters that an update moves.
func (m *model) moved() []*autograd.Param {
	params, _, _ := m.own().State()
	if m.talk != nil && m.talk.Critic() != nil {
		head, _, _ := m.talk.Critic().State()
		return slices.Concat(params, head)
	}
	return params
}

// addUp leaves every rank with the sum of all ranks' gradients. What no rank's backward reached stays
// without one.
func (g *group) addUp() error {
	params, spans := make([][]*autograd.Param, len(g.models)), make([][]kernels.Span, len(g.models))
	for r, m := range g.models {
		params[r] = m.moved()
	}
	for k := range params[0] {
		if !slices.ContainsFunc(params, func(own []*autograd.Param) bool { return own[k].Grad() != nil }) {
			continue
		}
		for r := range params {
			spans[r] = append(spans[r], params[r][k].AnyGrad().Span())
		}
	}
	return g.sum.Add(spans)
}

// agree reports a rank whose weights are no longer rank 0's: a device that computes wrongly, or a
// mistake in the program. What it wrote would be no checkpoint of this run.
func (m *model) agree() error {
	first := m.moved()
	for r, other := range m.all()[1:] {
		for k, p := range other.moved() {
			if !slices.Equal(p.Value.F32(), first[k].Value.F32()) {
				return fmt.Errorf("rank %d no longer holds the weights of rank 0: %s differs, and nothing was saved\nhint: --resume goes on from the checkpoint before; if it happens again, leave that rank's device out", r+1, p.Name)
			}
		}
	}
	return nil
}

// pull is trainer.Developer's: each rank takes its share back.
func (m *model) pull(at []trainer.Point, grads [][]float64) ([][]float64, error) {
	if m.group == nil {
		return m.policy.Pull(at, grads)
	}
	states := make([][]float64, len(at))
	err := m.group.Backward(len(at), func(r, lo, hi int) error {
		some, err := m.group.models[r].policy.Pull(at[lo:hi], grads[lo:hi])
		copy(states[lo:hi], some)
		return err
	})
	return states, err
}

// tell lets rolls say how far all ranks are together.
func (t *Training) tell() {
	all := t.model.all()
	var mu sync.Mutex
	done, of := make([]int, len(all)), make([]int, len(all))
	for r, m := range all {
		m.tell(func(n, most int) {
			mu.Lock()
			defer mu.Unlock()
			if n < done[r] { // the next roll has begun
				clear(done)
				clear(of)
			}
			done[r], of[r] = n, most
			t.Rolling(t.loop.Iteration, total(done), total(of))
		})
	}
}

func total(x []int) (sum int) {
	for _, v := range x {
		sum += v
	}
	return sum
}
