package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/internal/rigs/toy"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

var trainingOps = map[string]Op{
	// trainingOps are the optimiser, learning rates and averages: trainer/optim.
	"optim.adamw":          adamW,
	"optim.clip_grad_norm": clipGradNorm,
	"ema.flow_grpo":        emaFlowGRPO,
	"ema.diffusers":        emaDiffusers,
	"ema.nft_decay":        nftDecay,
	"ema.decay_schedule":   decaySchedule,
	"lr.schedule":          lrSchedule,

	// Whole iterations of the trainer's own Step, with a linear policy.
	"train.ddpo_iteration":      ddpoIteration,
	"train.flow_grpo_iteration": flowGRPOIteration,
	"train.nft_iteration":       nftIteration,
}

// optimOptions reads the inputs that name AdamW's numbers; a missing one is torch's default.
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

// mostUpdates bounds the updates of a case.
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

// nftDecayOf is the limit and the growth of DiffusionNFT's old policy, by the
// number that its scripts use; ok is false for any other number.
func nftDecayOf(number int) (limit float64, d optim.Decay, ok bool) {
	switch number {
	case 0: // the old policy is the current one
		return 0, optim.Decay{Kind: "constant"}, true
	case 1:
		return 0.5, optim.Decay{Kind: "ramp", Rate: 0.001}, true
	case 2:
		return 0.999, optim.Decay{Kind: "ramp", Rate: 0.0075, Copy: 76}, true
	}
	return 0, optim.Decay{}, false
}

// crdRamp is the limit and the growth of Flow-Factory's old network for CRD, by one of its names, or
// "start-from-slope-to": from before start, then from + (step - start)·slope, at most to.
func crdRamp(name string) (limit float64, d optim.Decay) {
	known := map[string]string{"0": "0-0-0-0", "none": "0-0-0-0", "1": "0-0-0.001-0.5", "slow": "0-0-0.001-0.5", "2": "75-0-0.0075-0.999",
		"medium": "75-0-0.0075-0.999", "3": "0-1-0-1", "offline": "0-1-0-1", "4": "0-0-0.02-0.99", "fast": "0-0-0.02-0.99",
		"5": "0-0-0.01-0.5", "moderate": "0-0-0.01-0.5", "6": "0-0-0.0075-0.999"}
	if numbers, ok := known[name]; ok {
		name = numbers
	}
	var n []float64
	for _, part := range strings.Split(name, "-") {
		v, wrong := strconv.ParseFloat(part, 64)
		if wrong != nil {
			failf("ramp %q: 0 to 6, a name, or start-from-slope-to is known", name)
		}
		n = append(n, v)
	}
	if len(n) != 4 {
		failf("ramp %q: it has four numbers", name)
	}
	return n[3], optim.Decay{Kind: "ramp", Flat: int(n[0]), Start: n[1], Rate: n[2]}
}

// lengthOf is the length of the whole gradient, over all tensors.
func lengthOf(grads [][]float64) float64 {
	sum := 0.0
	for _, g := range grads {
		for _, x := range g {
			sum += float64(x * x)
		}
	}
	return math.Sqrt(sum)
}

// clipNorm shortens gradients in place and returns their norm before.
func clipNorm(grads [][]float64, limit float64) (norm float64) {
	norm = lengthOf(grads)
	scale := optim.ClipScale(norm, limit)
	for _, g := range grads {
		for i := range g {
			g[i] *= scale
		}
	}
	return norm
}

// iteration is a case's policy and trainer, all but the algorithm.
type iteration struct {
	*Case
	policy  *toy.Policy
	trainer *trainer.Trainer
	groups  []int // the prompt of each row of the batch
	z       Array // start noise: [rows, ...], or [iterations, rows, ...]
	width   int   // numbers of a sample
}

func newIteration(c *Case, iterations int, rows []sde.Row, times []float64) *iteration {
	o := optimOptions(c)
	o.GradClip = c.Float("max_grad_norm")
	c.Given("updates", &o.Updates)
	if o.Updates > mostUpdates {
		failf("%d updates are more than any case needs", o.Updates)
	}
	net := must(toy.NewLinear(len(c.Floats("b")), slices.Concat(c.Floats("A"), c.Floats("b"), c.Floats("c")), o))
	it := &iteration{Case: c, groups: c.Ints("groups"), z: c.Array("z")}
	n := iterations * len(it.groups)
	if n == 0 || len(it.z.Data) == 0 || len(it.z.Data)%n != 0 {
		failf("z of shape %v for %d iterations of %d samples", it.z.Shape, iterations, len(it.groups))
	}
	it.width = len(it.z.Data) / n
	it.policy = &toy.Policy{Linear: net, Rows: rows, Times: times,
		Start: func(k trainer.Key) []float64 { return it.drawn(it.z, k.Iteration, k) }}
	it.trainer = &trainer.Trainer{Policy: it.policy, Optim: o, Prompts: it.keys, Score: it.score}
	return it
}

