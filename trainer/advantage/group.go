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
//	scale     deviation of the group, of the batch (flow_grpo's default, Lite-PPO), the
//	          largest of any group (GenRL), none (Dr.GRPO), or its inverse (Mini-o3: groups
//	          that are undecided count more)
//	eps       added to the deviation (most), its floor (Flow-Factory), or the variance's
//	          floor and added (verl's vectorised GRPO). flow_grpo and verl-omni 1e-4, verl
//	          1e-6, DanceGRPO and MixGRPO 1e-8, OpenRLHF 1e-9
//	ddof      0 (numpy's trackers: flow_grpo, NFT, AWM, GenRL) or 1 (PyTorch: verl, DanceGRPO)
//	singleton one sample alone gets: 0 (verl-omni), its raw reward (verl's RLOO), or
//	          reward over 1 + eps with no baseline (verl's GRPO)
//	flat      a scale of exactly 0: the group teaches nothing and gets 0, or the result of eps
//	          of it (all upstreams; with trim that can be a reward over 1e-8)
//	single    verl's vectorised GRPO takes Σr² - (Σr)²/n in float32: rewards that lie within
//	          a hundredth of each other lose all but three digits of their deviation
//	trim      the share of a group's lowest rewards that leave its statistics (MixGRPO)
//
// Invariants (tests): with a mean baseline a group's advantages add up to 0; a shift of the
// rewards changes nothing, nor does a factor where there is a scale; order does not matter;
// a missing reward is as if the sample were not there.
type Options struct {
	Over      string  `toml:"over" enum:"group,batch" doc:"what a reward is compared with"`
	Baseline  string  `toml:"baseline" enum:"mean,others,none" doc:"what is subtracted"`
	Scale     string  `toml:"scale" enum:"group,batch,max_group,inverse,none" doc:"which deviation it is divided by; inverse: times the group's"`
	DDOF      int     `toml:"ddof" range:"[0,1]" doc:"0: deviation over n; 1: over n-1"`
	Eps       float64 `toml:"eps" range:"[0,inf)" doc:"keeps the scale from 0"`
	EpsMode   string  `toml:"eps_mode" enum:"add,floor,floor_add" doc:"added to the deviation, or its floor; floor_add: the variance's floor, and added"`
	Single    bool    `toml:"single" doc:"the deviation by float32 sums of squares, as verl's vectorised GRPO takes it: wrong by digits where rewards lie close"`
	InverseOf float64 `toml:"inverse_of" range:"(0,inf)" of:"scale=inverse" doc:"with scale inverse, the divisor is this over the deviation"`
	Singleton string  `toml:"singleton" enum:"zero,raw,unit" doc:"what a sample without company gets"`
	Flat      string  `toml:"flat" enum:"zero,divide" doc:"what samples get where the deviation is 0: 0, or what eps makes of them"`
	Trim      float64 `toml:"trim" range:"[0,1)" doc:"share of the lowest rewards outside the statistics"`
	Clip      float64 `toml:"clip" range:"[0,inf)" doc:"advantages are cut to ± this; 0: not"`
}

// Defaults is the group estimator as most people mean it.
func Defaults() Options {
	return Options{Over: "group", Baseline: "mean", Scale: "group", DDOF: 1, Eps: 1e-6, EpsMode: "add", InverseOf: 0.25, Singleton: "zero", Flat: "zero"}
}

// Check reports settings that contradict each other.
func (o Options) Check(report func(key, problem, hint string)) {
	if o.Baseline == "others" && o.Trim > 0 {
		report("trim", "a baseline of the others cannot be trimmed", `baseline = "mean" can`)
	}
	if o.Scale != "none" && o.Eps == 0 && o.EpsMode != "floor" {
		report("eps", "without eps a group of equal rewards divides by 0", "eps = 1e-6 is what most use")
	}
}

