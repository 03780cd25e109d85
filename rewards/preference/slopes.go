package preference

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: HPSv3's differentiable way, for methods that follow a reward's own gradient: a picture's numbers are resized in
// fp32 without bytes in between (frames.go), so its score differs a little from that of the same picture as a file.
//
// Held to qwen2vl.hpsv3 (hpsv3_tensor): patches, score, gradient at the picture.

// Soft is how patches are made of a picture's numbers, 0 to 255.
type Soft struct {
	Resizing
	Grid   vlm.Grid
	cut    *vlm.Processor
	places []vlm.Place
}

// SoftOf is that of pictures of a size.
func SoftOf(cut *vlm.Processor, width, height int) (s Soft, err error) {
	w, h, err := pictureSize(width, height)
	if err != nil {
		return s, err
	}
	s = Soft{Resizing: Resizing{width, height, w, h}, Grid: vlm.Grid{Frames: 1, Rows: h / cut.Patch, Columns: w / cut.Patch}, cut: cut}
	s.places, err = vlm.Places([]vlm.Grid{s.Grid}, cut.Merge)
	return s, err
}

// pictureSize is HPSv3's of a picture: 256 cells of 28 x 28 pixels, as near as its sides allow.
func pictureSize(width, height int) (w, h int, err error) {
	const pixels = 256 * 28 * 28
	return vlm.Pixels{Min: pixels, Max: pixels}.MostFirst(width, height, 28)
}

// each calls f with every number of a patch and of the resized picture that are one, and the number's channel.
func (s Soft) each(f func(patch, picture, channel int)) {
	n, side := 0, s.cut.Patch
	for _, at := range s.places {
		for c := range 3 {
			for range s.cut.Frames {
				for y := range side {
					for x := range side {
						f(n, ((at.Row*side+y)*s.Width+at.Column*side+x)*3+c, c)
						n++
					}
				}
			}
		}
	}
}

// norm is a channel's mean and deviation, of numbers from 0 to 255.
func (s Soft) norm(c int) (mean, std float32) {
	by := float32(1 / s.cut.Rescale)
	return float32(float32(s.cut.Mean[c]) * by), float32(float32(s.cut.Std[c]) * by)
}

// Patches are those of a picture [height, width, 3].
func (s Soft) Patches(x []float32) vlm.Patches {
	x = s.Of(x)
	p := vlm.Patches{Grids: []vlm.Grid{s.Grid}, Values: make([]float32, len(s.places)*3*s.cut.Frames*s.cut.Patch*s.cut.Patch)}
	s.each(func(patch, picture, c int) {
		mean, std := s.norm(c)
		p.Values[patch] = (x[picture] - mean) / std
	})
	return p
}

// Back is the gradient at the picture, of one at its patches.
func (s Soft) Back(grad []float32) []float32 {
	resized := make([]float32, s.Width*s.Height*3)
	s.each(func(patch, picture, c int) {
		_, std := s.norm(c)
		resized[picture] += grad[patch] / std
	})
	return s.Resizing.Back(resized)
}

// PixelGradient is HPSv3's mu of pictures, and its gradient at their numbers, which lie between 0 and 1.
func (j *Judge) PixelGradient(ctx context.Context, items []rewards.Item, pictures []vision.Pixels) (values []float64, grads [][]float32, err error) {
	if j.clips {
		return nil, nil, errors.New("VideoReward has no gradient at pixels: its frames are cut to bytes")
	}
	for i, m := range pictures {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		value, grad, err := j.slope(items[i].Prompt, m)
		if err != nil {
			return nil, nil, fmt.Errorf("picture %d: %w", i, err)
		}
		values, grads = append(values, value), append(grads, grad)
	}
	return values, grads, nil
}

func (j *Judge) slope(prompt string, m vision.Pixels) (value float64, grad []float32, err error) {
	soft, err := SoftOf(j.cut, m.Width, m.Height)
	if err != nil {
		return 0, nil, err
	}
	x := make([]float32, len(m.RGB))
	for i, v := range m.RGB {
		x[i] = 255 * v
	}
	patches := soft.Patches(x)
	q, added, err := j.question(PicturePrompt(prompt), patches)
	if err != nil {
		return 0, nil, err
	}
	j.device.Run(true, func(tp *autograd.Tape) {
		memory := tp.Pool().FromF32(tp.DType, patches.Values, len(soft.places), len(patches.Values)/len(soft.places))
		defer memory.Free()
		seen := tp.Variable(memory)
		scores, failed := j.network.Scores(tp, q, added, seen, nil)
		if err = failed; err != nil {
			return
		}
		value = float64(scores.F32()[0])
		tp.Backward(autograd.Seed{Of: scores, Grad: []float32{1, 0}})
		grad = soft.Back(seen.Grad().F32())
	})
	for i := range grad {
		grad[i] *= 255
	}
	return value, grad, err
}
