package main

import (
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/video/dit"
)

// One step of Flow-GRPO on Wan's transformer with an adapter: rollout, advantages, losses, gradients, AdamW.

var clipStepOps = map[string]Op{"models.wan_flow_grpo_step": wanStep}

// A stepCase is one on its way through the step.
type stepCase struct {
	*network
	model      *dit.Model
	adapters   *nn.Adapters
	schedule   sde.Schedule
	rows       []sde.Row
	shape      []int         // of a clip's latents, [T, H, W, C]
	states     [][][]float64 // by step and row, before it; the last are the finals
	old        [][]float64   // log-probabilities by step and row
	advantages []float64
	text, none Array
}

func wanStep(c *Case) {
	base := filepath.Join(c.Dir(), c.String("base"))
	config := must(dit.ReadConfig(base))
	runFolder(c, base, how{frozen: true, forwardOnly: true}, func(n *network) {
		s := &stepCase{network: n, model: dit.New(n.params, config)}
		check(n.params.Check())
		a := must(peft.Open(filepath.Join(c.Dir(), c.String("peft")), "transformer"))
		defer a.Close()
		s.adapters = must(a.AddTo(n.params))
		s.roll()
		s.update()
	})
}

// ask is the guided velocity at rows' latents; back takes gradients at it to the adapters, where the tape
// records.
func (s *stepCase) ask(tp *autograd.Tape, rows [][]float64, time float64) (v [][]float64, back func(grads [][]float64)) {
	b, scale := len(rows), s.Float("guidance_scale")
	up := func(x []float64, shape ...int) *autograd.Value {
		t := tp.Pool().FromF32(kernels.F32, to[float32](x), shape...)
		defer t.Free()
		return tp.Input(t)
	}
	said := func(text []float64) *autograd.Value {
		return s.model.Forward(tp, dit.Inputs{Latents: up(flat(rows), append([]int{b}, s.shape...)...), Text: up(text, b, s.text.Shape[1], s.text.Shape[2]),
			Time: slices.Repeat([]float32{float32(time)}, b)})
	}
	u, c := said(slices.Repeat(s.none.Data, b)), said(s.text.Data)
	each := len(rows[0])
	cut := func(x *autograd.Value) [][]float64 { return samples(Array{[]int{b, each}, to[float64](x.F32())}) }
	us, cs := cut(u), cut(c)
	for i := range rows {
		v = append(v, diffusion.Guide(us[i], cs[i], scale))
	}
	return v, func(grads [][]float64) {
		var du, dc []float64
		for i, g := range grads {
			gu, gc := diffusion.GuideGrad(us[i], cs[i], scale, 0, g)
			du, dc = append(du, gu...), append(dc, gc...)
		}
		tp.Backward(autograd.Seed{Of: u, Grad: to[float32](du)}, autograd.Seed{Of: c, Grad: to[float32](dc)})
	}
}

// roll samples every row, and compares.
func (s *stepCase) roll() {
	z := s.Array("in.z")
	s.text, s.none = s.Array("in.prompt_embeds"), s.Array("in.negative_prompt_embeds")
	s.schedule = sde.UniPCFP32(s.Float("flow_shift"), s.Int("steps"), false)
	first := framesFirst(z)
	s.shape = first.Shape[1:]
	noise := s.Array("in.noise")
	each := len(noise.Data) / noise.Shape[0]
	s.states = [][][]float64{samples(first)}
	tp := autograd.New(s.tape.Pool(), autograd.Options{})
	for step, t := range s.schedule.Timesteps {
		row := sde.FlowWan(s.schedule, step, 1)
		s.rows = append(s.rows, row)
		now := s.states[step]
		v, _ := s.ask(tp, now, t)
		tp.Reset()
		drawn := samples(framesFirst(Array{z.Shape, noise.Data[step*each : (step+1)*each]}))
		var next [][]float64
		var lps []float64
		for i, x := range now {
			mean := row.Mean(seen(x, v[i]))
			to := to[float64](to[float32](row.Draw(mean, drawn[i])))
			next, lps = append(next, to), append(lps, row.LogProb(mean, to))
		}
		s.states, s.old = append(s.states, next), append(s.old, lps)
	}
	s.putRoll(z.Shape)

	s.advantages = must(numpyGroup(false).Of(s.Ints("in.groups"), s.Floats("in.rewards")))
	var all []float64
	for _, a := range s.advantages {
		all = append(all, slices.Repeat([]float64{a}, len(s.rows))...)
	}
	s.Put("out.advantages", Array{[]int{z.Shape[0], len(s.rows)}, all})
}

