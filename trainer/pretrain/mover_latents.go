package pretrain

import (
	"math"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// Latents of clips: what the autoencoder makes of them, measured once and kept for the flow.

// encoded are the means of clips' latents, scaled as the autoencoder says.
func (r *wanRun) encoded(v clipVAE, from, to int) []float32 {
	var all []float32
	for i := from; i < to; i++ {
		all = append(all, r.latentsOf(v, r.clip(i))...)
	}
	return all
}

// latentsOf are the means of a clip's latents, scaled.
func (r *wanRun) latentsOf(v clipVAE, clip []float32) []float32 {
	tp := (&stage{pool: r.pool}).tape()
	defer tp.Reset()
	mu, _ := v.Encode(tp, tp.Upload("clip", clip, moving.Frames, moving.Size, moving.Size, 3))
	return v.Scaled(tp, mu).F32()
}

// settled measures each channel of the latents, so that diffusion sees it with mean 0, and all of them with a mean
// square of 1. A channel whose latents have the deviation d is seen with one of d^(1-whiten), beside the others.
func (r *wanRun) settled(v clipVAE) part {
	c := r.VAE.Latent
	sum, squares := make([]float64, c), make([]float64, c)
	all := r.encoded(v, 0, min(r.Data.Clips, 256))
	for i, z := range all {
		sum[i%c] += float64(z)
		squares[i%c] += float64(float64(z) * float64(z))
	}
	n := float64(len(all) / c)
	p := r.vaePart()
	means, deviations := make([]float32, c), make([]float64, c)
	for i := range c {
		m := sum[i] / n
		means[i], deviations[i] = float32(m), math.Sqrt(squares[i]/n-float64(m*m))
	}
	p.settings["latents_mean"], p.settings["latents_std"] = means, divisors(deviations, r.VAE.Whiten)
	return p
}

// divisors are what channels of these deviations are divided by.
func divisors(deviations []float64, whiten float64) []float32 {
	square := 0.0
	for _, d := range deviations {
		square += portable.Pow(d, 2*(1-whiten)) / float64(len(deviations))
	}
	out := make([]float32, len(deviations))
	for i, d := range deviations {
		out[i] = float32(portable.Pow(d, whiten) * math.Sqrt(square))
	}
	return out
}

// cacheLatents encodes every clip by the autoencoder as it was saved.
func (r *wanRun) cacheLatents() error {
	v, params, err := r.openVAE(false)
	if err != nil {
		return err
	}
	defer params.Free()
	for at := 0; at < r.Data.Clips; at += 64 {
		if err := r.stopped(); err != nil {
			return err
		}
		r.latents = append(r.latents, r.encoded(v, at, min(at+64, r.Data.Clips))...)
	}
	if !r.Model.Picture {
		return nil
	}
	each := clipLen / moving.Frames
	for i := range r.Data.Clips {
		x := r.clip(i)
		clear(x[each:]) // gray
		r.beside = append(r.beside, pipeline.Beside(r.latentsOf(v, x), r.shape(), r.VAE.frames(), false)...)
	}
	return nil
}

// joined is latents of clip i with what is read beside each number of them.
func (r *wanRun) joined(latents []float32, i int) (x []float32) {
	if r.beside == nil {
		return latents
	}
	c, n := r.VAE.Latent, len(r.beside)/r.Data.Clips
	beside := r.beside[i*n : (i+1)*n]
	wide := n * c / len(latents)
	for at := range len(latents) / c {
		x = append(append(x, latents[at*c:(at+1)*c]...), beside[at*wide:(at+1)*wide]...)
	}
	return x
}

// shape is that of latents, as a pipeline has it.
func (r *WanRecipe) shape() pipeline.Shape {
	s := r.latentShape()
	return pipeline.Shape{Width: moving.Size, Height: moving.Size, Frames: moving.Frames, Times: s[0], Rows: s[1], Cols: s[2], Latents: s}
}
