package main

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/sde"
)

var scheduleOps = map[string]Op{
	// Schedules, and the times at which training noises.
	"sched.betas":                schedBetas,
	"sched.calculate_shift":      schedDynamicShift,
	"sched.ddim_timesteps":       schedDDIM,
	"sched.dpm_flow":             schedGrid,
	"sched.flow_match_euler":     schedFlow,
	"sched.flow_match_heun":      schedHeun,
	"sched.logit_normal_shifted": schedLogitNormal,
	"sched.sd3_loss_weighting":   schedWeighting,
	"sched.static_shift":         schedStatic,
	"sched.time_sampler":         schedTimes,
	"sched.unipc_flow":           schedGrid,

	// Windows of trained steps.
	"window.dance_num_train":        windowDance,
	"window.flow_grpo_num_train":    windowFraction,
	"window.fraction_range":         windowRange,
	"window.mixgrpo":                windowMixGRPO,
	"window.mixgrpo_random_support": windowMixGRPOSupport,
	"window.random_support":         windowSupport,
	"window.unirl":                  windowUniRL,
	"window.verl_progressive":       windowVerl,

	// Guidance, packing of latents, and which prompts are rolled.
	"guidance.cfg":      guide,
	"guidance.cfg_norm": guideNorm,
	"guidance.rescale":  rescale,
	"latent.flux_pack":  fluxPack,
	"noise.ddpm":        noised,
	"sampler.k_repeat":  repeat,
	"seed.prompt_hash":  promptHash,
}

func putSchedule(c *Case, s sde.Schedule) {
	c.Put("sigmas", s.Sigmas, "timesteps", s.Timesteps)
}

// flag, numberOr and text are settings that may be missing.
func flag(c *Case, name string) bool { return c.Has(name) && c.Bool(name) }

func numberOr(c *Case, name string, otherwise float64) float64 {
	if !c.Has(name) {
		return otherwise
	}
	return c.Float(name)
}

func text(c *Case, name, otherwise string) string {
	if !c.Has(name) {
		return otherwise
	}
	return c.String(name)
}

func schedStatic(c *Case) {
	s := sde.Static(c.Float("shift"), c.Int("steps"))
	c.Put("sigmas", s.Sigmas, "model_timestep", s.Timesteps)
}

func schedFlow(c *Case) {
	config, o := c.Sub("config"), sde.DefaultFlow()
	o.Shift = numberOr(config, "shift", 1)
	o.Terminal = numberOr(config, "shift_terminal", 0)
	o.TrainSteps = int(numberOr(config, "num_train_timesteps", 1000))
	o.Dynamic, o.Invert = flag(config, "use_dynamic_shifting"), flag(config, "invert_sigmas")
	o.Linear = text(config, "time_shift_type", "exponential") == "linear"
	o.Karras, o.Exponential, o.Beta = flag(config, "use_karras_sigmas"), flag(config, "use_exponential_sigmas"), flag(config, "use_beta_sigmas")
	o.SigmaMax, o.SigmaMin = numberOr(c, "sigma_max", 1), numberOr(c, "sigma_min", 0.001)
	var base []float64
	c.Given("sigmas_in", &base)
	putSchedule(c, must(sde.Flow(o, c.Int("steps"), base, numberOr(c, "mu", 0))))
}

func schedDynamicShift(c *Case) {
	c.Put("mu", sde.DynamicShift(c.Int("image_seq_len"), c.Int("base_seq_len"), c.Int("max_seq_len"), c.Float("base_shift"), c.Float("max_shift")))
}

func schedHeun(c *Case) {
	putSchedule(c, sde.FlowHeun(c.Sub("config").Float("shift"), c.Int("steps")))
}

func schedGrid(c *Case) {
	config, grid := c.Sub("config"), sde.FlowUniPC
	if c.Op == "sched.dpm_flow" {
		grid = sde.FlowDPM
	}
	putSchedule(c, grid(config.Float("flow_shift"), c.Int("steps"), text(config, "final_sigmas_type", "zero") == "sigma_min"))
}

