package main

import (
	"context"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Rewards that networks compute, from pictures and prompts to scores and the gradients at
// the prepared numbers (grad_pixel_values) and at the picture's own (grad_raw).

var neuralOps = map[string]Op{
	"neural.aesthetic":          onDevice(neuralAesthetic),
	"neural.aesthetic_mlp_full": aestheticMLP,
	"neural.clip":               onDevice(neuralCLIP),
	"neural.dino":               onDevice(neuralDINO),
	"neural.geneval_color":      onDevice(genevalColor),
	"neural.hpsv2":              onDevice(neuralHPSv2),
	"neural.score_scales":       scoreScales,
}

func onDevice(op func(ctx context.Context, c *Case, d *features.Device)) Op {
	return func(c *Case) {
		be := must(c.open())
		defer be.Close()
		op(context.Background(), c, features.On(tensor.NewPool(be), features.F32))
	}
}

// shown are a case's pictures, in each form.
type shown struct {
	pictures []*vision.Image
	raw      []vision.Pixels
	prepared []vision.Pixels
}

func show3(c *Case, t *features.Tower) (s shown) {
	for _, name := range c.Strings("images") {
		m := must(vision.Open(must(safetensors.Locate(c.Dir(), name)), vision.Limits{}))
		x := must(t.Prepare.Apply(nil, m, vision.ChannelsLast))
		s.pictures = append(s.pictures, m)
		s.raw = append(s.raw, vision.Pixels{Width: m.Width, Height: m.Height, RGB: vision.Floats(nil, m, vision.Unit, vision.ChannelsLast)})
		s.prepared = append(s.prepared, vision.Pixels{Width: t.Prepare.Size, Height: t.Prepare.Size, RGB: x})
	}
	c.Put("pixel_values", pixelArray(s.prepared))
	return s
}

// pixelArray is numbers of pictures as [B, 3, H, W].
func pixelArray(pictures []vision.Pixels) Array {
	if len(pictures) == 0 {
		return Array{}
	}
	a := Array{Shape: []int{len(pictures), pictures[0].Height, pictures[0].Width, 3}}
	for _, p := range pictures {
		a.Data = append(a.Data, to[float64](p.RGB)...)
	}
	return channelsFirst(a)
}

func gradArray(grads [][]float32, like []vision.Pixels) Array {
	var all []vision.Pixels
	for i, g := range grads {
		all = append(all, vision.Pixels{Width: like[i].Width, Height: like[i].Height, RGB: g})
	}
	return pixelArray(all)
}

// straight takes prepared numbers for pictures: no pipeline stands before the tower.
type straight struct{ *features.Tower }

func (s straight) Pixels(ctx context.Context, pictures []vision.Pixels) ([][]float64, error) {
	return s.Vectors(ctx, numbers(pictures))
}

func (s straight) PullPixels(ctx context.Context, pictures []vision.Pixels, at features.At) ([][]float32, error) {
	return s.Pull(ctx, numbers(pictures), at)
}

func numbers(pictures []vision.Pixels) (x [][]float32) {
	for _, p := range pictures {
		x = append(x, p.RGB)
	}
	return x
}

// straightTowers are towers for prepared numbers.
type straightTowers struct {
	*clip.Towers
	straight
}

func (s straightTowers) Images(ctx context.Context, m []*vision.Image) ([][]float64, error) {
	return s.straight.Images(ctx, m)
}

func (s straightTowers) Pixels(ctx context.Context, p []vision.Pixels) ([][]float64, error) {
	return s.straight.Pixels(ctx, p)
}

func (s straightTowers) PullPixels(ctx context.Context, p []vision.Pixels, at features.At) ([][]float32, error) {
	return s.straight.PullPixels(ctx, p, at)
}
