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
		{"solvers", "sampler.solver", named(Solvers(), func(s Solver) Name { return s.Name })},
		{"schedules", "sampler.schedule.kind", named(Schedules(), func(s ScheduleKind) Name { return s.Name })},
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

// A rowOf is a solver: the row of a step.
type rowOf = func(s sde.Schedule, step int) sde.Row

// A Solver is a way to take a step.
type Solver struct {
	Name
	Draws   bool // at random
	Always  bool // draws whatever sampler.noise is
	Judged  bool // has a log-probability
	Ladder  bool // of variance-preserving schedules ("ddpm")
	History bool // looks at steps before the last
	Whole   bool // must take every step of a trajectory
	make    func(Sampler) rowOf
}

// Step is the solver's row at a noise level, where nothing else is set.
func (s Solver) Step(noise float64, prediction sde.Prediction) func(t sde.Schedule, step int) sde.Row {
	o := defaultSampler()
	o.Noise, o.Prediction = noise, string(prediction)
	return s.make(o)
}

// Solvers are those of package sde.
func Solvers() []Solver {
	always := func(row rowOf) func(Sampler) rowOf { return func(Sampler) rowOf { return row } }
	dpm := func(m sde.Multistep) func(Sampler) rowOf { m.LowerOrderFinal = true; return always(m.Row) }
	return []Solver{
		{Name: Name{Name: "euler", Card: "Euler's step along the flow; deterministic."}, make: always(sde.Euler)},
		{Name: Name{Name: "heun", Card: "Heun's method, two calls a step (diffusers); deterministic, with the schedule heun."}, History: true, Whole: true, make: always(sde.Heun)},
		{Name: Name{Name: "flow-sde", Card: "The SDE with the flow's marginals (Flow-GRPO); noise_limit bounds a step's deviation (LongCat, GenRL)."}, Draws: true, Judged: true,
			make: func(s Sampler) rowOf {
				return func(t sde.Schedule, step int) sde.Row { return sde.FlowSDE(t, step, s.Noise, s.NoiseLimit) }
			}},
		{Name: Name{Name: "flow-wan", Card: "The SDE of Flow-GRPO's Wan script, whose noise falls with sigma (Flash-GRPO, UniRL); noise = 1 upstream."}, Draws: true, Judged: true,
			make: func(s Sampler) rowOf {
				return func(t sde.Schedule, step int) sde.Row { return sde.FlowWan(t, step, s.Noise) }
			}},
		{Name: Name{Name: "dance", Card: "DanceGRPO's SDE: constant noise, the score of the predicted clean sample."}, Draws: true, Judged: true,
			make: func(s Sampler) rowOf {
				density := sde.Gaussian
				if s.Density == "unnormalised" {
					density = sde.Unnormalised
				}
				return func(t sde.Schedule, step int) sde.Row { return sde.Dance(t, step, s.Noise, density) }
			}},
		{Name: Name{Name: "cps", Card: "Coefficients-preserving sampling (Flow-CPS): latents have the noise that their time asks for; the log-probability is the bare square."}, Draws: true, Judged: true,
			make: func(s Sampler) rowOf {
				return func(t sde.Schedule, step int) sde.Row { return sde.CPS(t, step, s.Noise) }
			}},
		{Name: Name{Name: "flow-ddim", Card: "DDIM for flows (DiffusionNFT's solver); noise = 0 is Euler's step."}, Draws: true, Judged: true,
			make: func(s Sampler) rowOf {
				return func(t sde.Schedule, step int) sde.Row { return sde.FlowDDIM(t, step, s.Noise) }
			}},
		{Name: Name{Name: "renoise", Card: "The predicted clean sample noised anew (diffusers' stochastic_sampling); it has no log-probability."}, Draws: true, Always: true, make: always(sde.EulerStochastic)},
		{Name: Name{Name: "dpm++2m", Card: "DPM-Solver++, multistep, second order (midpoint); deterministic."}, History: true, make: dpm(sde.Multistep{Order: 2})},
		{Name: Name{Name: "dpm++2m-heun", Card: "DPM-Solver++, multistep, second order (heun); deterministic."}, History: true, make: dpm(sde.Multistep{Order: 2, Heun: true})},
		{Name: Name{Name: "dpm++3m", Card: "DPM-Solver++, multistep, third order; deterministic."}, History: true, make: dpm(sde.Multistep{Order: 3, Heun: true})},
		{Name: Name{Name: "dpm++2m-sde", Card: "Stochastic DPM-Solver++, multistep, second order (midpoint)."}, Draws: true, Always: true, Judged: true, History: true, make: dpm(sde.Multistep{Order: 2, SDE: true})},
		{Name: Name{Name: "dpm++2s", Card: "DPM-Solver++, singlestep, second order; deterministic."}, History: true, Whole: true,
			make: always(func(t sde.Schedule, step int) sde.Row {
				return sde.Singlestep{Orders: sde.SinglestepOrders(2, t.Steps(), true)}.Row(t, step)
			})},
		{Name: Name{Name: "unipc", Card: "UniPC, predictor and corrector of second order (Wan's default); deterministic."}, History: true, Whole: true, make: always(sde.UniPC{Order: 2}.Row)},
		{Name: Name{Name: "ddim", Card: "DDIM with eta = noise for variance-preserving models (ddpo-pytorch, trl)."}, Draws: true, Judged: true, Ladder: true,
			make: func(s Sampler) rowOf {
				return func(t sde.Schedule, step int) sde.Row {
					r, _ := sde.DDIM(t, step, s.Noise, sde.Prediction(s.Prediction), s.Clip) // the prediction is one of the enum
					return r
				}
			}},
		{Name: Name{Name: "ddpm", Card: "Ancestral sampling for variance-preserving models (Ho et al.)."}, Draws: true, Always: true, Judged: true, Ladder: true,
			make: func(s Sampler) rowOf {
				return func(t sde.Schedule, step int) sde.Row {
					r, _ := sde.DDPM(t, step, sde.Prediction(s.Prediction), false)
					return r
				}
			}},
	}
}

