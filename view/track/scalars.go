package track

import (
	"maps"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// scalars gathers an entry's numbers under their names.
type scalars struct {
	names aliases
	all   []Scalar
}

// add adds a number; one that was not measured is left out.
func (s *scalars) add(name string, v float64) {
	if !math.IsNaN(v) {
		s.all = append(s.all, Scalar{s.names.of(name), v})
	}
}

// each adds numbers of a kind, by their names.
func (s *scalars) each(group string, all map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s.add(group+"/"+name, all[name])
	}
}

// spread adds a mean with its bounds.
func (s *scalars) spread(name string, of ledger.Spread, samples int) {
	if of.Missing < samples {
		s.add(name, of.Mean)
		s.add(name+"_std", of.Std)
		s.add(name+"_min", of.Least)
		s.add(name+"_max", of.Most)
	}
}

// heldOut adds the measures of an evaluation.
func (s *scalars) heldOut(group string, all map[string]ledger.Measure) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		s.add(group+"/"+name, m.Mean)
		s.add(group+"/"+name+"_low", m.Low)
		s.add(group+"/"+name+"_high", m.High)
	}
}

// line adds the ledger's numbers of an iteration. gold are the rewards that are not trained on.
func (s *scalars) line(l *ledger.Line, gold map[string]bool) {
	samples, prompts := float64(max(1, l.Samples)), float64(max(1, len(l.Prompts)))
	s.spread("reward/total", l.Total, l.Samples)
	s.add("missing/total", float64(l.Total.Missing)/samples)
	for _, name := range slices.Sorted(maps.Keys(l.Rewards)) {
		group := "reward/"
		if gold[name] {
			group = "gold/"
		}
		s.spread(group+name, l.Rewards[name], l.Samples)
		s.add("missing/"+name, float64(l.Rewards[name].Missing)/samples)
	}
	if l.Skipped > 0 {
		s.add("update/skipped", float64(l.Skipped))
	}
	if l.Samples == 0 {
		s.heldOut("heldout", l.HeldOut)
		return
	}
	s.add("group/dead_share", float64(l.Dead)/prompts)
	s.add("group/spread", l.Spread)
	s.add("group/diversity", l.Diversity)
	if l.Histogram != nil {
		s.add("sample/modes", l.Histogram.Modes)
	}
	s.each("best_of", l.BestOf)
	s.each("picture", l.Pictures)
	s.each("episode", l.Episodes)
	if l.Check != nil {
		s.add("check/ratio", l.Check.Ratio)
		if l.Check.Floor != nil {
			s.add("check/noise_floor", *l.Check.Floor)
		}
	}
	s.updates(l.Updates)
	s.heldOut("heldout", l.HeldOut)
}

// updates adds the last move of the weights; the mismatch is the first one's.
func (s *scalars) updates(all []ledger.UpdateLine) {
	if len(all) == 0 {
		return
	}
	u := all[len(all)-1]
	s.add("update/loss", u.Loss)
	s.add("update/gradient", u.Gradient)
	s.add("update/lr", u.Rate)
	if u.RatioMost != 0 {
		s.add("update/ratio_furthest", u.RatioMost)
		s.add("update/mismatch", all[0].Mismatch)
	}
	s.each("update", u.Metrics)
}
