package training

import (
	"context"
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
// checkpoint, or none is written; a rank that fails, wherever it does, ends the run with its name and
// leaves a folder that --resume goes on with.

// A group is the ranks of a model. As a policy it is all of them.
type group struct {
	*ranks.Policy
	models []*model // rank 0 first
	sum    exchange.Sum
	rolls  context.Context // ends when a rank fails
}

// openRanks opens the model on every backend.
func openRanks(e *experiment.Experiment, o Options, lists ...[]prompts.Prompt) (*model, error) {
	if len(o.Further) == 0 {
		return openModel(e, o, lists...)
	}
	all := append([]kernels.Backend{o.Backend}, o.Further...)
	limit := e.Run.Patience()
	g := &group{sum: exchange.Sum{Ranks: all, Wire: o.Wire, Limit: limit}}
	if g.sum.Wire == nil {
		g.sum.Wire = &exchange.Host{Ranks: all, Limit: limit}
	}
	var failed context.CancelFunc
	g.rolls, failed = context.WithCancel(context.Background())
	g.Policy = &ranks.Policy{Sum: g.addUp, Team: exchange.TeamOf(limit, all...)}
	g.Team.Stop = failed
	for r, be := range all {
		alike := o
		alike.Backend = be
		var m *model
		err := g.Team.Alone(r, func() (err error) {
			m, err = openModel(e, alike, lists...)
			return err
		})
		if err != nil {
			failed()
			return nil, errors.Join(err, g.close())
		}
		m.until(g.rolls)
		g.models, g.Members = append(g.models, m), append(g.Members, m.own())
	}
	g.models[0].group = g
	return g.models[0], nil
}

// until lets rolls end with a context.
func (m *model) until(ctx context.Context) {
	if m.talk != nil {
		m.talk.Context = ctx
		return
	}
	m.policy.Context = ctx
}

// close closes the models of all ranks.
func (g *group) close() error {
	var errs []error
	for _, m := range g.models {
		errs = append(errs, m.closeOwn())
	}
	return errors.Join(errs...)
}

// each calls f for every rank at once.
func (m *model) each(f func(rank int) error) error {
	if m.group == nil {
		return f(0)
	}
	return m.group.Team.Each(len(m.group.models), f)
}

// all are the models of all ranks.
func (m *model) all() []*model {
	if m.group == nil {
		return []*model{m}
	}
	return m.group.models
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
// mistake in the program. What it wrote would be no checkpoint of this run. Every rank's weights are read
// once, a parameter after another.
func (m *model) agree() error {
	if m.group == nil {
		return nil
	}
	moved := make([][]*autograd.Param, len(m.group.models))
	for r, own := range m.group.models {
		moved[r] = own.moved()
	}
	x := make([][]float32, len(moved))
	for k, p := range moved[0] {
		err := m.each(func(r int) error {
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
