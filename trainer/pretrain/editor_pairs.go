package pretrain

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Pairs of scenes, each a function of its number.

// edit is what pair i's text asks for: of no scene whose caption is held out.
func (r *editorRun) edit(i int) scenes.Edit {
	for try := 0; ; try++ {
		if e := scenes.RandomEdit(r.key.With("edit").Sample(i).Attempt(try).Draw()); !scenes.HeldOut(e.Before.Prompt) {
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

// pair is pair i's pictures, as numbers between -1 and 1, one after the other.
func (r *editorRun) pair(i int) []float32 {
	made := r.Editor.Data.made(r.key.With("kind of pair").Sample(i).Draw().Float64())
	before, after := r.edit(i).Pair(made, r.key.With("pair").Sample(i).Draw())
	x := make([]float32, 2*pixels)
	toFloats(before, x)
	toFloats(after, x[pixels:])
	return x
}

// textOf is what pair i's text says at some epoch: sometimes nothing.
func (r *editorRun) textOf(i, epoch int) string {
	if r.key.With("text").Iteration(epoch).Sample(i).Draw().Float64() < r.Editor.Data.Drop {
		return ""
	}
	return r.edit(i).Text
}

// tokens is how many tokens a picture's latents are.
func (r *editorRun) tokens() int { return r.latentSide() * r.latentSide() / 4 }

// cachePairs encodes every pair by the autoencoder as it was saved.
func (r *editorRun) cachePairs() error {
	v, params, err := r.maker().saved()
	if err != nil {
		return err
	}
	defer params.Free()
	const each = 32
	n := r.latentLen()
	for lo := 0; lo < r.Editor.Data.Pairs; lo += each {
		if err := r.stopped(); err != nil {
			return err
		}
		var x []float32
		for i := lo; i < min(lo+each, r.Editor.Data.Pairs); i++ {
			x = append(x, r.pair(i)...)
		}
		for z := r.encoded(v, x); len(z) > 0; z = z[2*n:] {
			r.pairs = append(r.pairs, [2][]float32{r.packed(z[:n]), r.packed(z[n : 2*n])})
		}
	}
	r.Say(fmt.Sprintf("pairs: %d encoded", len(r.pairs)))
	return nil
}

// packed is latents, channels last, as tokens of 2 x 2 patches.
func (r *editorRun) packed(z []float32) []float32 {
	c, side := r.Editor.VAE.Latent, r.latentSide()
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
