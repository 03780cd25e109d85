package pipeline

import (
	"math"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// AutoencoderKLFlux2 is an AutoencoderKL whose latents are normalised patch by patch: each of the numbers of a 2 x 2
// patch has a mean and a variance of its own, which the file has as those of a batch norm. Number c·4 + 2·dy + dx is
// channel c of the patch's pixel (dy, dx).

func openKleinDecoder(dir string) (*decoder, vae.Config, error) {
	c, err := vae.ReadConfig(dir)
	if err != nil {
		return nil, c, named(dir, err)
	}
	c.Scaling, c.Shift = 1, 0
	said := struct {
		Eps float64 `json:"batch_norm_eps"`
	}{1e-4}
	if err := hub.JSON(filepath.Join(dir, "config.json"), &said); err != nil {
		return nil, c, err
	}
	d := klDecoder(c)
	d.build = func(p *nn.Params) (decode, encode through) {
		v, s := vae.New(p, c), newPatchScale(p.Sub("bn"), c.Latent, said.Eps)
		return func(tp *autograd.Tape, x *autograd.Value) *autograd.Value { return v.Decode(tp, s.apply(tp, x, false)) },
			func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
				mean, _ := v.Encode(tp, x)
				return s.apply(tp, mean, true)
			}
	}
	return d, c, nil
}

// patchScale is the means and deviations of patches' numbers.
type patchScale struct {
	mean, variance *nn.Buffer
	channels       int
	eps            float64
}

func newPatchScale(p *nn.Params, channels int, eps float64) patchScale {
	p.Ignore("num_batches_tracked")
	of := func(name string, v float32) *nn.Buffer {
		return p.Buffer(name, func() []float32 {
			x := make([]float32, 4*channels)
			for i := range x {
				x[i] = v
			}
			return x
		}, 4*channels)
	}
	return patchScale{of("running_mean", 0), of("running_var", 1), channels, eps}
}

// apply is x·deviation + mean for latents [n, H, W, channels], or with normalise the other way.
func (s patchScale) apply(tp *autograd.Tape, x *autograd.Value, normalise bool) *autograd.Value {
	mean, variance := s.mean.Rows(0, 1), s.variance.Rows(0, 1)
	scale, shift := make([]float32, len(mean)), make([]float32, len(mean))
	for c := range s.channels {
		for pixel := range 4 {
			from, to := c*4+pixel, pixel*s.channels+c
			deviation := math.Sqrt(float64(variance[from]) + s.eps)
			scale[to], shift[to] = float32(deviation-1), mean[from]
			if normalise {
				scale[to], shift[to] = float32(1/deviation-1), float32(-float64(mean[from])/deviation)
			}
		}
	}
	n, h, w, c := x.Dim(0), x.Dim(1)/2, x.Dim(2)/2, s.channels
	patches := tp.Reshape(tp.Permute(tp.Reshape(x, n*h, 2, w, 2*c), 0, 2, 1, 3), n, h*w, 4*c)
	y := tp.Modulate(patches, tp.Upload("scale of patches", scale, 1, 4*c), tp.Upload("shift of patches", shift, 1, 4*c))
	return tp.Reshape(tp.Permute(tp.Reshape(y, n*h, w, 2, 2*c), 0, 2, 1, 3), n, 2*h, 2*w, c)
}
