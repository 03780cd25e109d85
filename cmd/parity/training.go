package main

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// trainingOps are the optimiser, learning rates and averages: trainer/optim.
var trainingOps = map[string]Op{
	"optim.adamw":          adamW,
	"optim.clip_grad_norm": clipGradNorm,
	"ema.flow_grpo":        emaFlowGRPO,
	"ema.diffusers":        emaDiffusers,
	"ema.nft_decay":        nftDecay,
	"ema.decay_schedule":   decaySchedule,
	"lr.schedule":          lrSchedule,
}

// optimOptions reads the inputs that name AdamW's numbers; what a case leaves out
// is torch's default.
func optimOptions(c *Case) optim.Options {
	o := optim.Defaults()
	o.LR, o.WeightDecay = c.Float("lr"), c.Float("weight_decay")
	if c.Has("betas") {
		copy(o.Betas[:], c.Floats("betas"))
	}
	c.Given("eps", &o.Eps)
	return o
}

func adamW(c *Case) {
	o, params, grads := optimOptions(c), c.Floats("params"), c.Array("grads")
	if len(grads.Shape) != 2 || grads.Shape[1] != len(params) {
		failf("grads have shape %v for %d parameters", grads.Shape, len(params))
	}
	step := adamWTwin
	if c.String("dtype") == "float32" {
		step = adamWKernel
	}
	after, m, v := step(c, o, params, samples(grads))
	c.Put("params", Array{grads.Shape, after}, "exp_avg", m, "exp_avg_sq", v)
}

// adamWTwin returns the parameters after every step, and the last state.
func adamWTwin(_ *Case, o optim.Options, params []float64, grads [][]float64) (after, m, v []float64) {
	a := optim.NewAdamW(o, len(params))
	for _, g := range grads {
		a.Step(params, g, o.LR)
		after = append(after, params...)
	}
	return after, a.M, a.V
}

// adamWKernel does the same with the engine's kernel.
func adamWKernel(c *Case, o optim.Options, params []float64, grads [][]float64) (after, m, v []float64) {
	be := must(c.open())
	defer be.Close()
	s := tensor.NewPool(be).Scope()
	defer s.End()
	zeros := make([]float32, len(params))
	state := func(x []float32) *tensor.Tensor {
		t := s.New(kernels.F32, len(x))
		t.UploadF32(x)
		return t
	}
	p, g, s1, s2 := state(to[float32](params)), state(zeros), state(zeros), state(zeros)
	a := optim.NewAdamW(o, 0)
	for _, grad := range grads {
		g.UploadF32(to[float32](grad))
		step := a.Kernel(o.LR)
		step.P, step.Grad, step.M, step.V = p.Span(), g.Span(), s1.Span(), s2.Span()
		be.AdamW(&step)
		after = append(after, to[float64](p.F32())...)
	}
	return after, to[float64](s1.F32()), to[float64](s2.F32())
}

func clipGradNorm(c *Case) {
	list, ok := c.Raw("grads").([]any)
	if !ok {
		failf("grads is not a list of arrays")
	}
	var arrays []any
	var grads [][]float64
	for _, e := range list {
		a, ok := e.(Array)
		if !ok {
			failf("grads is not a list of arrays")
		}
		arrays, grads = append(arrays, a), append(grads, a.Data)
	}
	c.Put("norm", clipNorm(grads, c.Float("max_norm")), "grads", arrays)
}

// followed puts an average's decays and its weights after every step.
func followed(c *Case, o optim.Options) {
	params := c.Array("params")
	pace, average := o.Pace(), c.Floats("initial")
	var decays, weights []float64
	if len(params.Shape) != 2 || params.Shape[1] != len(average) {
		failf("params have shape %v, the initial weights %d elements", params.Shape, len(average))
	}
	for _, p := range samples(params) {
		decay, due := pace.Next()
		for i, w := range p {
			if due {
				average[i] += float64((1 - decay) * (w - average[i]))
			}
		}
		decays, weights = append(decays, decay), append(weights, average...)
	}
	c.Put("decays", decays, "ema", Array{params.Shape, weights})
}

func emaFlowGRPO(c *Case) {
	o := optim.Defaults()
	o.EMA, o.EMAEvery = c.Float("decay"), c.Int("interval")
	followed(c, o)
}

func emaDiffusers(c *Case) {
	o := optim.Defaults()
	o.EMA, o.EMAShape.Floor, o.EMAShape.Copy = c.Float("decay"), c.Float("min_decay"), 1+c.Int("update_after_step")
	if c.Bool("use_ema_warmup") {
		o.EMAShape.Kind, o.EMAShape.Gamma, o.EMAShape.Exponent = "inverse_gamma", c.Float("inv_gamma"), c.Float("power")
	}
	followed(c, o)
}

func nftDecay(c *Case) {
	limit, d, ok := nftDecayOf(c.Int("type"))
	if !ok {
		failf("there is no decay type %d", c.Int("type"))
	}
	putDecays(c, limit, d)
}

func putDecays(c *Case, limit float64, d optim.Decay) {
	c.Put("decay", each(c.Ints("steps"), func(step int) float64 { return d.At(limit, step) }))
}

func decaySchedule(c *Case) {
	d := optim.Decay{Kind: c.String("kind")}
	switch d.Kind {
	case "constant":
	case "power":
		d.Warmup = c.Int("warmup_steps")
	case "linear":
		d.Start, d.Warmup = c.Float("initial_decay"), c.Int("warmup_steps")
	case "piecewise_linear":
		d.Kind, d.Rate, d.Copy = "ramp", c.Float("ramp_rate"), 1+c.Int("flat_steps")
	case "cosine":
		d.Start, d.Steps = c.Float("initial_decay"), c.Int("total_steps")
	case "warmup_cosine":
		d.Kind, d.Start, d.Steps, d.Warmup = "cosine", c.Float("initial_decay"), c.Int("total_steps"), c.Int("warmup_steps")
	default:
		failf("there is no decay kind %q", d.Kind)
	}
	putDecays(c, c.Float("decay"), d)
}

// mostUpdates bounds what a case can ask for.
const mostUpdates = 1 << 20

func lrSchedule(c *Case) {
	o := optim.Options{LR: c.Float("lr"), Schedule: c.String("kind"), Cycles: 1, Power: 1, End: 1e-7}
	if o.Schedule != "constant" && c.Has("num_warmup_steps") {
		o.Warmup = c.Int("num_warmup_steps")
	}
	if o.Schedule == "constant_with_warmup" {
		o.Schedule = "constant"
	}
	c.Given("num_training_steps", &o.Steps, "num_cycles", &o.Cycles, "power", &o.Power)
	updates := c.Int("updates")
	if updates > mostUpdates {
		failf("%d updates are more than any case needs", updates)
	}
	c.Put("lr", times(updates, func(i int) float64 { return o.Rate(i) }))
}
