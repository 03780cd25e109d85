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
		v, ok := line.Value(m.Watch)
		if !ok || math.IsNaN(v) {
			continue // not measured in this iteration
		}
		first, seen := t.first[m.Watch]
		if !seen {
			t.first[m.Watch], first = v, v
		}
		says := broken(m, v, first)
		if says == "" {
			delete(t.streaks, m.Rule())
			continue
		}
		if t.streaks[m.Rule()]++; t.streaks[m.Rule()] < m.For {
			continue
		}
		delete(t.streaks, m.Rule())
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

// Value is a number of the line by the name that monitors watch it by, and whether it was
// measured.
func (l *Line) Value(name string) (float64, bool) {
	if kind, rest, ok := strings.Cut(name, "."); ok {
		return l.valueOf(kind, rest)
	}
	groups := float64(max(1, len(l.Prompts)))
	switch name {
	case "total":
		return l.Total.Mean, l.Total.Missing < l.Samples
	case "missing":
		return float64(l.Total.Missing) / float64(max(1, l.Samples)), true
	case "dead_groups":
		return float64(l.Dead), true
	case "dead_share":
		return float64(l.Dead) / groups, true
	case "diversity":
		return l.Diversity, true
	case "spread_in_groups":
		return l.Spread, true
	case "reward_modes":
		if l.Histogram == nil {
			return 0, false
		}
		return l.Histogram.Modes, true
	}
	if name == "noise_floor" && l.Check != nil && l.Check.Floor != nil {
		return *l.Check.Floor, true
	}
	return l.ofUpdates(name)
}

// valueOf is a number of a kind of which there are several.
func (l *Line) valueOf(kind, name string) (float64, bool) {
	switch kind {
	case "reward", "gold":
		s, ok := l.Rewards[name]
		return s.Mean, ok && s.Missing < l.Samples
	case "missing":
		s, ok := l.Rewards[name]
		return float64(s.Missing) / float64(max(1, l.Samples)), ok
	case "heldout":
		m, ok := l.HeldOut[name]
		return m.Mean, ok
	case "best_of":
		v, ok := l.BestOf[name]
		return v, ok
	case "episode":
		v, ok := l.Episodes[name]
		return v, ok
	case "picture":
		v, ok := l.Pictures[name]
		return v, ok
	}
	return 0, false
}

// ofUpdates is a number of the last update, or of the first.
func (l *Line) ofUpdates(name string) (float64, bool) {
	if len(l.Updates) == 0 {
		return 0, false
	}
	u := l.Updates[len(l.Updates)-1]
	judged := u.RatioMost != 0
	switch name {
	case "gradient":
		return u.Gradient, true
	case "loss":
		return u.Loss, true
	case "lr":
		return u.Rate, true
	case "ratio":
		return math.Abs(u.RatioMost - 1), judged
	case "mismatch":
		return l.Updates[0].Mismatch, judged
	case "clip_fraction":
		for _, of := range []string{"clipped", "masked_fraction"} {
			if v, ok := u.Metrics[of]; ok {
				return v, true
			}
		}
		return 0, false
	}
	v, ok := u.Metrics[name]
	return v, ok
}