// Of is the advantages of rewards, whose groups ids name.
func (o Options) Of(ids []int, rewards []float64) ([]float64, error) {
	if len(ids) != len(rewards) {
		return nil, fmt.Errorf("%d rewards of %d samples", len(rewards), len(ids))
	}
	if o.Over == "batch" {
		ids = make([]int, len(ids))
	}
	groups, out := presentGroups(ids, rewards), everywhere(0, rewards)
	shared := o.shared(groups, rewards)
	for _, g := range groups {
		kept := o.trimmed(pick(rewards, g))
		m, d := mean(kept), shared
		if math.IsNaN(d) {
			d = o.deviation(kept)
		}
		for _, i := range g {
			out[i] = o.one(rewards[i], m, d, len(g))
		}
	}
	return out, nil
}

// one is the advantage of a reward among n, whose mean and deviation are given.
func (o Options) one(r, mean, d float64, n int) float64 {
	a := r
	switch {
	case n == 1 && o.needsCompany():
		return o.clipped(o.alone(r))
	case o.Baseline == "mean":
		a = r - mean
	case o.Baseline == "others":
		a = (r - mean) * float64(n) / float64(n-1)
	}
	switch {
	case o.Scale == "none":
	case !(d > 0) && o.Flat == "zero":
		a = 0
	default:
		a /= o.divisor(d)
	}
	return o.clipped(a)
}

// needsCompany says whether one sample alone cannot be compared.
func (o Options) needsCompany() bool {
	return o.Baseline != "none" || o.Scale == "group" || o.Scale == "inverse"
}

func (o Options) alone(r float64) float64 {
	switch {
	case o.Singleton == "unit" && o.Scale != "none":
		return r / o.divisor(1)
	case o.Singleton == "unit", o.Singleton == "raw":
		return r
	}
	return 0
}

// divisor is a deviation kept from 0.
func (o Options) divisor(d float64) float64 {
	if o.Scale == "inverse" {
		return o.InverseOf/d + o.Eps
	}
	switch o.EpsMode {
	case "floor":
		return math.Max(d, o.Eps)
	case "floor_add":
		return math.Sqrt(math.Max(d*d, o.Eps)) + o.Eps
	}
	return d + o.Eps
}

// deviation is that of rewards.
func (o Options) deviation(x []float64) float64 {
	if !o.Single || len(x) <= o.DDOF {
		return deviation(x, o.DDOF)
	}
	var sum, squares float32
	for _, v := range x {
		r := float32(v)
		sum += r
		squares += float32(r * r)
	}
	n := float32(len(x))
	return math.Sqrt(float64(max(squares-float32(float32(sum*sum)/n), 0) / max(n-float32(o.DDOF), 1)))
}

func (o Options) clipped(a float64) float64 {
	if o.Clip > 0 {
		return math.Min(math.Max(a, -o.Clip), o.Clip)
	}
	return a
}

// shared is the deviation that all groups are divided by, or NaN where each has its own.
func (o Options) shared(groups [][]int, rewards []float64) float64 {
	switch o.Scale {
	case "batch":
		all := slices.Concat(groups...)
		slices.Sort(all) // sums go in the order of samples, whatever their groups
		if len(all) > o.DDOF {
			return o.deviation(pick(rewards, all))
		}
		return 0
	case "max_group":
		largest := 0.0
		for _, g := range groups {
			if kept := o.trimmed(pick(rewards, g)); len(kept) > o.DDOF {
				largest = math.Max(largest, o.deviation(kept))
			}
		}
		return largest
	}
	return math.NaN()
}

// trimmed leaves out the lowest rewards, but for one.
func (o Options) trimmed(r []float64) []float64 {
	if o.Trim == 0 {
		return r
	}
	return slices.Sorted(slices.Values(r))[min(int(float64(len(r))*o.Trim), len(r)-1):]
}

