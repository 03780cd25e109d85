package experiment

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/sde"
)

// The one table of names: what can be written in a file, what it means, and what it
// is made by. A new solver, estimator or objective is its own file in its package,
// and one line here, or in names_objectives.go.

// A Name is something that can be written, with its card.
type Name struct {
	Name string `json:"name"`
	Card string `json:"card"` // a sentence or two: what it is, and whose
	sets string // keys of its table that the name sets
}

// A Section is a kind of names.
type Section struct {
	Name string // as darkroom list knows it
	Key  string // where such a name is written
	Has  []Name
}

// Sections are all names.
func Sections() []Section {
	return []Section{
		{"solvers", "sampler.solver", named(sde.Solvers(), func(s sde.Solver) Name { return Name{Name: s.Name, Card: s.Card} })},
		{"schedules", "sampler.schedule.kind", named(sde.Grids(), func(g sde.Grid) Name { return Name{Name: g.Name, Card: g.Card} })},
		{"windows", "sampler.window.kind", Windows()},
		{"advantages", "advantage.estimator", named(Estimators(), func(e EstimatorKind) Name { return e.Name })},
		{"objectives", "loss.objective", named(Objectives(), func(o ObjectiveKind) Name { return o.Name })},
		{"kls", "loss.kl.estimator", KLs()},
		{"aggregations", "loss.aggregate", Aggregations()},
		{"rewards", "reward.name", named(Rewards(), func(r RewardKind) Name { return r.Name })},
		{"scalings", "reward.scaling", Scalings()},
		{"monitors", "monitor.watch", Monitors()},
		{"choices", "", Choices()},
		{"rules", "reward.rule", named(answers.All(), func(r answers.Named) Name { return Name{Name: r.Name, Card: r.Card} })},
		{"presets", "preset", named(Presets(), func(p Preset) Name { return p.Name })},
		{"ambiguous", "", Ambiguous()},
	}
}

func named[T any](all []T, name func(T) Name) []Name {
	var names []Name
	for _, x := range all {
		names = append(names, name(x))
	}
	return names
}

// Windows are the kinds of sde.WindowOptions.
func Windows() []Name {
	return []Name{
		{Name: "full", Card: "Every step but the last drop ones."},
		{Name: "fraction", Card: "The first share of the steps (flow_grpo, where 0.99 drops the last)."},
		{Name: "range", Card: "From one share of the steps to another (UniRL)."},
		{Name: "subset", Card: "A share of the steps, drawn without order (DanceGRPO)."},
		{Name: "random", Card: "Some steps in a row from a drawn start (flow_grpo fast, verl-omni, miles)."},
		{Name: "sliding", Card: "Some steps in a row that move with the iterations (MixGRPO)."},
		{Name: "frozen", Card: "Some steps in a row, always the same (MixGRPO-Flash*)."},
	}
}

// An EstimatorKind is a way to make advantages of rewards.
type EstimatorKind struct {
	Name
	Groups bool   // compares the samples of a prompt: one alone has nothing to be compared with
	Tokens bool   // looks at tokens: needs an episode
	Both   bool   // and where a sample's decisions share its outcome, at samples alone: pictures will do
	Credit string // what [advantage.credit] must be: "gae", "baseline", or "spread" for ""
	Values bool   // learns a head of values beside the policy
	Edges  bool   // credit goes to the edges of trees: decisions weigh the same, and not steps
	Greedy bool   // compares with the likeliest answer to the same prompt
}

// compares is what the names of group estimators set.
func compares(over, baseline, scale string) string {
	return fmt.Sprintf("over = %q\nbaseline = %q\nscale = %q", over, baseline, scale)
}

