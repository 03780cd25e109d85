package run

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// A monitor watches a number of the ledger. What it compares with falls_below is the number's
// value when it was first seen.
//
// Where a monitor goes back to the best checkpoint, every evaluation that beats those before it by
// the monitor's held-out number leaves a regular checkpoint, which is not deleted while it is the best.
// An iteration in which a monitor takes the run back, or stops it, is never the best.

// monitors are the rules of [[monitor]], and what they compare with.
type monitors struct {
	rules []experiment.Monitor
	watched
	best   map[string]best // the highest values so far, by the held-out number
	alerts alerts
}

// watched is what a checkpoint holds of monitors, beside the best evaluations.
type watched struct {
	Stopped string             `json:"stopped,omitempty"` // why a monitor stopped the run
	First   map[string]float64 `json:"first,omitempty"`   // the first values, by the number that is watched
	Streaks map[string]int     `json:"streaks,omitempty"` // how often in a row rules were broken
	Alerted map[string]bool    `json:"told,omitempty"`    // rules that are broken, and were reported
}

func newMonitors(e *experiment.Experiment, folder string) monitors {
	return monitors{rules: e.Monitors, watched: watched{First: map[string]float64{}, Streaks: map[string]int{}}, best: map[string]best{}, alerts: alerts{run: e.Run.Name, folder: folder}}
}

// best is the highest value so far of a held-out number.
type best struct {
	Iteration int     `json:"iteration"`
	Value     float64 `json:"value"`
}

// due reports whether a monitor sends a message: of a warning once, until a value has kept its rule.
func (m *monitors) due(f fired) bool {
	if len(f.Run) == 0 && f.Webhook == "" && f.WebhookEnv == "" || f.Then == "warn" && m.Alerted[f.Rule()] {
		return false
	}
	m.Alerted = orEmpty(m.Alerted)
	m.Alerted[f.Rule()] = true
	return true
}

// check compares an iteration's line with every rule, and writes the broken ones into it.
func (m *monitors) check(line *ledger.Line) []fired {
	var all []fired
	for _, rule := range m.rules {
		v, ok := line.Value(rule.Watch)
		if !ok || math.IsNaN(v) {
			continue // not measured in this iteration
		}
		first, seen := m.First[rule.Watch]
		if !seen {
			m.First[rule.Watch], first = v, v
		}
		says := broken(rule, v, first)
		if says == "" {
			delete(m.Streaks, rule.Rule())
			delete(m.Alerted, rule.Rule())
			continue
		}
		if m.Streaks[rule.Rule()]++; m.Streaks[rule.Rule()] < rule.For {
			continue
		}
		delete(m.Streaks, rule.Rule())
		if rule.For > 1 {
			says += fmt.Sprintf(", %d times in a row", rule.For)
		}
		all = append(all, fired{rule, says})
	}
	for _, f := range all {
		line.Fired = append(line.Fired, f.says)
	}
	return all
}

// compareStart makes the measures of the start the first values of held-out numbers.
func (m *monitors) compareStart(start map[string]ledger.Measure) {
	for name, measure := range start {
		m.First["heldout."+name] = measure.Mean
	}
}

// better keeps what of an iteration's evaluation beats all before it, and reports whether a monitor may go back to it.
func (m *monitors) better(iteration int, measures map[string]ledger.Measure) (any bool) {
	for _, rule := range m.rules {
		if rule.Then != "rollback" || rule.Rollback.To != "best" {
			continue
		}
		v, ok := (&ledger.Line{HeldOut: measures}).Value(rule.Rollback.By)
		if b, known := m.best[rule.Rollback.By]; !ok || math.IsNaN(v) || known && (v <= b.Value || b.Iteration == iteration) {
			continue
		}
		m.best[rule.Rollback.By] = best{iteration, v}
		any = true
	}
	return any
}

// target is the iteration that a rule goes back to: where nothing was measured yet, the last regular checkpoint.
func (m *monitors) target(rule experiment.Monitor, regular int) int {
	if b, ok := m.best[rule.Rollback.By]; ok && rule.Rollback.To == "best" {
		return b.Iteration
	}
	return regular
}

// targets are the checkpoints that rules go back to, which are not deleted.
func (m *monitors) targets(regular int) []int {
	var all []int
	for _, rule := range m.rules {
		if rule.Then == "rollback" {
			all = append(all, m.target(rule, regular))
		}
	}
	return all
}

// forgetHeldOut drops the values that later evaluations would be compared with.
func (m *monitors) forgetHeldOut() {
	clear(m.best)
	heldOut := func(name string, _ float64) bool { return strings.HasPrefix(name, "heldout.") }
	maps.DeleteFunc(m.First, heldOut)
	for _, rule := range m.rules {
		if heldOut(rule.Watch, 0) {
			delete(m.Streaks, rule.Rule())
		}
	}
}

// broken says how a value breaks a monitor's rule; "" if it does not.
func broken(m experiment.Monitor, v, first float64) string {
	switch {
	case m.FallsBelow != nil && v < bound(*m.FallsBelow, first):
		return fell(m.Watch, v, *m.FallsBelow, first)
	case m.IsBelow != nil && v < *m.IsBelow:
		return fmt.Sprintf("%s is %.4g, below %g", m.Watch, v, *m.IsBelow)
	case m.RisesAbove != nil && v > *m.RisesAbove:
		return fmt.Sprintf("%s rose to %.4g, above %g", m.Watch, v, *m.RisesAbove)
	}
	return ""
}

// bound is the value that falls_below = share allows: first - (1-share)|first|. For a first value of 10
// and a share of 0.9 it is 9, and for -10 it is -11.
func bound(share, first float64) float64 {
	if first >= 0 {
		return share * first
	}
	return (2 - share) * first
}

// fell says how a value broke falls_below.
func fell(watch string, v, share, first float64) string {
	if first >= 0 {
		return fmt.Sprintf("%s fell to %.4g, below %g of the %.4g that it began with", watch, v, share, first)
	}
	return fmt.Sprintf("%s fell to %.4g, below %.4g: it began with %.4g, and falls_below = %g allows a loss of %.4g", watch, v, bound(share, first), first, share,
		(share-1)*first)
}
