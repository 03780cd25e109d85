package sample

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// latentsName is the tensor in --latents' file: [pictures, channels, rows, columns], as diffusers' pipelines
// make their latents (before FLUX packs them).
const latentsName = "latents"

// startAt makes pictures start at the file's noise. Where there is no file, it is written.
func (o *options) startAt(p *pipeline.Pipeline, at pipeline.Shape, pictures []pipeline.Picture) error {
	if o.latents == "" {
		return nil
	}
	if _, err := os.Stat(o.latents); errors.Is(err, fs.ErrNotExist) {
		return o.writeLatents(p, at, pictures)
	} else if err != nil {
		return err
	}
	f, err := safetensors.Open(o.latents)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := f.Tensor(latentsName)
	if err != nil {
		return err
	}
	want := append([]int{len(pictures)}, p.LatentShape(at)...)
	if !slices.Equal(t.Shape, want) {
		return exits.Usagef("--latents %s: %q has the shape %v; %d pictures of %d x %d take %v", o.latents, latentsName, t.Shape, len(pictures), at.Width, at.Height, want)
	}
	x, err := t.Float32(nil)
	if err != nil {
		return err
	}
	each := len(x) / len(pictures)
	for i := range pictures {
		if pictures[i].Start, err = p.FromChannelsFirst(x[i*each:(i+1)*each], at); err != nil {
			return fmt.Errorf("%s: picture %d: %w", o.latents, i, err)
		}
	}
	return nil
}

// writeLatents keeps the noise that pictures are drawn from, for other programs.
func (o *options) writeLatents(p *pipeline.Pipeline, at pipeline.Shape, pictures []pipeline.Picture) error {
	var all []float32
	for i := range pictures {
		pictures[i].Start = pipeline.Noise(pictures[i].StartKey, at)
		all = append(all, p.ChannelsFirst(pictures[i].Start, at)...)
	}
	t := safetensors.FromF32(latentsName, append([]int{len(pictures)}, p.LatentShape(at)...), all)
	return safetensors.Write(o.latents, []safetensors.Tensor{t}, map[string]string{"format": "pt"})
}
