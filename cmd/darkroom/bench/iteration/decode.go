package iteration

import (
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Decoding is the part of the autoencoder.
type Decoding struct {
	Config  map[string][]int `json:"config"`
	Decode  Timed            `json:"decode"`
	Seconds float64          `json:"decode_s"`
	Peak    int              `json:"peak_rss_mb"`
	Guess   int              `json:"predicted_rss_mb"`
}

// decoder is the autoencoder of Stable Diffusion 3.
func decoder() vae.Config {
	return vae.Config{In: 3, Out: 3, Latent: 16, Channels: []int{128, 256, 512, 512}, Layers: 2, Groups: 32, Attention: true, Scaling: 1.5305, Shift: 0.0609, Act: "silu"}
}

func (b *bench) decoding() (*Decoding, error) {
	p, err := b.open()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	at, err := p.Shape(8*b.Latent, 8*b.Latent)
	if err != nil {
		return nil, err
	}
	need, err := p.Need(pipeline.Work{At: at}, b.process.Dry())
	if err != nil {
		return nil, err
	}
	b.reset()
	latents := drawn(rng.New(1), at.Len())
	r := &Decoding{Config: map[string][]int{"latents": {1, 16, at.Rows, at.Cols}, "image": {3, at.Height, at.Width}}}
	r.Decode, err = b.timed(func() error {
		_, err := p.Decode(latents, at)
		return err
	})
	r.Seconds, r.Peak, r.Guess = r.Decode.Best, b.process.Peak(), b.predicted(need.Decoding)
	return r, err
}

// drawn is standard normal numbers that fp32 has.
func drawn(k rng.Key, n int) []float64 {
	z := make([]float32, n)
	k.Normal(z, 0)
	x := make([]float64, n)
	for i, v := range z {
		x[i] = float64(v)
	}
	return x
}
