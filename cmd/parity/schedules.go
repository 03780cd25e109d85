package main

import (
	"github.com/darkroom-rl/darkroom/sde"
)

// Schedules, and the times at which training noises.

var scheduleOps = map[string]Op{
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
