package run

import (
	"math"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// Where a monitor goes back to the best checkpoint, every evaluation that beats those before it by
// the monitor's held-out number leaves a regular checkpoint, which is not deleted while it is the best.
// An iteration in which a monitor takes the run back, or stops it, is never the best.

// best is the highest value so far of a held-out number.
type best struct {
	Iteration int     `json:"iteration"`
	Value     float64 `json:"value"`
}

// better notes what of the latest evaluation beats all before it, and reports whether anything does
// that a monitor may go back to.
func (t *training) better() (any bool) {
	for _, m := range t.Monitors {
		if m.Then != "rollback" || m.Rollback.To != "best" || t.state.Measured != t.loop.Iteration {
			continue
		}
		v, ok := (&ledger.Line{HeldOut: t.state.Latest}).Value(m.Rollback.By)
		if b, known := t.state.Best[m.Rollback.By]; !ok || math.IsNaN(v) || known && (v <= b.Value || b.Iteration == t.loop.Iteration) {
			continue
		}
		t.state.Best[m.Rollback.By] = best{t.loop.Iteration, v}
		any = true
	}
	return any
}

// target is the iteration that a monitor goes back to: where nothing was measured yet, the last
// regular checkpoint.
func (t *training) target(m experiment.Monitor) int {
	if b, ok := t.state.Best[m.Rollback.By]; ok && m.Rollback.To == "best" {
		return b.Iteration
	}
	return t.state.Anchor
}
