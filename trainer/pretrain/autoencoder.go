package pretrain

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// autoencoder trains the VAE: mean |y-x| + mean (y-x)² + KL · kl(latents), as the pictures of
// the posterior's draws.
func (r *run) autoencoder() error {
	v, params, err := r.maker().autoencoder(&r.Pipeline, true, ".*")
	if err != nil {
		return err
	}
	defer params.Free()
	// It begins as a plain autoencoder: with little posterior noise.
	if err := params.Set("encoder.conv_out.bias", func(x []float32) {
		for i := r.VAE.Latent; i < len(x); i++ {
			x[i] = -6
		}
	}); err != nil {
		return err
	}
	s := r.VAE.Stage.begin("vae", r.pool, r.Log, optim.Group{Params: params.Trained(), Rate: 1})
	defer s.mover.Free()
	data := r.data
	seen := order{key: data.key.With("order of the autoencoder"), n: r.Data.Scenes}
	var l1, divergence mean
	for step := 1; step <= s.Steps; step++ {
		if err := r.stopped(); err != nil {
			return err
		}
		x := make([]float32, s.Batch*pixels)
		for i := range s.Batch {
			p, _ := seen.at((step-1)*s.Batch + i)
			data.picture(p, x[i*pixels:(i+1)*pixels])
		}
		tp := s.tape()
		mu, logVar := v.Encode(tp, tp.Upload("pictures", x, s.Batch, scenes.Size, scenes.Size, 3))
		abs, kl := backThrough(tp, mu, logVar, v.Decode, x, nil, data.key.With("posterior").Iteration(step), r.VAE.KL, 1)
		if _, err := s.mover.Step(s.rate(step, 0.05)); err != nil {
			return fmt.Errorf("vae, step %d: %w", step, err)
		}
		l1.add(abs)
		divergence.add(kl)
		if step%25 == 0 || step == s.Steps {
			s.say(step, s.Steps, "l1 %.4f  kl %.3f", l1.take(), divergence.take())
		}
	}
	return r.settle(v, params)
}

// backThrough decodes a draw of the posterior, and leaves a share of the loss's gradient in the parameters. Weights are
// of the numbers of x; nil: all alike.
func backThrough(tp *autograd.Tape, mu, logVar *autograd.Value, decode func(*autograd.Tape, *autograd.Value) *autograd.Value, x, weights []float32, noise rng.Key, weight float64, share float32) (l1, kl float64) {
	eps := make([]float32, mu.Tensor().Len())
	noise.Normal(eps, 0)
	y := decode(tp, tp.Add(mu, tp.Mul(tp.Unary(kernels.Exp, tp.Scale(logVar, 0.5)), tp.Upload("posterior noise", eps, mu.Shape()...))))
	l1, dy := reconstruction(y.F32(), x)
	for i, w := range weights {
		dy[i] *= w
	}
	kl, dMu, dLogVar := normalKL(mu.F32(), logVar.F32(), weight)
	for _, g := range [][]float32{dy, dMu, dLogVar} {
		for i := range g {
			g[i] *= share
		}
	}
	tp.Backward(autograd.Seed{Of: y, Grad: dy}, autograd.Seed{Of: mu, Grad: dMu}, autograd.Seed{Of: logVar, Grad: dLogVar})
	tp.Reset()
	return l1, kl
}

// settle measures the latents, so that diffusion sees them with mean 0 and deviation 1, and
// saves the autoencoder.
func (r *run) settle(v *vae.KL, params *nn.Params) error {
	var sum, squares float64
	n := 0
	for lo := 0; lo < min(r.Data.Scenes, 2048); lo += 64 {
		for _, z := range r.encode(v, lo, min(lo+64, r.Data.Scenes)) {
			sum, squares, n = sum+float64(z), squares+float64(z)*float64(z), n+1
		}
	}
	m := sum / float64(n)
	p := r.vaePart()
	p.settings["shift_factor"] = m
	p.settings["scaling_factor"] = 1 / math.Sqrt(squares/float64(n)-m*m)
	return p.save(r.dir, params)
}

// encode is the means of latents of pictures lo to hi-1, scaled as v says.
func (r *run) encode(v *vae.KL, lo, hi int) []float32 {
	x := make([]float32, (hi-lo)*pixels)
	data := r.data
	for i := lo; i < hi; i++ {
		data.picture(i, x[(i-lo)*pixels:(i-lo+1)*pixels])
	}
	return r.encoded(v, x, scenes.Size)
}

// encoded are the means of latents of square pictures, scaled as v says.
func (r *run) encoded(v *vae.KL, x []float32, side int) []float32 {
	tp := autograd.New(r.pool, autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16})
	defer tp.Reset()
	mu, _ := v.Encode(tp, tp.Upload("pictures", x, len(x)/(3*side*side), side, side, 3))
	return v.Scaled(tp, mu).F32()
}