// A ScheduleKind is a way to place the times.
type ScheduleKind struct {
	Name
	Ladder bool
	make   func(o Schedule, steps int) (sde.Schedule, error)
}

// Schedules are those of package sde.
func Schedules() []ScheduleKind {
	flow := func(change func(*sde.FlowOptions)) func(Schedule, int) (sde.Schedule, error) {
		return func(o Schedule, steps int) (sde.Schedule, error) {
			f := sde.DefaultFlow()
			f.Shift = o.Shift
			change(&f)
			return sde.FlowFP32(f, steps, nil, 0)
		}
	}
	grid := func(make func(shift float64, steps int) sde.Schedule) func(Schedule, int) (sde.Schedule, error) {
		return func(o Schedule, steps int) (sde.Schedule, error) { return make(o.Shift, steps), nil }
	}
	return []ScheduleKind{
		{Name{Name: "shifted", Card: "diffusers' grid for flows, shifted (SD3, flow_grpo)."}, false, flow(func(*sde.FlowOptions) {})},
		{Name{Name: "static", Card: "An even grid from 1 to 0, shifted (DanceGRPO, MixGRPO, BranchGRPO)."}, false, grid(sde.StaticFP32)},
		{Name{Name: "dynamic", Card: "Shifted by the picture's size (FLUX, Qwen-Image in diffusers); tokens is the number of patches."}, false, dynamic},
		{Name{Name: "karras", Card: "Sigmas spaced by Karras's rule between those of shifted."}, false, flow(func(f *sde.FlowOptions) { f.Karras = true })},
		{Name{Name: "exponential", Card: "Sigmas spaced evenly in their logarithm."}, false, flow(func(f *sde.FlowOptions) { f.Exponential = true })},
		{Name{Name: "beta", Card: "Sigmas spaced by quantiles of a beta distribution."}, false, flow(func(f *sde.FlowOptions) { f.Beta = true })},
		{Name{Name: "heun", Card: "shifted, with every inner sigma twice, for the solver heun."}, false, grid(sde.HeunFP32)},
		{Name{Name: "unipc", Card: "UniPC's grid for flows (Wan), from just below 1."}, false, grid(func(k float64, n int) sde.Schedule { return sde.UniPCFP32(k, n, false) })},
		{Name{Name: "dpm", Card: "DPM-Solver's grid for flows."}, false, grid(func(k float64, n int) sde.Schedule { return sde.DPMFP32(k, n, false) })},
		{Name{Name: "ddpm", Card: "Variance-preserving: steps of a ladder of a thousand (Stable Diffusion 1, 2, XL)."}, true, ladder},
	}
}

// dynamic is FLUX's: an even base, shifted by a line through 256 and 4096 tokens.
func dynamic(o Schedule, steps int) (sde.Schedule, error) {
	f := sde.DefaultFlow()
	f.Dynamic = true
	return sde.FlowFP32(f, steps, sde.DownFromOne(steps), dynamicShift(o))
}

func dynamicShift(o Schedule) float64 { return sde.DynamicShift(o.tokens(), 256, 4096, 0.5, 1.15) }

// ladder is Stable Diffusion's.
func ladder(o Schedule, steps int) (sde.Schedule, error) {
	s, _, err := sde.DDIMSteps(o.ladder(), steps)
	return s, err
}

func (o Schedule) ladder() sde.VPOptions {
	v := sde.DefaultVP()
	v.Betas, v.Spacing, v.BetaStart, v.BetaEnd, v.AlphaOne = o.Betas, o.Spacing, 0.00085, 0.012, false
	if v.Spacing == "leading" {
		v.Offset = 1
	}
	return v
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