func schedWeighting(c *Case) {
	w := each(c.Floats("sigmas"), func(s float64) float64 { return lossWeight(c.String("scheme"), s) })
	c.Put("weighting", w)
}

func schedLogitNormal(c *Case) {
	u := c.Array("u")
	for i, v := range u.Data {
		u.Data[i] = sde.LogitNormal(v, c.Float("mean"), c.Float("std"), c.Float("shift"))
	}
	c.Put("t", u)
}

func vpOptions(config *Case) sde.VPOptions {
	o := sde.DefaultVP()
	o.TrainSteps = int(numberOr(config, "num_train_timesteps", 1000))
	o.BetaStart, o.BetaEnd = numberOr(config, "beta_start", o.BetaStart), numberOr(config, "beta_end", o.BetaEnd)
	o.Betas, o.Spacing = text(config, "beta_schedule", o.Betas), text(config, "timestep_spacing", o.Spacing)
	o.Offset, o.ZeroSNR = int(numberOr(config, "steps_offset", 0)), flag(config, "rescale_betas_zero_snr")
	config.Given("set_alpha_to_one", &o.AlphaOne)
	return o
}

func schedBetas(c *Case) {
	betas, shares := must2(vpOptions(c.Sub("config")).NoiseLevels())
	var b, a []float64
	for _, i := range c.Ints("index") {
		b, a = append(b, betas[i]), append(a, shares[i])
	}
	c.Put("betas", b, "alphas_cumprod", a)
}

func schedDDIM(c *Case) {
	s, before := must2(sde.DDIMSteps(vpOptions(c.Sub("config")), c.Int("steps")))
	c.Put("timesteps", s.Timesteps, "prev_timesteps", before, "alpha_prod", s.Alpha, "alpha_prod_prev", s.AlphaPrev)
}

func schedTimes(c *Case) {
	span := c.Floats("range")
	var perm []int
	c.Given("perm", &perm)
	c.Put("t", timesOf(c.String("kind"), c.Int("n"), span[0], span[1], c.Float("shift"), c.Floats("u"), perm))
}

// timesOf are Flow-Factory's: n of them inside [low, high) of the way from the schedule's
// start, as timesteps out of 1000. Note that its shift moves times towards 0.
//
//	uniform                  stratified: (j + u_j)/n, then permuted, then shifted
//	logit_normal_stratified  the normal's quantiles of the same, permuted
//	logit_normal             u is normal
func timesOf(kind string, n int, low, high, shift float64, u []float64, perm []int) []float64 {
	strata := times(n, func(j int) float64 { return (float64(j) + u[j]) / float64(n) })
	t := make([]float64, n)
	for j := range t {
		var f float64
		switch kind {
		case "uniform":
			f = sde.Shift(shift, low+float64(strata[perm[j]]*(high-low)))
		case "logit_normal", "logit_normal_stratified":
			z := u[j]
			if kind == "logit_normal_stratified" {
				z = sde.Quantile(strata[perm[j]])
			}
			raw := math.Min(math.Max(sde.Shift(shift, 1/(1+portable.Exp(-z))), 0.01), 1-1e-6)
			f = low + float64(raw*(high-low))
		default:
			failf("times of kind %q are not known: uniform, logit_normal and logit_normal_stratified are", kind)
		}
		t[j] = 1000 * (1 - f)
	}
	return t
}

// lossWeight is SD3's weight of a time: "sigma_sqrt" s⁻², "cosmap" 2/(π(1-2s+2s²)), else 1.
func lossWeight(scheme string, sigma float64) float64 {
	switch scheme {
	case "sigma_sqrt":
		return 1 / (sigma * sigma)
	case "cosmap":
		return 2 / (math.Pi * (1 - 2*sigma + float64(2*sigma*sigma)))
	}
	return 1
}

