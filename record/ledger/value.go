package ledger

import (
	"math"
	"strings"
)

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
		return float64(l.Total.Missing) / float64(max(1, l.Samples)), l.Samples > 0
	case "dead_groups":
		return float64(l.Dead), l.Samples > 0
	case "dead_share":
		return float64(l.Dead) / groups, l.Samples > 0
	case "skipped":
		return float64(l.Skipped), true
	case "diversity":
		return l.Diversity, l.Samples > 0
	case "spread_in_groups":
		return l.Spread, l.Total.Missing < l.Samples
	case "reward_modes":
		if l.Histogram == nil || l.Total.Missing == l.Samples {
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
		return v, ok || (name == "defused" || name == "lost" || name == "given") && l.Episodes != nil // which are written where they are not 0
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
