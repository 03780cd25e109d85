package pipeline

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
)

// Drawn is a Stable Diffusion 3 of any size whose weights are drawn and not read, without
// text encoders: time and memory are measured on it with the very code that works on
// folders. Texts are the caller's to make.
type Drawn struct {
	Network mmdit.Config
	Decoder vae.Config
	Shift   float64 // of the schedule
	Key     rng.Key
}

// Open makes the pipeline.
func (d Drawn) Open(o Options) (*Pipeline, error) {
	for _, err := range []error{named("the network", d.Network.Check()), named("the autoencoder", d.Decoder.Check())} {
		if err != nil {
			return nil, err
		}
	}
	if d.Network.In != d.Network.Out || d.Network.In != d.Decoder.Latent || d.Decoder.Out != 3 {
		return nil, fmt.Errorf("a network of %d channels in and %d out does not go with latents of %d channels and pictures of %d", d.Network.In, d.Network.Out, d.Decoder.Latent, d.Decoder.Out)
	}
	if !(d.Shift > 0) {
		return nil, fmt.Errorf("a shift of %v; it must be positive", d.Shift)
	}
	flow := sde.DefaultFlow()
	flow.Shift = d.Shift
	p := &Pipeline{Options: o, folder: &folder{class: "StableDiffusion3Pipeline", drawn: &d}, family: sd3Family(d.Network, 0, false),
		decoder: klDecoder(d.Decoder), schedule: &scheduler{flow: flow}, texts: map[textKey]*Text{}}
	return p, nil
}
