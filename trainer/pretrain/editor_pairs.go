package pretrain

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Pairs of scenes, each a function of its number.

// edit is what pair i's text asks for: of no scene whose caption is held out.
func (r *editorRun) edit(i int) scenes.Edit {
	for try := 0; ; try++ {
		e := scenes.RandomEdit(r.key.With("edit").Sample(i).Attempt(try).Draw())
		if !scenes.HeldOut(e.Before.Prompt) && e.Begins(r.Editor.Data.Verbs) {
			return e
		}
	}
}

// made is what pair i shows.
func (d EditorData) made(u float64) scenes.Made {
	switch {
	case u < d.Redone:
		return scenes.Redone
	case u < d.Redone+d.Kept:
		return scenes.Kept
	case u < d.Redone+d.Kept+d.Other:
		return scenes.Other
	}
	return scenes.Asked
}

// beforeAfter is latents of pictures before and after, as the network reads them.
type beforeAfter struct{ before, after []float32 }

// drawn is pair i's pictures, as numbers between -1 and 1, one after the other.
func (r *editorRun) drawn(i int) ([]float32, error) {
	before, after := r.edit(i).Pair(r.kind(i), r.key.With("pair").Sample(i).Draw())
	side := r.Editor.Data.Side
	x := make([]float32, 2*3*side*side)
	for at, px := range [][]uint8{before, after} {
		small, err := resized(px, scenes.Size, side)
		if err != nil {
			return nil, err
		}
		toFloats(small, x[at*len(x)/2:])
	}
	return x, nil
}

// kind is what pair i shows beside its text.
func (r *editorRun) kind(i int) scenes.Made {
	return r.Editor.Data.made(r.key.With("kind of pair").Sample(i).Draw().Float64())
}

// resized is a square picture with another side.
func resized(px []uint8, from, to int) ([]uint8, error) {
	if from == to {
		return px, nil
	}
	m, err := (&vision.Image{Width: from, Height: from, Pix: px}).Resize(to, to, vision.Lanczos)
	if err != nil {
		return nil, err
	}
	return m.Pix, nil
}

// textOf is what pair i's text says at some epoch: sometimes nothing.
func (r *editorRun) textOf(i, epoch int) string {
	if r.key.With("text").Iteration(epoch).Sample(i).Draw().Float64() < r.Editor.Data.Drop {
		return ""
	}
	return r.edit(i).Text
}

// pairSide is the side of a pair's latents.
func (r *editorRun) pairSide() int { return r.latentSide() * r.Editor.Data.Side / scenes.Size }

// pairLen is how many numbers the latents of one of its pictures have.
func (r *editorRun) pairLen() int { return r.pairSide() * r.pairSide() * r.Editor.VAE.Latent }

// tokens is how many tokens a picture's latents are.
func (r *editorRun) tokens() int { return r.pairSide() * r.pairSide() / 4 }

// cachePairs encodes every pair by the autoencoder as it was saved.
func (r *editorRun) cachePairs() error {
	v, params, err := r.maker().saved()
	if err != nil {
		return err
	}
	defer params.Free()
	const each = 32
	n := r.pairLen()
	for lo := 0; lo < r.Editor.Data.Pairs; lo += each {
		if err := r.stopped(); err != nil {
			return err
		}
		var x []float32
		for i := lo; i < min(lo+each, r.Editor.Data.Pairs); i++ {
			px, err := r.drawn(i)
			if err != nil {
				return err
			}
			x = append(x, px...)
			if r.kind(i) == scenes.Asked {
				r.clean = append(r.clean, i)
			}
		}
		for z := r.encoded(v, x, r.Editor.Data.Side); len(z) > 0; z = z[2*n:] {
			r.pairs = append(r.pairs, beforeAfter{r.packed(z[:n]), r.packed(z[n : 2*n])})
		}
	}
	if len(r.clean) == 0 && r.Editor.Data.Clean > 0 {
		return fmt.Errorf("data.clean: not one of %d pairs does what its text says, and nothing else", r.Editor.Data.Pairs)
	}
	r.Say(fmt.Sprintf("pairs: %d encoded, %d of them clean", len(r.pairs), len(r.clean)))
	return nil
}

// packed is latents, channels last, as tokens of 2 x 2 patches.
func (r *editorRun) packed(z []float32) []float32 {
	c, side := r.Editor.VAE.Latent, r.pairSide()
	first := make([]float64, len(z))
	for i, v := range z {
		first[i%c*side*side+i/c] = float64(v)
	}
	tokens, _, err := diffusion.Pack(first, c, side, side)
	if err != nil {
		panic(err) // the recipe's sides are even
	}
	out := make([]float32, len(z))
	for i, v := range tokens {
		out[i] = float32(v)
	}
	return out
}
