package run

import (
	"context"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/ranks"
)

// One model or several: with several devices each has its own, and trainer/ranks makes them one. Only this file
// of the run knows how many there are.

// openModel opens the model on every backend: several are ranks (trainer/ranks), and one model to the run.
func (t *training) openModel() error {
	m := t.modality
	news, err := m.Ready(context.Background(), t.Experiment)
	if err != nil {
		return err
	}
	if news != "" {
		t.Say("%s", news)
	}
	o := model.Options{Backend: t.Backend, Train: t.train, HeldOut: t.heldOut, Rewards: t, Cache: t.Cache, Arithmetic: t.Class}
	o.Fit = t.fit()
	if t.Rolling != nil {
		o.Progress = func(done, all int) {
			done, all = t.now.rolled.of(done, all)
			t.Rolling(t.loop.Iteration, done, all)
		}
	}
	o.Ahead = t.ahead
	if t.Fleet != nil {
		return t.openFleet(o)
	}
	if len(t.Further) == 0 {
		t.model, err = m.Open(t.Experiment, o)
		return err
	}
	group := ranks.Group{Backends: append([]kernels.Backend{t.Backend}, t.Further...), Wire: t.Wire, Limit: t.Run.Patience()}
	if group.Wire == nil {
		group.Wire = &exchange.Host{Ranks: group.Backends, Limit: group.Limit}
	}
	t.wire = group.Wire.String()
	opened, err := group.Open(o, func(o model.Options) (model.Model, error) { return m.Open(t.Experiment, o) })
	if err == nil {
		t.model = opened
	}
	return err
}