// GroupRule is GRPO's.
var GroupRule = Rule{
	Name: "group", Card: "Reward less its group's mean, over the group's deviation (GRPO).",
	Paper: "GRPO (Shao et al., 2024)", Formula: "(r - mean of group) / (dev of group + eps)",
	Cases:   []string{"vlm.adv_grpo", "vlm.adv_grpo_vectorized", "vlm.adv_trl", "adv.stat_tracker", "adv.verl_omni", "adv.consecutive"},
	Company: InGroup, GroupMean: true, Scaled: true, Set: compares("group", "mean", "group"),
}

// GlobalRule is flow_grpo's default.
var GlobalRule = Rule{
	Name: "global", Card: "Reward less its group's mean, over the batch's deviation (flow_grpo's default; Lite-PPO).",
	Paper: "Flow-GRPO (Liu et al., 2025)", Formula: "(r - mean of group) / (dev of batch + eps)", Cases: []string{"adv.stat_tracker", "adv.verl_omni"},
	Company: InGroup, GroupMean: true, Scaled: true, Set: compares("group", "mean", "batch"),
}

// BatchRule knows no groups.
var BatchRule = Rule{
	Name: "batch", Card: "Reward less the batch's mean, over the batch's deviation (MixGRPO without groups).",
	Paper: "MixGRPO (Tencent, 2025), without groups", Formula: "(r - mean of batch) / (dev of batch + eps)", Cases: []string{"adv.global"},
	Company: InBatch, Scaled: true, Set: compares("batch", "mean", "batch"),
}

// DrRule is Dr.GRPO's.
var DrRule = Rule{
	Name: "dr", Card: "Reward less its group's mean, not divided (Dr.GRPO).",
	Paper: "Dr.GRPO (2025)", Formula: "r - mean of group", Cases: []string{"adv.verl_omni"},
	Company: InGroup, GroupMean: true, Scaled: true, Set: compares("group", "mean", "none"),
}

// MaxGroupRule is GenRL's.
var MaxGroupRule = Rule{
	Name: "max-group", Card: "Reward less its group's mean, over the largest deviation of any group (GenRL).",
	Paper: "GenRL (LongCat-Video)", Formula: "(r - mean of group) / (largest dev of any group + eps)", Cases: []string{"adv.max_group_std"},
	Company: InGroup, GroupMean: true, Scaled: true, Set: compares("group", "mean", "max_group"),
}

// LeaveOneOutRule is RLOO's.
var LeaveOneOutRule = Rule{
	Name: "leave-one-out", Card: "Reward less the mean of the others of its group (RLOO).",
	Paper: "RLOO", Formula: "r - mean of the others of the group", Cases: []string{"adv.rloo", "vlm.adv_rloo", "vlm.adv_rloo_vectorized"},
	Company: InGroup, GroupMean: true, Scaled: true, Set: compares("group", "others", "none"),
}

// InverseRule is Mini-o3's.
var InverseRule = Rule{
	Name: "inverse", Card: "Reward less its group's mean, times the group's deviation: undecided groups count more (Mini-o3).",
	Paper: "Mini-o3 (2025)", Formula: "(r - mean of group) · dev of group / inverse_of", Cases: []string{"vlm.adv_overturn"},
	Company: InGroup, GroupMean: true, Scaled: true, Set: compares("group", "mean", "inverse"),
}

// Words are the comparison, for the plan.
func (o Options) Words() string {
	of := map[string]string{"group": "its group's", "batch": "the batch's"}[o.Over]
	s := map[string]string{"mean": "reward less " + of + " mean", "others": "reward less the mean of the others", "none": "reward"}[o.Baseline]
	scale := map[string]string{"group": "over " + of + " deviation", "batch": "over the batch's deviation", "max_group": "over the largest deviation of any group", "inverse": "times " + of + " deviation"}[o.Scale]
	if scale == "" {
		return s
	}
	s += ", " + scale + fmt.Sprintf(" (ddof %d, eps %v %s)", o.DDOF, o.Eps, map[string]string{"add": "added", "floor": "at least", "floor_add": "at least, and added"}[o.EpsMode])
	if o.Trim > 0 {
		s += fmt.Sprintf(" without the lowest %v", o.Trim)
	}
	return s
}