func windowMixGRPO(c *Case) {
	o := sde.WindowOptions{Kind: "sliding", Tail: "mixgrpo", Drop: 2, From: c.Int("cur_timestep"), Size: c.Int("group_size"), Every: c.Int("iters_per_group"), RollBack: c.Bool("roll_back")}
	if flag(c, "prog_overlap") {
		if o.Stride = c.Int("prog_overlap_step"); o.Stride == 0 {
			o.Kind = "frozen"
		}
	}
	switch c.String("sample_strategy") {
	case "decay":
		o.Lasting, o.MinEvery, o.MaxEvery = "decay", c.Int("min_iters_per_group"), c.Int("max_iters_per_group")
	case "exp_decay":
		o.Lasting, o.DecayFrom, o.DecayRate = "exp_decay", c.Int("exp_decay_thre_timestep"), c.Float("exp_decay_k")
	}
	steps := c.Int("sampling_steps")
	var cur, it []int
	var windows []any
	for i := range c.Int("iterations") {
		p := o.Position(steps, i)
		cur, it = append(cur, p.Start), append(it, p.Since)
		windows = append(windows, o.Steps(steps, i, nil))
	}
	c.Put("cur", cur, "it", it, "windows", windows)
}

func windowMixGRPOSupport(c *Case) {
	first, last := sde.WindowOptions{Drop: 2, Size: c.Int("group_size")}.Support(c.Int("sampling_steps"))
	c.Put("min_start", first, "max_start", last)
}

func windowUniRL(c *Case) {
	o := sde.WindowOptions{Kind: "sliding", Tail: "skip", From: c.Int("init_timestep"), Size: c.Int("window_size"), Overlap: c.Int("overlap_size"), Every: c.Int("iters_per_window"), RollBack: c.Bool("roll_back")}
	var windows []any
	for i := range c.Int("iterations") {
		windows = append(windows, o.Steps(c.Int("num_timesteps"), i, nil))
	}
	c.Put("windows", windows)
}

func windowRange(c *Case) {
	f := c.Floats("fraction")
	c.Put("indices", sde.WindowOptions{Kind: "range", Low: f[0], High: f[1]}.Steps(c.Int("num_timesteps"), 0, nil))
}

func windowVerl(c *Case) {
	r := c.Ints("range")
	o := sde.WindowOptions{Kind: "sliding", Tail: "shift", From: r[0], Size: c.Int("window_size"), Every: c.Int("iters_per_group")}
	c.Put("starts", times(c.Int("iterations"), func(i int) int { return o.Position(r[1], i).Start }))
}

func windowDance(c *Case) {
	o := sde.WindowOptions{Kind: "subset", Drop: 1, Fraction: c.Float("timestep_fraction")}
	c.Put("num_train", len(o.Steps(c.Int("sampling_steps"), 0, func(int) int { return 0 })))
}

func windowFraction(c *Case) {
	o := sde.WindowOptions{Kind: "fraction", Fraction: c.Float("timestep_fraction")}
	c.Put("num_train", len(o.Steps(c.Int("sampling_steps"), 0, nil)))
}

func windowSupport(c *Case) {
	r := c.Ints("range")
	first, last := sde.WindowOptions{From: r[0], Size: c.Int("window_size")}.Support(r[1])
	for _, name := range []string{"flow_grpo_fast", "miles", "verl_omni"} {
		c.Put(name, []int{first, last})
	}
}

func guide(c *Case) {
	u := c.Array("v_uncond")
	c.Put("v", Array{u.Shape, diffusion.Guide(u.Data, c.Floats("v_cond"), c.Float("scale"))})
}

func guideNorm(c *Case) {
	u := c.Array("v_uncond")
	c.Put("v", Array{u.Shape, diffusion.GuideNorm(u.Data, c.Floats("v_cond"), c.Float("scale"), u.Shape[len(u.Shape)-1])})
}

// perSample applies f to each sample's part of the arrays.
func perSample(c *Case, names []string, f func(i int, parts [][]float64)) []int {
	first := c.Array(names[0])
	n := len(first.Data) / first.Shape[0]
	for i := range first.Shape[0] {
		f(i, each(names, func(name string) []float64 { return c.Floats(name)[i*n : (i+1)*n] }))
	}
	return first.Shape
}

func rescale(c *Case) {
	var v []float64
	shape := perSample(c, []string{"v_cfg", "v_cond"}, func(_ int, p [][]float64) { v = append(v, cfgRescaled(p[0], p[1], c.Float("rescale"))...) })
	c.Put("v", Array{shape, v})
}

