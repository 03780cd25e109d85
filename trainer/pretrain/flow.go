package pretrain

import (
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Flow matching (Lipman et al. 2023; Liu et al. 2023), as SD3 is trained:
//
//	x = (1-t) clean + t noise;   minimise the mean of (velocity(x, t, caption) - (noise - clean))²
//
// with t the logistic of a normal, shifted, and a share of even draws. Hidden matrices move by
// Muon, everything else by AdamW. What is sampled from and saved is an average of the weights.

// flow trains text encoders and transformer together, from nothing.
func (r *run) flow() error { return r.learn("flow", r.Flow, true) }

// phase trains on what was saved.
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

// groups are what Muon moves, and what AdamW moves.
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
