package run

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// A monitor watches a number of the ledger. What it compares with falls_below is the number's
// value when it was first seen.

// fired is a monitor whose rule was broken.
type fired struct {
	experiment.Monitor
	says string
}

// watch checks every monitor against an iteration.
func (t *training) watch(line *ledger.Line) []fired {
	var all []fired
	for _, m := range t.Monitors {
		v, ok := line.Value(m.Watch)
		if !ok || math.IsNaN(v) {
			continue // not measured in this iteration
		}
		first, seen := t.state.First[m.Watch]
		if !seen {
			t.state.First[m.Watch], first = v, v
		}
		says := broken(m, v, first)
		if says == "" {
			delete(t.state.Streaks, m.Rule())
			delete(t.state.Told, m.Rule())
			continue
		}
		if t.state.Streaks[m.Rule()]++; t.state.Streaks[m.Rule()] < m.For {
			continue
		}
		delete(t.state.Streaks, m.Rule())
		if m.For > 1 {
			says += fmt.Sprintf(", %d times in a row", m.For)
		}
		all = append(all, fired{m, says})
	}
	for _, f := range all {
		line.Fired = append(line.Fired, f.says)
	}
	return all
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