// Estimators are those of trainer/advantage.
func Estimators() []EstimatorKind {
	group := func(name, card, sets string) EstimatorKind {
		return EstimatorKind{Name: Name{name, card, sets}, Groups: true}
	}
	tokens := func(name, card, credit, sets string) EstimatorKind {
		return EstimatorKind{Name: Name{name, card, fmt.Sprintf("[credit]\nhow = %q\n%s", credit, sets)}, Tokens: true, Credit: credit}
	}
	reinforce := tokens("reinforce++", "Rewards to come, discounted by credit.gamma, whitened over the batch's tokens (REINFORCE++); of pictures, rewards whitened over the batch.", "gae", "observations = \"reset\"\nwhiten.on = true")
	reinforce.Both = true
	values := tokens("gae", "Generalised advantage estimation over tokens, with a head of values on the model's own states (loss.value), whitened (PPO).", "gae", "observations = \"skip\"\nwhiten.on = true\nwhiten.outside = true")
	values.Values = true
	remax := tokens("remax", "Rewards to come, less the reward of the prompt's greedy answer (ReMax).", "gae", "observations = \"count\"")
	remax.Greedy = true
	return []EstimatorKind{
		group("group", "Reward less its group's mean, over the group's deviation (GRPO).", compares("group", "mean", "group")),
		group("global", "Reward less its group's mean, over the batch's deviation (flow_grpo's default; Lite-PPO).", compares("group", "mean", "batch")),
		{Name: Name{"batch", "Reward less the batch's mean, over the batch's deviation (MixGRPO without groups).", compares("batch", "mean", "batch")}},
		group("dr", "Reward less its group's mean, not divided (Dr.GRPO).", compares("group", "mean", "none")),
		group("max-group", "Reward less its group's mean, over the largest deviation of any group (GenRL).", compares("group", "mean", "max_group")),
		group("leave-one-out", "Reward less the mean of the others of its group (RLOO).", compares("group", "others", "none")),
		group("inverse", "Reward less its group's mean, times the group's deviation: undecided groups count more (Mini-o3).", compares("group", "mean", "inverse")),
		{Name: Name{"history", "Reward compared with the last rewards of its prompt (DDPO's tracker).", ""}},
		{Name: Name{"tracker", "Reward less what its prompt is expected to earn, a Beta distribution that forgets, over the batch's deviation; one sample a prompt will do (SPO, single-stream).", compares("batch", "mean", "group")}},
		group("win-rate", "Share of comparisons with its group that a sample wins, by its reward; then as group (Pref-GRPO, whose judge compares pairs).", compares("group", "mean", "group")),
		group("exponential", "e to the reward, over its group's mean of that: weights that are positive (reward-weighted regression).", ""),
		group("best", "1 for the best of a group, 0 for all others (fine-tuning on the best).", ""),
		group("ends", "+1 for the best of a group, -1 for the worst, 0 for all others (online DPO).", ""),
		group("pass-at-k", "Only the best of a group counts, by its lead over the second (verl).", ""),
		group("max-at-k", "What a sample adds to the best of k of its group: training for pass@k (PKPO).", "scale = \"none\""),
		group("beta", "Reward less its group's mean, over a Beta density fitted to the success rates of the batch (BNPO).", ""),
		group("diversity", "As dr, and good samples count more the farther they lie from the others (GARDO).", ""),
		{Name: Name{"tree", "Layer-wise credit: nodes of a tree compared with those of the same depth (BranchGRPO).", ""}, Edges: true},
		{Name: Name{"opo", "Reward less its group's mean weighted by length (OPO); pictures have one length, so that it is dr.", ""}, Tokens: true, Both: true, Groups: true},
		{Name: Name{"gpg", "As dr, times samples over those whose reward is not 0 (GPG).", ""}, Tokens: true, Both: true, Groups: true},
		{Name: Name{"reinforce++-baseline", "Reward less its group's mean, whitened over the batch's tokens (REINFORCE++ with a baseline).",
			compares("group", "mean", "none") + "\nsingleton = \"raw\"\ncredit.whiten.on = true"}, Groups: true, Tokens: true, Both: true},
		reinforce,
		remax,
		values,
	}
}

// Scalings are what published projects make of one cosine.
func Scalings() []Name {
	var all []Name
	for _, x := range neural.Scalings() {
		all = append(all, Name{Name: x.Name, Card: x.Card()})
	}
	return all
}