func noised(c *Case) {
	var x, velocity []float64
	share := c.Floats("alpha_prod")
	shape := perSample(c, []string{"x0", "noise"}, func(i int, p [][]float64) {
		xi, vi := noisedVP(p[0], p[1], share[min(i, len(share)-1)])
		x, velocity = append(x, xi...), append(velocity, vi...)
	})
	c.Put("x_t", Array{shape, x}, "velocity", Array{shape, velocity})
}

func fluxPack(c *Case) {
	l := c.Array("latents")
	channels, height, width := l.Shape[1], l.Shape[2], l.Shape[3]
	var all []float64
	var ids Array
	perSample(c, []string{"latents"}, func(_ int, p [][]float64) {
		tokens, places := must2(diffusion.Pack(p[0], channels, height, width))
		all = append(all, tokens...)
		ids = Array{Shape: []int{len(places), 3}}
		for _, at := range places {
			ids.Data = append(ids.Data, float64(at[0]), float64(at[1]), float64(at[2]))
		}
	})
	c.Put("packed", Array{[]int{l.Shape[0], height * width / 4, channels * 4}, all}, "ids", ids)
}

func repeat(c *Case) {
	unique, ranks := inGroups(c.Ints("perm1"), c.Ints("perm2"), c.Int("k"), c.Int("batch"), c.Int("world"))
	var all []any
	for _, r := range ranks {
		all = append(all, r)
	}
	c.Put("unique_prompts", unique, "per_rank", all)
}

func promptHash(c *Case) {
	seeds := each(c.Strings("prompts"), func(p string) int { return promptSeed(p, c.Int("base_seed")) })
	c.Put("seeds", seeds)
}

// Published samplers' ways that Darkroom lacks: a recorded case shows that it is understood.

// cfgRescaled gives one guided sample the deviation of the conditional one, to the degree r (Lin et al., 2023):
// r·v·std(c)/std(v) + (1-r)·v, deviations with n-1. Pipelines of diffusers have it as an option; Darkroom has not.
func cfgRescaled(guided, cond []float64, r float64) []float64 {
	scale := deviationOf(cond) / deviationOf(guided)
	return each(guided, func(g float64) float64 { return float64(r*g*scale) + float64((1-r)*g) })
}

func deviationOf(x []float64) float64 {
	mean, squares := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		squares += float64((v - mean) * (v - mean))
	}
	return math.Sqrt(squares / float64(len(x)-1))
}

// noisedVP is a clean sample noised to a share a of signal, and the velocity there:
// √a·x0 + √(1-a)·e and √a·e - √(1-a)·x0.
func noisedVP(clean, noise []float64, a float64) (x, velocity []float64) {
	signal, sigma := math.Sqrt(a), math.Sqrt(1-a)
	for i, c := range clean {
		x = append(x, float64(signal*c)+float64(sigma*noise[i]))
		velocity = append(velocity, float64(signal*noise[i])-float64(sigma*c))
	}
	return x, velocity
}

// inGroups is flow_grpo's sampler: of one epoch's permutation the first world·batch/k prompts,
// each k times in a row, permuted again, cut into one batch a worker. The permutations are
// arguments.
func inGroups(perm, shuffle []int, k, batch, world int) (unique int, perRank [][]int) {
	n := world * batch
	if k < 1 || n%k != 0 {
		failf("%d workers with batches of %d cannot hold groups of %d: the product must be a multiple", world, batch, k)
	}
	unique = n / k
	if len(perm) < unique || len(shuffle) != n {
		failf("%d prompts are needed, and %d are there", unique, len(perm))
	}
	for r := range world {
		perRank = append(perRank, times(batch, func(j int) int { return perm[shuffle[r*batch+j]/k] }))
	}
	return unique, perRank
}

// promptSeed is flow_grpo's seed of a prompt: the first four bytes of its SHA-256, added to
// the run's, below 2³¹. Equal prompts share it.
func promptSeed(prompt string, base int) int {
	sum := sha256.Sum256([]byte(prompt))
	return (base + int(binary.BigEndian.Uint32(sum[:4]))) % (1 << 31)
}
