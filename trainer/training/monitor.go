package training

import (
	"fmt"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// A monitor watches a number of the ledger. What it compares with falls_below is the number's
// value when it was first seen.

// fired is a monitor whose rule was broken.
type fired struct {
	experiment.Monitor
	says string
}

// watch checks every monitor against an iteration.
func (t *Training) watch(line *Line) []fired {
	var all []fired
	for _, m := range t.Monitors {
		v, ok := line.value(m.Watch)
		if !ok || math.IsNaN(v) {
			continue // not measured in this iteration
		}
		first, seen := t.first[m.Watch]
		if !seen {
			t.first[m.Watch], first = v, v
		}
		switch {
		case m.FallsBelow != nil && v < *m.FallsBelow*first:
			all = append(all, fired{m, fmt.Sprintf("%s fell to %.4g, below %g of the %.4g that it began with", m.Watch, v, *m.FallsBelow, first)})
		case m.RisesAbove != nil && v > *m.RisesAbove:
			all = append(all, fired{m, fmt.Sprintf("%s rose to %.4g, above %g", m.Watch, v, *m.RisesAbove)})
		}
	}
	for _, f := range all {
		line.Fired = append(line.Fired, f.says)
	}
	return all
}

// value is a number of the line by its name: reward.NAME, gold.NAME (both of the training
// samples), heldout.NAME, or a metric.
func (l *Line) value(name string) (float64, bool) {
	kind, rest, _ := strings.Cut(name, ".")
	switch kind {
	case "reward", "gold":
		s, ok := l.Rewards[rest]
		return s.Mean, ok
	case "heldout":
		m, ok := l.HeldOut[rest]
		return m.Mean, ok
	}
	switch name {
	case "total":
		return l.Total.Mean, true
	case "dead_groups":
		return float64(l.Dead), true
	case "diversity":
		return l.Diversity, true
	case "spread_in_groups":
		return l.Spread, true
	}
	if len(l.Updates) == 0 {
		return 0, false
	}
	u := l.Updates[len(l.Updates)-1]
	switch name {
	case "gradient":
		return u.Gradient, true
	case "loss":
		return u.Loss, true
	case "ratio":
		return math.Abs(u.RatioMost - 1), true
	}
	v, ok := u.Metrics[name]
	return v, ok
}
