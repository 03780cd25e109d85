package pretrain

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Flow matching (Lipman et al. 2023; Liu et al. 2023), as SD3 is trained:
//
//	x = (1-t) clean + t noise;   minimise the mean of (velocity(x, t, caption) - (noise - clean))²
//
// with t the logistic of a normal, shifted, and a share of even draws. Hidden matrices move by Muon, everything else
// by AdamW. Samples and saved weights are of an average of the weights.

// flow trains text encoders and transformer together, from nothing.
func (r *run) flow() error { return r.learn("flow", r.Flow, true) }

// phase trains the saved weights.
func (r *run) phase(n int) error {
	p, f := r.Then[n], r.Flow
	f.Steps, f.LR = p.Steps, p.LR
	r.data = r.dataset().during(n, p)
	if err := r.cacheLatents(); err != nil {
		return err
	}
	return r.learn(phaseName(n), f, false)
}

// learn is a stage of flow matching.
func (r *run) learn(name string, f Flow, drawn bool) error {
	g, err := r.maker().painter(&r.Pipeline, drawn)
	if err != nil {
		return err
	}
	defer g.free()
	seen := order{key: r.data.key.With("order of flow"), n: r.Data.Scenes}
	return flowLoop{name: name, dir: r.dir, Flow: f, Judging: r.Pipeline.Judge, Hooks: r.Hooks, pool: r.pool, report: r.report,
		pass: func(s *stage, step int) float64 { return r.flowPass(g, s, f, &seen, step) }}.run(g, g.params[:])
}

// rateAt is the learning rate of an update, counted from 1: constant, then falling to nothing
// over the tail.
func (f Flow) rateAt(step int) float64 {
	left := 1 - float64(step)/float64(f.Steps)
	return f.LR * min(1, float64(step)/float64(max(1, f.Warmup))) * min(1, 0.02+0.98*left/f.Tail)
}

// flowPass leaves the gradient of one update in the parameters and returns the loss.
func (r *run) flowPass(g *painter, s *stage, f Flow, seen *order, step int) (loss float64) {
	n := r.latentLen()
	total := float64(s.Batch * n)
	for lo := 0; lo < s.Batch; lo += f.Micro {
		hi := min(lo+f.Micro, s.Batch)
		x, target := make([]float32, (hi-lo)*n), make([]float32, (hi-lo)*n)
		times, captions := make([]float32, hi-lo), make([]string, hi-lo)
		for i := lo; i < hi; i++ {
			p, epoch := seen.at((step-1)*s.Batch + i)
			captions[i-lo] = r.data.caption(p, epoch)
			k := r.data.key.With("flow").Iteration(step).Sample(i)
			t := f.time(k)
			times[i-lo] = float32(1000 * t)
			noise := target[(i-lo)*n : (i-lo+1)*n]
			k.With("noise").Normal(noise, 0)
			f.noised(r.latent(p), x[(i-lo)*n:(i-lo+1)*n], noise, t)
		}
		tp := s.tape()
		v := g.velocity(tp, tp.Upload("latents", x, hi-lo, r.latentSide(), r.latentSide(), r.VAE.Latent), captions, times)
		out := v.F32()
		loss += distance(out, target, total)
		tp.Backward(autograd.Seed{Of: v, Grad: out})
		tp.Reset()
	}
	return loss
}

// time is a sample's time in training.
func (f Flow) time(k rng.Key) float64 {
	r := k.With("time").Draw()
	if r.Float64() < f.Uniform {
		return max(1e-3, r.Float64())
	}
	var normal [1]float32
	k.With("logit of time").Normal(normal[:], 0)
	return max(1e-3, sde.Shift(f.Shift, 1/(1+nn.Exp(-float64(normal[0])))))
}

// velocity is the network's output at latents.
func (g *painter) velocity(tp *autograd.Tape, latents *autograd.Value, captions []string, times []float32) *autograd.Value {
	ids := make([][]int32, len(captions))
	for i, c := range captions {
		end, _ := g.tokens.ID(endToken)
		ids[i] = fixed(g.tokens, c, g.length, end)
	}
	first, second := g.text[0].Forward(tp, ids), g.text[1].Forward(tp, ids)
	states := tp.Concat(2, first.Before, second.Before)
	pooled := tp.Concat(1, first.Projected, second.Projected)
	return g.transformer.Forward(tp, latents, states, pooled, times)
}

// groups are Muon's parameters, and AdamW's.
func (g *painter) groups(muon float64) []optim.Group {
	return groupsOf(g.all(), muon, "embed", "proj_out")
}

// all is every parameter that is trained.
func (g *painter) all() []*autograd.Param {
	var all []*autograd.Param
	for _, p := range g.params {
		all = append(all, p.Trained()...)
	}
	return all
}

func (g *painter) free() {
	for i, p := range g.params {
		p.Free()
		g.release[i]()
	}
}

// flowLoop is the loop of flow matching, whatever is matched: updates, an average of the weights, states to go on
// from, and judgement on the way.
type flowLoop struct {
	name, dir string
	Flow
	Judging
	Hooks
	pool   *tensor.Pool
	pass   func(s *stage, step int) (loss float64) // leaves an update's gradient in the parameters
	report func(step int, guidances ...float64) error
}

// matched are the trained networks: text encoders and a transformer.
type matched interface {
	all() []*autograd.Param
	groups(muon float64) []optim.Group
	save(dir string) error
}

func (m flowLoop) run(g matched, params []*nn.Params) error {
	s := m.Flow.begin(m.name, m.pool, m.Log, g.groups(m.Muon)...)
	defer s.mover.Free()
	shadow := optim.NewShadow(g.all())
	defer shadow.Free()
	state := &progress{m.dir, m.name, params, s.mover, shadow}
	from, err := state.load()
	if err != nil {
		return err
	}
	var loss, length mean
	for step := from + 1; step <= s.Steps; step++ {
		if err := m.stopped(); err != nil {
			return state.orSave(err, step-1)
		}
		l := m.pass(&s, step)
		norm, err := s.mover.Step(m.rateAt(step))
		if err != nil {
			return fmt.Errorf("%s, step %d: %w", m.name, step, err)
		}
		shadow.Follow(min(m.EMA, float64(1+step)/float64(10+step)))
		loss.add(l)
		length.add(norm)
		if step%50 == 0 || step == s.Steps {
			s.say(step, s.Steps, "loss %.4f  gradient %.3f", loss.take(), length.take())
		}
		if step%m.Save == 0 {
			if err := state.save(step); err != nil {
				return err
			}
		}
		if step%m.Every == 0 && step < s.Steps {
			shadow.Swap()
			err := errors.Join(g.save(m.dir), m.report(step, 1))
			shadow.Swap()
			if err != nil {
				return err
			}
		}
	}
	shadow.Swap()
	if err := g.save(m.dir); err != nil {
		return err
	}
	return m.report(s.Steps, 1, m.Guidance)
}

// noised puts a clean sample at a time of the flow, and its noise less the sample, which is the velocity, into
// target.
func (f Flow) noised(clean, x, target []float32, t float64) {
	for j, z := range clean {
		e := target[j]
		x[j] = float32(float64((1-t)*float64(z)) + float64(t*float64(e)))
		target[j] = e - z
	}
}

// distance is the mean squared distance of a network's output from its target, of total numbers in all, and out
// becomes its gradient.
func distance(out, target []float32, total float64) (loss float64) {
	for i, y := range out {
		d := float64(y) - float64(target[i])
		loss += d * d / total
		out[i] = float32(2 * d / total)
	}
	return loss
}
