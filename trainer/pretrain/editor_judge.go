package pretrain

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Retouched says how a model of edits does held-out ones.
type Retouched struct {
	Guidance float64 `json:"guidance"`
	Edits    int     `json:"edits"`
	Done     float64 `json:"done"` // means of scenes.Edit.Score
	Kept     float64 `json:"kept"`
	Reward   float64 `json:"reward"` // the mean of done times kept

	pictures [][]uint8 // before and after, by turns
}

func (v *Retouched) String() string {
	return fmt.Sprintf("guidance %g: done %.3f, kept %.3f, done times kept %.3f of %d edits", v.Guidance, v.Done, v.Kept, v.Reward, v.Edits)
}

// JudgeEdits edits n pictures of held-out scenes with a folder's model.
func JudgeEdits(ctx context.Context, pool *tensor.Pool, dir string, verbs []string, n, steps int, guidance float64) (*Retouched, error) {
	p, err := pipeline.Open(dir, pipeline.Options{Pool: pool, Precision: pipeline.BF16})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	side, _ := p.SizeFor(vision.New(scenes.Size, scenes.Size))
	at, err := p.Shape(side, side)
	if err != nil {
		return nil, err
	}
	v, prompts := &Retouched{Guidance: guidance, Edits: n}, []string{""}
	var edits []scenes.Edit
	var given []*pipeline.Given
	for i := range n {
		e, before, _ := heldOutEdit(i, verbs)
		g, err := p.Source(ctx, &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: before})
		if err != nil {
			return nil, err
		}
		edits, given, prompts, v.pictures = append(edits, e), append(given, g), append(prompts, e.Text), append(v.pictures, before, nil)
	}
	finals, err := drawn(ctx, p, at, prompts, given, steps, guidance)
	if err != nil {
		return nil, err
	}
	for i, e := range edits {
		raw, err := p.Decode(finals[i], at)
		if err != nil {
			return nil, err
		}
		after, err := resized(toBytes(raw), side, scenes.Size)
		if err != nil {
			return nil, err
		}
		v.pictures[2*i+1] = after
		if err := v.add(e, v.pictures[2*i], after); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// add takes one edit in.
func (v *Retouched) add(e scenes.Edit, before, after []uint8) error {
	done, kept, err := e.Score(before, after)
	n := float64(v.Edits)
	v.Done += done / n
	v.Kept += kept / n
	v.Reward += float64(done*kept) / n
	return err
}

// heldOutEdit is edit i of scenes whose captions are held out, and its pictures.
func heldOutEdit(i int, verbs []string) (e scenes.Edit, before, after []uint8) {
	for try := 0; ; try++ {
		e = scenes.RandomEdit(rng.New(1).With("held-out edit").Sample(i).Attempt(try).Draw())
		if scenes.HeldOut(e.Before.Prompt) && e.Begins(verbs) {
			break
		}
	}
	before, after = e.Pair(scenes.Asked, rng.New(1).With("held-out pair").Sample(i).Draw())
	return e, before, after
}

// highest is what an autoencoder lets a perfect model have: pictures afterwards, there and back, against those before.
func (r *editorRun) highest() error {
	v, params, err := r.maker().saved()
	if err != nil {
		return err
	}
	defer params.Free()
	best := &Retouched{Guidance: 1, Edits: r.Editor.Judge.Prompts}
	for i := range best.Edits {
		e, before, after := heldOutEdit(i, r.Editor.Data.Verbs)
		side := r.Editor.Data.Side
		small, err := resized(after, scenes.Size, side)
		if err != nil {
			return err
		}
		x := make([]float32, len(small))
		toFloats(small, x)
		if after, err = resized(toBytes(passThrough(r.pool, v, x, 1, side)), side, scenes.Size); err != nil {
			return err
		}
		if err := best.add(e, before, after); err != nil {
			return err
		}
	}
	r.Say(fmt.Sprintf("autoencoder, of pictures that are edited perfectly: done %.3f, kept %.3f, done times kept %.3f", best.Done, best.Kept, best.Reward))
	return nil
}
