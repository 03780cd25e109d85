package advantage

import (
	"fmt"
	"math"
	"slices"
)

// The group estimator (GRPO; Shao et al., 2024) and its relatives:
//
//	a = (r - baseline) / scale
//
//	baseline  mean of the group; of the others (RLOO: n/(n-1)·(r - mean)); none
//	scale     deviation of the group, of the batch, the largest of any group (GenRL), or none
//	          (Dr.GRPO); Eps is added to it, or its floor, or both
//	ddof      0 (numpy's trackers: flow_grpo) or 1 (PyTorch: verl, DanceGRPO)
//	singleton what one sample alone gets: 0, its raw reward (verl's RLOO), or reward over
//	          1 + eps with no baseline (verl's GRPO)
//	trim      the share of a group's lowest rewards that leave its statistics (MixGRPO)
//
// Invariants (tests): with a mean baseline a group's advantages add up to 0; a shift of the
// rewards changes nothing, nor does a factor where there is a scale; order does not matter;
// a missing reward is as if the sample were not there.
type Options struct {
	Over      string  `toml:"over" enum:"group,batch" doc:"what a reward is compared with"`
	Baseline  string  `toml:"baseline" enum:"mean,others,none" doc:"what is subtracted"`
	Scale     string  `toml:"scale" enum:"group,batch,max_group,none" doc:"what it is divided by"`
	DDOF      int     `toml:"ddof" range:"[0,1]" doc:"0: deviation over n; 1: over n-1"`
	Eps       float64 `toml:"eps" range:"[0,inf)" doc:"keeps the scale from 0"`
	EpsMode   string  `toml:"eps_mode" enum:"add,floor,floor_add" doc:"added to the deviation, or its floor; floor_add: the variance's floor, and added"`
	Singleton string  `toml:"singleton" enum:"zero,raw,unit" doc:"what a sample without company gets"`
	Trim      float64 `toml:"trim" range:"[0,1)" doc:"share of the lowest rewards outside the statistics"`
	Clip      float64 `toml:"clip" range:"[0,inf)" doc:"advantages are cut to ± this; 0: not"`
}

// Defaults is the group estimator as most people mean it.
func Defaults() Options {
	return Options{Over: "group", Baseline: "mean", Scale: "group", DDOF: 1, Eps: 1e-6, EpsMode: "add", Singleton: "zero"}
}

// Check reports what does not fit together.
func (o Options) Check(report func(key, problem, hint string)) {
	if o.Baseline == "others" && o.Trim > 0 {
		report("trim", "a baseline of the others cannot be trimmed", `baseline = "mean" can`)
	}
	if o.Scale != "none" && o.Eps == 0 && o.EpsMode != "floor" {
		report("eps", "without eps a group of equal rewards divides by 0", "eps = 1e-6 is what most use")
	}
}

// Groups are the places of each group's samples, in order of first appearance.
func Groups(ids []int) [][]int {
	var groups [][]int
	number := map[int]int{}
	for i, id := range ids {
		g, ok := number[id]
		if !ok {
			g = len(groups)
			number[id] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// Consecutive is ids of groups of n that stand beside each other.
func Consecutive(samples, n int) []int {
	ids := make([]int, samples)
	for i := range ids {
		ids[i] = i / n
	}
	return ids
}

// Of is the advantages of rewards, whose groups ids name.
func (o Options) Of(ids []int, rewards []float64) ([]float64, error) {
	if len(ids) != len(rewards) {
		return nil, fmt.Errorf("%d rewards of %d samples", len(rewards), len(ids))
	}
	if o.Over == "batch" {
		ids = make([]int, len(ids))
	}
	groups := Groups(ids)
	out := make([]float64, len(rewards))
	for i := range out {
		out[i] = math.NaN()
	}
	shared := o.sharedScale(groups, rewards)
	for _, g := range groups {
		g = present(g, rewards)
		if len(g) == 0 {
			continue
		}
		r := pick(rewards, g)
		kept := o.trimmed(r)
		base, scale := o.baseline(kept), shared
		if o.Scale == "group" || shared == 0 {
			scale = o.scale(kept)
		}
		for k, i := range g {
			out[i] = o.one(r[k], base, scale, len(g))
		}
	}
	return out, nil
}

// one is a sample's advantage.
func (o Options) one(r, base, scale float64, n int) float64 {
	a := 0.0
	switch {
	case n > 1 || o.Over == "batch" && o.Baseline == "none":
		a = r - base
		if o.Baseline == "others" {
			a *= float64(n) / float64(n-1)
		}
		if o.Scale != "none" {
			a /= scale
		}
	case o.Singleton == "raw":
		a = r
	case o.Singleton == "unit":
		if a = r; o.Scale != "none" {
			a = r / (1 + o.Eps)
		}
	case o.Baseline == "none":
		if a = r; o.Scale != "none" {
			a = r / scale
		}
	}
	if o.Clip > 0 {
		a = math.Min(math.Max(a, -o.Clip), o.Clip)
	}
	return a
}

func (o Options) baseline(r []float64) float64 {
	if o.Baseline == "none" {
		return 0
	}
	return mean(r)
}

// scale is a deviation kept from 0.
func (o Options) scale(r []float64) float64 {
	switch o.EpsMode {
	case "floor":
		return math.Max(deviation(r, o.DDOF), o.Eps)
	case "floor_add":
		d := deviation(r, o.DDOF)
		return math.Sqrt(math.Max(d*d, o.Eps)) + o.Eps
	}
	return deviation(r, o.DDOF) + o.Eps
}

// sharedScale is the one that all groups have, or 0.
func (o Options) sharedScale(groups [][]int, rewards []float64) float64 {
	var all []int
	largest := 0.0
	for _, g := range groups {
		g = present(g, rewards)
		all = append(all, g...)
		if len(g) > o.DDOF && o.Scale == "max_group" {
			largest = math.Max(largest, o.scale(o.trimmed(pick(rewards, g))))
		}
	}
	if o.Scale == "batch" && len(all) > 0 {
		slices.Sort(all)
		return o.scale(pick(rewards, all))
	}
	return largest
}

// trimmed leaves out the lowest rewards.
func (o Options) trimmed(r []float64) []float64 {
	if o.Trim == 0 {
		return r
	}
	sorted := slices.Sorted(slices.Values(r))
	return sorted[min(int(float64(len(r))*o.Trim), len(r)-1):]
}

// present leaves out the places of missing rewards.
func present(places []int, rewards []float64) []int {
	return slices.DeleteFunc(slices.Clone(places), func(i int) bool { return math.IsNaN(rewards[i]) })
}

func pick(x []float64, places []int) []float64 {
	out := make([]float64, len(places))
	for k, i := range places {
		out[k] = x[i]
	}
	return out
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func deviation(x []float64, ddof int) float64 {
	m, squares := mean(x), 0.0
	for _, v := range x {
		squares += (v - m) * (v - m)
	}
	return math.Sqrt(squares / float64(len(x)-ddof))
}