// keys are those of the batch's rows: a sample's number is its row.
func (it *iteration) keys(n int) []trainer.Key {
	keys := eachAt(it.groups, func(i int, g int) trainer.Key { return trainer.Key{Iteration: n, Prompt: g, Sample: i} })
	return keys
}

// drawn is a sample's part of recorded draws [n, rows, ...].
func (it *iteration) drawn(a Array, n int, k trainer.Key) []float64 {
	at := (n*len(it.groups) + k.Sample) * it.width
	return a.Data[at : at+it.width]
}

// score is how near a sample came to its prompt's target.
func (it *iteration) score(samples []trainer.Sample) ([]float64, error) {
	targets := it.Array("target")
	d := it.policy.D
	scores := make([]float64, len(samples))
	for i, s := range samples {
		scores[i] = toy.Distance(s.Item.Final, targets.Data[s.Key.Prompt*d:(s.Key.Prompt+1)*d])
	}
	return scores, nil
}

// compareBy compares by an estimator of package advantage.
func (it *iteration) compareBy(o advantage.Options) {
	it.trainer.Compare = func(_ []trainer.Sample, scores []float64) ([]float64, error) { return o.Of(it.groups, scores) }
}

// decide sets the clipped objective on some of the steps.
func (it *iteration) decide(trained []int, klWeight float64) {
	o := clipOptions(it.Case)
	o.KLWeight = klWeight
	it.policy.Trained = trained
	it.trainer.Objective = trainer.PolicyGradient{Rows: it.policy.Rows, Loss: o.Of, Reference: klWeight != 0}
	noise := it.Array("noise")
	it.policy.Noise = func(k trainer.Key, step int) []float64 { return it.drawn(noise, step, k) }
}

// putRoll puts the rollout's samples, and the old log-probabilities of some steps.
func (it *iteration) putRoll(r *trainer.Report, steps []int) {
	var finals, lps []float64
	for _, s := range r.Samples {
		finals = append(finals, s.Item.Final...)
		for _, k := range steps {
			lps = append(lps, s.Decisions.LogProb[k])
		}
	}
	it.Put("final", Array{it.z.Shape, finals}, "old_log_probs", Array{[]int{len(r.Samples), len(steps)}, lps})
	it.Put("rewards", r.Scores, "advantages", r.Advantages)
}

// moved is the record of an update, whatever the objective.
func (it *iteration) moved(u int, update trainer.Update) map[string]any {
	m := it.policy.Moves[u]
	return map[string]any{"grad_params": m.Grad, "grad_norm": update.Norm, "params": m.After}
}

// putUpdates puts the updates of a decided objective; the trainer has steps in the
// sampler's order, the case in its own.
func (it *iteration) putUpdates(r *trainer.Report, steps []int) {
	sorted := slices.Sorted(slices.Values(steps))
	var updates []any
	for u, update := range r.Updates {
		inOrder := func(name string) []float64 {
			out := each(steps, func(step int) float64 { return update.Metrics[name][slices.Index(sorted, step)] })
			return out
		}
		n := len(r.Samples)
		ratio := Array{[]int{n, len(steps)}, nil}
		for i := range n {
			for _, step := range steps {
				ratio.Data = append(ratio.Data, update.Metrics["ratio"][slices.Index(sorted, step)*n+i])
			}
		}
		out := it.moved(u, update)
		out["step_loss"], out["step_kl"], out["clipfrac"], out["ratio"] = inOrder("loss"), inOrder("kl"), inOrder("clipped"), ratio
		updates = append(updates, out)
	}
	it.Put("updates", updates)
}

// decided runs one iteration of a decided objective.
func (it *iteration) decided(lookedAt, trained []int) {
	r := must(it.trainer.Step())
	it.putRoll(r, lookedAt)
	it.putUpdates(r, trained)
}