// sharpen trains the decoder alone, to draw crisply from latents that are a little off, as a
// sampler's are.
func (r *run) sharpen() error {
	v, params, err := r.maker().autoencoder(&r.Pipeline, false, ".*")
	if err != nil {
		return err
	}
	defer params.Free()
	s := r.Decoder.begin("decoder", r.pool, r.Log, optim.Group{Params: matching(params, "decoder."), Rate: 1})
	defer s.mover.Free()
	data := r.data
	seen := order{key: data.key.With("order of the decoder"), n: r.Data.Scenes}
	var l1 mean
	for step := 1; step <= s.Steps; step++ {
		if err := r.stopped(); err != nil {
			return err
		}
		x := make([]float32, s.Batch*pixels)
		z := make([]float32, 0, s.Batch*r.latentLen())
		for i := range s.Batch {
			p, _ := seen.at((step-1)*s.Batch + i)
			data.picture(p, x[i*pixels:(i+1)*pixels])
			z = append(z, r.latent(p)...)
		}
		for i := range s.Batch {
			k := data.key.With("latents off").Iteration(step).Sample(i)
			off := float32(0.1 * k.With("how far").Draw().Float64())
			noise := make([]float32, r.latentLen())
			k.Normal(noise, 0)
			for j, e := range noise {
				z[i*r.latentLen()+j] += float32(off * e)
			}
		}
		tp := s.tape()
		side := r.latentSide()
		y := v.Decode(tp, tp.Upload("latents", z, s.Batch, side, side, r.VAE.Latent))
		abs, dy := reconstruction(y.F32(), x)
		tp.Backward(autograd.Seed{Of: y, Grad: dy})
		tp.Reset()
		if _, err := s.mover.Step(s.rate(step, 0.01)); err != nil {
			return fmt.Errorf("decoder, step %d: %w", step, err)
		}
		l1.add(abs)
		if step%50 == 0 || step == s.Steps {
			s.say(step, s.Steps, "l1 %.4f", l1.take())
		}
	}
	p := r.vaePart()
	p.settings["shift_factor"], p.settings["scaling_factor"] = v.Shift, v.Scaling
	return p.save(r.dir, params)
}

// reconstruction is mean |y-x|, and the gradient of mean |y-x| + mean (y-x)².
func reconstruction(y, x []float32) (l1 float64, dy []float32) {
	dy = make([]float32, len(y))
	n := float64(len(y))
	for i := range y {
		d := float64(y[i]) - float64(x[i])
		l1 += math.Abs(d) / n
		dy[i] = float32((sign(d) + 2*d) / n)
	}
	return l1, dy
}

func sign(d float64) float64 {
	switch {
	case d > 0:
		return 1
	case d < 0:
		return -1
	}
	return 0
}

// normalKL is the mean of (μ² + v - 1 - log v)/2, and its gradients times weight.
func normalKL(mu, logVar []float32, weight float64) (kl float64, dMu, dLogVar []float32) {
	n := float64(len(mu))
	dMu, dLogVar = make([]float32, len(mu)), make([]float32, len(mu))
	for i := range mu {
		m, l := float64(mu[i]), float64(logVar[i])
		v := nn.Exp(min(max(l, -30), 20))
		kl += 0.5 * (m*m + v - 1 - l) / n
		dMu[i], dLogVar[i] = float32(weight*m/n), float32(weight*0.5*(v-1)/n)
	}
	return kl, dMu, dLogVar
}

// matching are the parameters below a name.
func matching(p *nn.Params, prefix string) []*autograd.Param {
	var out []*autograd.Param
	for _, w := range p.Trained() {
		if len(w.Name) > len(prefix) && w.Name[:len(prefix)] == prefix {
			out = append(out, w)
		}
	}
	return out
}

// principal are the n directions in which a symmetric matrix, [size, size], is largest, longest first: its
// eigenvectors, by Jacobi's rotations. The largest number of each is positive.
func principal(matrix []float64, size, n int) [][]float64 {
	a, v := slices.Clone(matrix), make([]float64, size*size)
	for i := range size {
		v[i*size+i] = 1
	}
	for range 30 {
		off := 0.0
		for p := range size {
			for q := p + 1; q < size; q++ {
				off += math.Abs(a[p*size+q])
				rotate(a, v, size, p, q)
			}
		}
		if off < 1e-12 {
			break
		}
	}
	order := make([]int, size)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(a[j*size+j], a[i*size+i]) })
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, size)
		top := 0.0
		for k := range size {
			out[i][k] = v[k*size+order[i]]
			if math.Abs(out[i][k]) > math.Abs(top) {
				top = out[i][k]
			}
		}
		if top < 0 {
			for k := range out[i] {
				out[i][k] = -out[i][k]
			}
		}
	}
	return out
}

// rotate makes a[p,q] zero, and turns the columns of v with it.
func rotate(a, v []float64, size, p, q int) {
	if math.Abs(a[p*size+q]) < 1e-300 {
		return
	}
	theta := (a[q*size+q] - a[p*size+p]) / (2 * a[p*size+q])
	t := 1 / (math.Abs(theta) + math.Sqrt(float64(theta*theta)+1))
	if theta < 0 {
		t = -t
	}
	c := 1 / math.Sqrt(float64(t*t)+1)
	s := t * c
	turn := func(m []float64, i, j int) {
		x, y := m[i], m[j]
		m[i], m[j] = float64(c*x)-float64(s*y), float64(s*x)+float64(c*y)
	}
	for k := range size {
		turn(a, k*size+p, k*size+q)
	}
	for k := range size {
		turn(a, p*size+k, q*size+k)
		turn(v, k*size+p, k*size+q)
	}
}
