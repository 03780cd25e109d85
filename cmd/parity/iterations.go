package main

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/internal/rigs/toy"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Whole iterations of the trainer's own Step, with a linear policy.

var iterationOps = map[string]Op{
	"train.ddpo_iteration":      ddpoIteration,
	"train.flow_grpo_iteration": flowGRPOIteration,
	"train.nft_iteration":       nftIteration,
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

// putRoll puts what was rolled, and the old log-probabilities of some steps.
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

// moved is what is recorded of an update, whatever the objective.
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
				Verdict: func() loss.Verdict {
					return loss.Verdict{Loss: v.Loss, Metrics: map[string][]float64{"probability": r}}
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