func flowGRPOIteration(c *Case) {
	window, eta, cps := c.Ints("window"), c.Float("eta"), c.String("kernel") == "cps"
	plan := sde.Plan{Window: window, Outside: sde.Euler, Inside: func(s sde.Schedule, step int) sde.Row {
		if cps {
			return sde.CPS(s, step, eta)
		}
		return sde.FlowSDE(s, step, eta, 0)
	}}
	s, rows := plan.Rows(sde.Schedule{Sigmas: c.Floats("sigmas")})
	it := newIteration(c, 1, rows, s.Sigmas)
	it.compareBy(numpyGroup(c.Bool("global_std")))
	it.decide(window, c.Float("beta"))
	it.decided(window, window)
}

func ddpoIteration(c *Case) {
	s := sde.Schedule{Alpha: c.Floats("alpha_prod"), AlphaPrev: c.Floats("alpha_prod_prev")}
	var rows []sde.Row
	var times []float64
	var all []int
	for k, t := range c.Floats("timesteps") {
		r := must(sde.DDIM(s, k, 1, sde.Epsilon, false))
		rows, times, all = append(rows, r), append(times, t/1000), append(all, k)
	}
	it := newIteration(c, 1, rows, times)
	history := advantage.History{Size: 16, Min: c.Int("min_count")}
	it.trainer.Compare = func(samples []trainer.Sample, scores []float64) ([]float64, error) {
		prompts := each(samples, func(s trainer.Sample) string { return fmt.Sprint(s.Key.Prompt) })
		return history.Update(trackedGroup(), prompts, scores)
	}
	trained := c.Ints("train_steps")
	it.decide(trained, 0)
	it.decided(all, trained)
}

func nftIteration(c *Case) {
	s, rows := sde.Plan{Outside: sde.Euler}.Rows(sde.Schedule{Sigmas: c.Floats("sigmas")})
	iterations := 0
	if shape := c.Array("z").Shape; len(shape) > 1 {
		iterations = shape[0]
	}
	it := newIteration(c, iterations, rows, s.Sigmas)
	limit, shape, ok := nftDecayOf(c.Int("decay_type"))
	if !ok {
		failf("there is no decay type %d", c.Int("decay_type"))
	}
	it.compareBy(numpyGroup(true))
	it.trainer.Actor = trainer.Old
	it.trainer.Memories = []trainer.Memory{{Weights: trainer.Old, Pace: optim.Pace{Limit: limit, Shape: shape, T: c.Int("start_step") + 1}}}
	it.trainer.Objective = it.nft(loss.NFT{ImplicitOptions: loss.ImplicitOptions{Beta: c.Float("beta")}, AdvantageCut: loss.AdvantageCut{AdvClip: c.Float("adv_clip")}, KLWeight: c.Float("kl_coef")})
	var epochs []any
	for e := range iterations {
		epochs = append(epochs, it.epoch(e, must(it.trainer.Step())))
	}
	c.Put("epochs", epochs)
}

// nft draws the recorded times and noises.
func (it *iteration) nft(o loss.NFT) trainer.Objective {
	times, noise := it.Floats("t"), it.Array("noise")
	return trainer.ForwardProcess{
		Old: true, Reference: true, Draw: func(k trainer.Key, _ int) (float64, []float64) {
			return times[k.Iteration*len(it.groups)+k.Sample], it.drawn(noise, k.Iteration, k)
		},
		Loss: func(_ int, _ []int, advantages []float64) loss.Walk {
			r, v := advantage.Probability(advantages, o.AdvClip, "all"), loss.NFTResult{}
			return loss.Walk{
				Next: func(t loss.Noised) ([][]float64, error) { return o.Add(&v, t, r, len(r)), nil },
				Result: func() loss.WalkResult {
					return loss.WalkResult{Loss: v.Loss, Metrics: map[string][]float64{"probability": r}}
				},
			}
		},
	}
}

func (it *iteration) epoch(e int, r *trainer.Report) map[string]any {
	var finals []float64
	for _, s := range r.Samples {
		finals = append(finals, s.Item.Final...)
	}
	out := it.moved(e, r.Updates[0])
	out["x0"], out["rewards"] = Array{it.z.Shape[1:], finals}, r.Scores
	out["r"], out["loss"] = r.Updates[0].Metrics["probability"], r.Updates[0].Loss
	out["decay"], out["old_params"] = it.trainer.Memories[0].Decay, it.policy.Weights(trainer.Old)
	return out
}
