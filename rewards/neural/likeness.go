package neural

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: how alike pictures are in what they show: the cosine of their vectors by DINO.
//
//	likeness      <u, v> of a picture and a reference
//	consistency   of a clip, VBench's subject_consistency: over frames t = 2.. the mean of
//	              (max(0, <u_t, u_t-1>) + max(0, <u_t, u_1>)) / 2
//	              and, by a CLIP's picture tower, its background_consistency
//
// VBench resizes frames without smoothing, here they are resized as each network's pictures are.
// A clip that does not move is perfectly consistent: combine it with motion.
// Invariants (tests): equal frames give 1; gradients agree with differences. Held to
// neural.dino.
type Likeness struct {
	Pictures Pictures
	// Reference is what a sample is compared with, for likeness.
	Reference func(ctx context.Context, item rewards.Item) (*vision.Image, error)
}

// Cosine is the likeness of vectors.
func Cosine(x, y []float64) (float64, error) {
	u, _, err := unit(x)
	if err != nil {
		return 0, err
	}
	v, _, err := unit(y)
	if err != nil {
		return 0, err
	}
	if len(u) != len(v) {
		return 0, fmt.Errorf("vectors of %d and %d numbers", len(u), len(v))
	}
	return dot(u, v), nil
}

// Images are the likenesses of pictures and their references.
func (l Likeness) Images(ctx context.Context, pictures, references []*vision.Image) ([]float64, error) {
	if len(pictures) != len(references) {
		return nil, fmt.Errorf("%d pictures and %d references", len(pictures), len(references))
	}
	x, err := l.Pictures.Images(ctx, pictures)
	if err != nil {
		return nil, err
	}
	y, err := l.Pictures.Images(ctx, references)
	if err != nil {
		return nil, fmt.Errorf("references: %w", err)
	}
	out := make([]float64, len(x))
	for i := range x {
		if out[i], err = Cosine(x[i], y[i]); err != nil {
			return nil, fmt.Errorf("picture %d: %w", i, err)
		}
	}
	return out, nil
}

// Gradient is the likenesses of pictures of numbers and their references, and how each number
// changes its picture's.
func (l Likeness) Gradient(ctx context.Context, pictures []vision.Pixels, references []*vision.Image) ([]float64, [][]float32, error) {
	if len(pictures) != len(references) {
		return nil, nil, fmt.Errorf("%d pictures and %d references", len(pictures), len(references))
	}
	y, err := l.Pictures.Images(ctx, references)
	if err == nil {
		y, err = units(y)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("references: %w", err)
	}
	return pointwise(ctx, l.Pictures, pictures, func(i int, u []float64) (float64, []float64) { return dot(u, y[i]), y[i] })
}

var errOneFrame = errors.New("consistency over time needs a clip of two frames or more")

// Consistency is that of a clip's frames, and what each frame after the first adds.
func (l Likeness) Consistency(ctx context.Context, frames []*vision.Image) (float64, []float64, error) {
	vectors, err := l.Pictures.Images(ctx, frames)
	if err != nil {
		return 0, nil, err
	}
	return Consistency(vectors)
}

// Consistency is that of frames' vectors.
func Consistency(vectors [][]float64) (mean float64, each []float64, err error) {
	u, err := units(vectors)
	if err != nil {
		return 0, nil, err
	}
	if len(u) < 2 {
		return 0, nil, errOneFrame
	}
	for t := 1; t < len(u); t++ {
		each = append(each, (max(0, dot(u[t], u[t-1]))+max(0, dot(u[t], u[0])))/2)
		mean += each[t-1]
	}
	return mean / float64(len(each)), each, nil
}

// ConsistencyGradient is the consistency of frames of numbers, and how each number changes it.
// The network runs twice: a frame's derivative depends on the others' vectors.
func (l Likeness) ConsistencyGradient(ctx context.Context, frames []vision.Pixels) (float64, [][]float32, error) {
	vectors, err := l.Pictures.Pixels(ctx, frames)
	if err != nil {
		return 0, nil, err
	}
	value, _, err := Consistency(vectors)
	if err != nil {
		return 0, nil, err
	}
	u, err := units(vectors)
	if err != nil {
		return 0, nil, err
	}
	d := make([][]float64, len(u))
	for t := range d {
		d[t] = make([]float64, len(u[t]))
	}
	share := 1 / float64(2*(len(u)-1))
	pair := func(s, t int) {
		if dot(u[s], u[t]) <= 0 {
			return
		}
		for i := range d[s] {
			d[s][i] += float64(share * u[t][i])
			d[t][i] += float64(share * u[s][i])
		}
	}
	for t := 1; t < len(u); t++ {
		pair(t, t-1)
		pair(t, 0)
	}
	grads, err := l.Pictures.PullPixels(ctx, frames, func(from int, vectors [][]float64) ([][]float64, error) {
		out := make([][]float64, len(vectors))
		for i, x := range vectors {
			v, norm, err := unit(x)
			if err != nil {
				return nil, err
			}
			out[i] = back(v, norm, d[from+i])
		}
		return out, nil
	})
	return value, grads, err
}
