package fleet

import (
	"context"
	"errors"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: run.lag = k. Iteration i is rolled by the weights of iteration i - k, so that when iteration i begins, the
// samples of i + k can be rolled by its weights, while i to i + k - 1 are gathered and learned from. Jobs are offered
// in the order of their iterations. Nothing that is under way is saved: whoever resumes has the lagged weights in its
// checkpoint, and offers the same jobs.
//
// Invariant (tests in trainer/run): with any number of workers, whichever fail, and after any kill of the trainer, a
// run leaves the bytes of one that nobody helps.

// Planned is what an iteration to come will ask for.
type Planned struct {
	Turn experiment.Turn
	Root rng.Key
	Keys []trainer.Key // none: nothing is rolled
}

// planner says what an iteration will ask for.
type planner func(iteration int) (Planned, error)

// ahead are the iterations whose samples are asked for.
type ahead struct {
	plan planner
	open map[int]*Batch
	root rng.Key // that their draws follow from
}

// lookAhead offers the samples of the iteration under way, and of those whose weights are known.
func (m *Model) lookAhead(ctx context.Context) error {
	now, lag := m.turn.First+m.turn.Iteration, m.e.Run.Lag
	if lag == 0 || m.ahead.plan == nil {
		return nil
	}
	for d := range lag + 1 {
		if m.ahead.open[now+d] != nil || now+d >= m.e.Run.Iterations {
			continue
		}
		b, err := m.offerAhead(ctx, now+d, trainer.Lagged+trainer.Weights(d))
		if err != nil {
			return err
		}
		if b != nil {
			m.ahead.open[now+d] = b
		}
	}
	return nil
}

// offerAhead offers an iteration's samples; nil: they cannot travel, or there are none.
func (m *Model) offerAhead(ctx context.Context, iteration int, w trainer.Weights) (*Batch, error) {
	p, err := m.ahead.plan(iteration)
	if err != nil || len(p.Keys) == 0 {
		return nil, err
	}
	how, ok := howOf(m.e, p.Turn, p.Root, false)
	if !ok {
		return nil, nil
	}
	weights, ok, err := m.publish(ctx, w)
	if err != nil || !ok {
		return nil, err
	}
	// Nobody waits for this batch: whoever gathers the iteration has one of its own, with the same jobs.
	return m.fleet.Begin(ctx, Work{Jobs: m.jobsOf(weights, how, p.Keys), Check: m.check, Most: m.most, Impure: m.impure,
		Here: func(context.Context, Job) ([]byte, error) { return nil, errors.New("fleet: nobody works ahead here") }})
}

// dropAhead lets go of the iterations before one, and of all where what is drawn follows from another key.
func (m *Model) dropAhead(before int, root rng.Key) {
	for i, b := range m.ahead.open {
		if i < before || root != m.ahead.root {
			b.Drop()
			delete(m.ahead.open, i)
		}
	}
	m.ahead.root = root
}
