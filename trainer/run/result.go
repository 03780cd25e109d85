package run

import "github.com/darkroom-rl/darkroom/trainer/ledger"

// end writes result.json.
func (t *training) end(status, why string) (*ledger.Result, error) {
	r := &ledger.Result{Status: status, Why: why, Iterations: t.loop.Iteration, HeldOut: map[string]ledger.Gain{}, Rewards: map[string]string{}}
	if len(t.state.Guided) > 0 {
		if err := t.guidedEnd(r); err != nil {
			return nil, err
		}
	}
	for name, after := range t.state.Latest {
		if before, ok := t.state.Before[name]; ok {
			r.HeldOut[name] = ledger.Gain{Before: before, After: after}
		}
	}
	for _, j := range t.panel {
		r.Rewards[j.name] = "gold"
		if j.train {
			r.Rewards[j.name] = "trained"
		}
	}
	if status == ledger.Interrupted && t.files.newest != t.loop.Iteration {
		if err := t.save(); err != nil {
			return nil, err
		}
	}
	return r, t.files.folder.WriteJSON("result.json", r)
}
