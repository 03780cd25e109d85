package pretrain

import (
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// How a text-to-clip model learns: its autoencoder on clips, then text encoder and transformer on the autoencoder's
// latents by flow matching (Lipman et al., 2022; Liu et al., 2022): x_t = (1 - t) x_0 + t noise, target noise - x_0.

// autoencoder trains the VAE, as that of pictures is. Clips go through one by one.
func (r *wanRun) autoencoder() error {
	v, params, err := r.openVAE(true, ".*")
	if err != nil {
		return err
	}
	defer params.Free()
	if err := params.Set("quant_conv.bias", func(x []float32) {
		for i := r.VAE.Latent; i < len(x); i++ {
			x[i] = -6 // it begins with little posterior noise
		}
	}); err != nil {
		return err
	}
	s := r.VAE.Stage.begin("vae", r.pool, r.Say, optim.Group{Params: params.Trained(), Rate: 1})
	defer s.mover.Free()
	seen := order{key: r.key.With("order of the autoencoder"), n: r.Data.Clips}
	var l1, divergence mean
	for step := 1; step <= s.Steps; step++ {
		if err := r.stopped(); err != nil {
			return err
		}
		for i := range s.Batch {
			n, _ := seen.at((step-1)*s.Batch + i)
			x, tp := r.clip(n), s.tape()
			mu, logVar := v.Encode(tp, tp.Upload("clip", x, moving.Frames, moving.Size, moving.Size, 3))
			abs, kl := backThrough(tp, mu, logVar, v.Decode, x, r.key.With("posterior").Iteration(step).Sample(i), r.VAE.KL, 1/float32(s.Batch))
			l1.add(abs)
			divergence.add(kl)
		}
		if _, err := s.mover.Step(s.rate(step, 0.05)); err != nil {
			return fmt.Errorf("vae, step %d: %w", step, err)
		}
		if step%25 == 0 || step == s.Steps {
			s.say(step, s.Steps, "l1 %.4f  kl %.3f", l1.take(), divergence.take())
		}
	}
	return r.settled(v).save(r.dir, params)
}

// learn trains the text encoder and the transformer together, from nothing (drawn) or from what was saved.
func (r *wanRun) learn(name string, f Flow, key rng.Key, drawn bool) error {
	g, err := r.painter(drawn)
	if err != nil {
		return err
	}
	defer g.free()
	seen := order{key: key.With("order of flow"), n: r.Data.Clips}
	return flowLoop{name: name, dir: r.dir, Flow: f, Judging: r.Judge, Hooks: r.Hooks, pool: r.pool, report: r.report,
		pass: func(s *stage, step int) float64 { return r.flowPass(g, s, &seen, key, step) }}.run(g, g.params[:])
}

// flowPass leaves the gradient of one update in the parameters and returns the loss.
func (r *wanRun) flowPass(g *clipPainter, s *stage, seen *order, key rng.Key, step int) (loss float64) {
	n, shape := len(r.latents)/r.Data.Clips, r.latentShape()
	for lo := 0; lo < s.Batch; lo += r.Flow.Micro {
		hi := min(lo+r.Flow.Micro, s.Batch)
		x, target := make([]float32, (hi-lo)*n), make([]float32, (hi-lo)*n)
		var asked []float32
		times, captions := make([]float32, hi-lo), make([]string, hi-lo)
		for i := range hi - lo {
			at, epoch := seen.at((step-1)*s.Batch + lo + i)
			captions[i] = r.caption(at, epoch)
			k := key.With("flow").Iteration(step).Sample(lo + i)
			t := r.Flow.time(k)
			times[i] = float32(1000 * t)
			k.With("noise").Normal(target[i*n:(i+1)*n], 0)
			r.Flow.noised(r.latents[at*n:(at+1)*n], x[i*n:(i+1)*n], target[i*n:(i+1)*n], t)
			asked = append(asked, r.joined(x[i*n:(i+1)*n], at)...)
		}
		tp := s.tape()
		v := g.velocity(tp, tp.Upload("latents", asked, hi-lo, shape[0], shape[1], shape[2], len(asked)*shape[3]/len(x)), captions, times)
		out := v.F32()
		loss += distance(out, target, float64(s.Batch*n))
		tp.Backward(autograd.Seed{Of: v, Grad: out})
		tp.Reset()
	}
	return loss
}

// report judges the folder as it stands, and leaves a sheet of clips.
func (r *wanRun) report(step int, guidances ...float64) error {
	for _, w := range guidances {
		v, err := JudgeMoves(r.context(), r.pool, r.dir, r.Judge.Prompts, r.Judge.Steps, w)
		if err != nil {
			return err
		}
		r.Say(fmt.Sprintf("judged at %d, %s", step, v))
		if err := v.write(filepath.Join(r.dir, fmt.Sprintf("samples_g%g.png", w))); err != nil {
			return err
		}
	}
	return nil
}
