package report

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// A Gain is how much a held-out reward rose from before training to the latest evaluation, with a 95 % interval.
//
// Both evaluations draw from the same seeds, so the interval is of the differences of single prompts where the run's
// folder has their scores (Paired). Where it has not, the two measures' own intervals are added as if they were
// independent, which is wider.
type Gain struct {
	Name      string          `json:"name"`
	Kind      string          `json:"kind"` // trained, gold, total
	Before    *ledger.Measure `json:"before"`
	After     *ledger.Measure `json:"after"`
	Iteration int             `json:"iteration"` // that After was measured after
	Known     bool            `json:"known"`     // both were measured
	Value     float64         `json:"value"`
	Low       float64         `json:"low"`
	High      float64         `json:"high"`
	Certain   bool            `json:"certain"` // there is an interval: more than one prompt
	Paired    bool            `json:"paired"`
}

// Rose and Fell report whether the whole interval lies on one side of 0.
func (g Gain) Rose() bool { return g.Certain && g.Low > 0 }

// Fell is Rose's opposite; a gain may be neither.
func (g Gain) Fell() bool { return g.Certain && g.High < 0 }

// gains are the total's first, then those of trained rewards, then of gold ones.
func (r *Run) gains(of map[string]ledger.Gain, paired bool) []Gain {
	var all []Gain
	kinds := r.kinds()
	var before, after []ledger.HeldOutLine
	if paired {
		before, after = r.firstAndLast(of)
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		kind := kinds[name]
		if name == "total" {
			kind = "total"
		}
		all = append(all, gainOf(name, kind, of[name], before, after))
	}
	order := map[string]int{"total": -3, "trained": -2, "gold": -1} // then values that the folder calls neither
	slices.SortStableFunc(all, func(a, b Gain) int { return order[a.Kind] - order[b.Kind] })
	return all
}

// firstAndLast are the samples of the evaluations that gains are between; none where the folder has none.
func (r *Run) firstAndLast(of map[string]ledger.Gain) (before, after []ledger.HeldOutLine) {
	last := 0
	for _, g := range of {
		last = max(last, g.Iteration)
	}
	if last == 0 {
		return nil, nil
	}
	all, err := ledger.ReadHeldOutOf(filepath.Join(r.Dir, ledger.HeldOutFile), 0, last)
	if err != nil {
		return nil, nil // the means are known without it
	}
	return all[0], all[last]
}

func gainOf(name, kind string, of ledger.Gain, before, after []ledger.HeldOutLine) Gain {
	g := Gain{Name: name, Kind: kind, Before: of.Before, After: of.After, Iteration: of.Iteration, Known: of.Known()}
	if !g.Known {
		return g
	}
	a, b := of.After, of.Before
	g.Value = a.Mean - b.Mean
	half := math.Hypot(a.High-a.Low, b.High-b.Low) / 2
	g.Low, g.High, g.Certain = g.Value-half, g.Value+half, min(a.Prompts, b.Prompts) > 1
	if len(before) == 0 || a.Missing+b.Missing > 0 {
		return g
	}
	if m := pairs(name, before, after); m.Prompts == a.Prompts && m.Prompts > 1 && math.Abs(m.Mean-g.Value) < 1e-9 {
		g.Low, g.High, g.Paired = m.Low, m.High, true
	}
	return g
}

// pairs measures the differences of single prompts.
func pairs(name string, before, after []ledger.HeldOutLine) ledger.Measure {
	type key struct{ prompt, sample int }
	first := map[key]float64{}
	for _, s := range before {
		if v := s.Number(name); v != nil {
			first[key{s.Prompt, s.Sample}] = *v
		}
	}
	by := map[int][]float64{}
	for _, s := range after {
		v, was := s.Number(name), first[key{s.Prompt, s.Sample}]
		if _, ok := first[key{s.Prompt, s.Sample}]; ok && v != nil {
			by[s.Prompt] = append(by[s.Prompt], *v-was)
		}
	}
	var groups [][]float64
	for _, p := range slices.Sorted(maps.Keys(by)) {
		groups = append(groups, by[p])
	}
	return ledger.MeasureOf(groups)
}

// Verdict is a run's result, in sentences.
type Verdict struct {
	Says  string   `json:"says"`
	Tone  string   `json:"tone"`  // better, worse, or "" where neither can be told
	Notes []string `json:"notes"` // warnings: gold rewards that fell, monitors
}

// verdict says it of the gains and of how many monitors fired.
func (r *Run) verdict(gains []Gain, fired int) Verdict {
	v := Verdict{Says: "Nothing was measured on held-out prompts yet, so the gain is unknown."}
	if len(gains) > 0 && gains[0].Kind == "total" && gains[0].Known {
		g := gains[0]
		v.Says, v.Tone = g.says()
	}
	for _, g := range gains {
		switch {
		case g.Kind != "gold" || !g.Known:
		case g.Fell():
			v.Notes = append(v.Notes, fmt.Sprintf("Gold reward %s fell by %.3f (%s): the trained reward may be gamed.", g.Name, -g.Value, g.interval()))
		}
	}
	v.Says = minus(v.Says)
	if fired > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s fired.", count(fired, "monitor")))
	}
	return v
}

// minus is a text with the sign that a minus has in print; words keep their hyphens.
func minus(text string) string { return negative.ReplaceAllString(text, "${1}\u2212$2") }

var negative = regexp.MustCompile(`(^|[ (])-(\d)`)

func (g Gain) says() (text, tone string) {
	where := fmt.Sprintf("from %.3f to %.3f after iteration %d", g.Before.Mean, g.After.Mean, g.Iteration)
	switch {
	case !g.Certain:
		return fmt.Sprintf("The held-out reward went %s: %s, of one prompt, which has no interval.", where, Signed(g.Value)), ""
	case g.Rose():
		return fmt.Sprintf("The held-out reward rose by %.3f (%s), %s.", g.Value, g.interval(), where), "better"
	case g.Fell():
		return fmt.Sprintf("The held-out reward fell by %.3f (%s), %s.", -g.Value, g.interval(), where), "worse"
	}
	return fmt.Sprintf("The gain is unknown: %s (%s), %s.", Signed(g.Value), g.interval(), where), ""
}

// interval is the gain's, of a fall in the order in which a fall is read.
func (g Gain) interval() string {
	if g.Fell() {
		return fmt.Sprintf("95 %%: %.3f to %.3f", -g.High, -g.Low)
	}
	return fmt.Sprintf("95 %%: %s to %s", strings.TrimSpace(Signed(g.Low)), Signed(g.High))
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
