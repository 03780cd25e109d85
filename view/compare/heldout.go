package compare

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/record/ledger"
)

// HeldOut holds two runs' scores in their last evaluations, and the difference B − A.
type HeldOut struct {
	Reward     string         `json:"reward"`
	Iterations [2]int         `json:"iterations"` // of the evaluations
	A          ledger.Measure `json:"a"`
	B          ledger.Measure `json:"b"`
	Difference ledger.Measure `json:"difference"`
	// Paired: the interval is of the prompts' own differences, which is narrower than of two means.
	// Without heldout.jsonl it is of the two means.
	Paired bool `json:"paired"`
}

// heldOut compares the last evaluations, reward by reward.
func heldOut(a, b *run) ([]HeldOut, error) {
	la, lb := a.evaluation(), b.evaluation()
	if la == nil || lb == nil {
		return nil, nil
	}
	sa, err := a.samples(la)
	if err != nil {
		return nil, err
	}
	sb, err := b.samples(lb)
	if err != nil {
		return nil, err
	}
	var all []HeldOut
	for _, name := range slices.Sorted(maps.Keys(la.HeldOut)) {
		mb, ok := lb.HeldOut[name]
		if !ok {
			continue
		}
		h := HeldOut{Reward: name, Iterations: [2]int{la.Iteration, lb.Iteration}, A: la.HeldOut[name], B: mb}
		if pairs := paired(sa, sb, name); len(pairs) > 0 {
			h.Difference, h.Paired = ledger.MeasureOf(pairs), true
		} else {
			h.Difference = unpaired(h.A, h.B)
		}
		all = append(all, h)
	}
	return all, nil
}

// evaluation is the last iteration that was evaluated after; nil: none was.
func (r *run) evaluation() *ledger.Line {
	for i := len(r.lines) - 1; i >= 0; i-- {
		if len(r.lines[i].HeldOut) > 0 {
			return &r.lines[i]
		}
	}
	return nil
}

// samples are the held-out ones of an evaluation.
func (r *run) samples(after *ledger.Line) ([]ledger.HeldOutLine, error) {
	all, err := ledger.ReadHeldOut(filepath.Join(r.dir, ledger.HeldOutFile))
	return all[after.Iteration], err
}

// paired are the differences of the prompts that both runs have a score of; missing ones are left out.
func paired(a, b []ledger.HeldOutLine, name string) (differences [][]float64) {
	before, _ := means(a, name)
	after, order := means(b, name)
	for _, key := range order {
		x, ok := before[key]
		if ok && !math.IsNaN(x) && !math.IsNaN(after[key]) {
			differences = append(differences, []float64{after[key] - x})
		}
	}
	return differences
}

// means are the prompts' own, by text and how often it came before, in the file's order.
func means(lines []ledger.HeldOutLine, name string) (by map[string]float64, order []string) {
	values, keys, seen := map[string][]float64{}, map[int]string{}, map[string]int{}
	for _, l := range lines {
		key, ok := keys[l.Prompt]
		if !ok {
			key = fmt.Sprintf("%s\x00%d", l.Text, seen[l.Text])
			seen[l.Text]++
			keys[l.Prompt], order = key, append(order, key)
		}
		v := math.NaN()
		if n := l.Number(name); n != nil {
			v = *n
		}
		values[key] = append(values[key], v)
	}
	by = map[string]float64{}
	for key, v := range values {
		by[key] = ledger.SpreadOf(v).Mean
	}
	return by, order
}

// unpaired is the difference of two means, with the interval of independent ones.
func unpaired(a, b ledger.Measure) ledger.Measure {
	d := b.Mean - a.Mean
	half := portable.Hypot(a.High-a.Mean, b.High-b.Mean)
	return ledger.Measure{Mean: d, Low: d - half, High: d + half, Prompts: min(a.Prompts, b.Prompts)}
}