// seen is the history of one step.
func seen(x, v []float64) *sde.History {
	var h sde.History
	h.Push(x, v)
	return &h
}

func (s *stepCase) putRoll(shape []int) {
	var latents, lps []float64
	for i := range shape[0] {
		for _, state := range s.states {
			latents = append(latents, channelsBeforeFrames(Array{append([]int{1}, s.shape...), state[i]}).Data...)
		}
		for _, at := range s.old {
			lps = append(lps, at[i])
		}
	}
	s.Put("out.latents", Array{append([]int{shape[0], len(s.states)}, shape[1:]...), latents})
	s.Put("out.log_probs", Array{[]int{shape[0], len(s.old)}, lps}, "out.sigmas", s.schedule.Sigmas)
	s.Put("out.timesteps", s.schedule.Timesteps)
}

// update takes the gradient of the steps' mean loss, moves the adapters, and looks again.
func (s *stepCase) update() {
	s.judge("out.", true)
	for _, name := range s.Strings("grad") {
		g := must(s.params.Grad(name[len("grad.w."):]))
		s.Put(name, Array{Shape: g.Shape, Data: to[float64](must(g.Float32(nil)))})
	}
	o := optim.Defaults()
	o.Betas, o.Eps, o.WeightDecay = [2]float64{0.9, 0.999}, 1e-8, s.Float("weight_decay")
	mover := optim.NewOptimizer(s.Float("max_grad_norm"), optim.Group{Params: s.adapters.Params(), Rate: 1, Options: o})
	defer mover.Free()
	s.Put("out.grad_norm", must(mover.Step(s.Float("lr"))))
	for _, t := range s.adapters.Tensors("out.after.") {
		s.Put(t.Name, Array{Shape: t.Shape, Data: to[float64](must(t.Float32(nil)))})
	}
	s.judge("out.second.", false)
}

// judge puts the losses of all trained steps under names that begin with tag.
func (s *stepCase) judge(tag string, train bool) {
	steps, b := s.Int("train_steps"), len(s.advantages)
	terms := map[string][]float64{}
	for step := range steps {
		r, lps := s.step(step, steps, train)
		for name, x := range map[string][]float64{"ratio": r.Ratio, "log_prob": lps, "loss": {r.Loss}, "policy_loss": {r.Policy}, "kl_loss": {r.KL}} {
			terms[name] = append(terms[name], x...)
		}
	}
	for name, x := range terms {
		shape := []int{steps}
		if name == "ratio" || name == "log_prob" {
			shape = append(shape, b)
		}
		s.Put(tag+name, Array{shape, x})
	}
}

// step is one step's loss; its gradient, over the number of steps, goes to the adapters.
func (s *stepCase) step(step, steps int, train bool) (r loss.Result, lps []float64) {
	row, before, after := s.rows[step], s.states[step], s.states[step+1]
	tp := autograd.New(s.tape.Pool(), autograd.Options{Train: train})
	defer tp.Reset()
	t := loss.Terms{Old: s.old[step], Advantage: s.advantages, KLDenominator: []float64{2 * row.Noise * row.Noise}}
	t.MeanRef = s.reference(step)
	v, back := s.ask(tp, before, s.schedule.Timesteps[step])
	for i, x := range before {
		mean := row.Mean(seen(x, v[i]))
		t.Mean, lps = append(t.Mean, mean), append(lps, row.LogProb(mean, after[i]))
	}
	t.LogProb = lps
	o := clipOptions(s.Case)
	o.KLWeight = s.Float("beta")
	if r = must(o.Of(t)); !train {
		return r, lps
	}
	grads := make([][]float64, len(before))
	for i, x := range before {
		slope, way := row.Slope(seen(x, v[i])), row.LogProbGrad(t.Mean[i], after[i])
		for k := range slope {
			g := r.GradLogProb[i] * way[k]
			if r.GradMean != nil { // a term reads the means
				g += r.GradMean[i][k]
			}
			grads[i] = append(grads[i], slope[k]*g/float64(steps))
		}
	}
	back(grads)
	return r, lps
}

// reference is the means of the base alone.
func (s *stepCase) reference(step int) (means [][]float64) {
	s.adapters.On = false
	defer func() { s.adapters.On = true }()
	tp := autograd.New(s.tape.Pool(), autograd.Options{})
	defer tp.Reset()
	v, _ := s.ask(tp, s.states[step], s.schedule.Timesteps[step])
	for i, x := range s.states[step] {
		means = append(means, s.rows[step].Mean(seen(x, v[i])))
	}
	return means
}
