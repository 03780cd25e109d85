package pretrain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// A model is judged from its folder, as it would be shipped: held-out captions are drawn from
// fixed noise, and the pictures scored against their scenes.

// Evaluation is a model's scores on held-out captions.
type Evaluation struct {
	Guidance float64                  `json:"guidance"`
	All      Tally                    `json:"all"`
	By       map[scenes.Family]*Tally `json:"by_family"`
	pictures [][]uint8
}

// Tally is mean scores over a number of pictures.
type Tally struct {
	Pictures int     `json:"pictures"`
	Task     float64 `json:"task"`
	Strict   float64 `json:"strict"`
	Clean    float64 `json:"clean"`
	Total    float64 `json:"total"`
}

// add takes a picture in.
func (t *Tally) add(c scenes.Score) {
	n := float64(t.Pictures)
	t.Pictures++
	take := func(mean *float64, v float64) { *mean = (float64(*mean*n) + v) / (n + 1) }
	take(&t.Task, c.Task)
	take(&t.Clean, c.Clean)
	take(&t.Total, c.Total)
	strict := 0.0
	if c.Strict {
		strict = 1
	}
	take(&t.Strict, strict)
}

func (t Tally) String() string {
	return fmt.Sprintf("task %.3f  strict %.3f  clean %.3f  total %.3f  (%d)", t.Task, t.Strict, t.Clean, t.Total, t.Pictures)
}

func (v *Evaluation) String() string {
	lines := []string{fmt.Sprintf("guidance %g: %s", v.Guidance, v.All)}
	for _, f := range []scenes.Family{scenes.One, scenes.Relation, scenes.Count, scenes.Word} {
		if t := v.By[f]; t != nil {
			lines = append(lines, fmt.Sprintf("  %-8s %s", f, t))
		}
	}
	return strings.Join(lines, "\n")
}

// HeldOut are n scenes whose captions are kept for evaluation, in the mix of Everything.
func HeldOut(n int) []scenes.Scene {
	d := dataset{key: rng.New(1), mix: scenes.Everything}
	out := make([]scenes.Scene, n)
	for i := range out {
		out[i] = d.heldOut(i)
	}
	return out
}

// Judge draws a picture of each scene with a folder's model, by its deterministic sampler.
func Judge(ctx context.Context, pool *tensor.Pool, dir string, list []scenes.Scene, steps int, guidance float64) (*Evaluation, error) {
	p, err := pipeline.Open(dir, pipeline.Options{Pool: pool, Precision: pipeline.BF16, TextLength: pipeline.NoText})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	prompts := []string{""}
	for _, s := range list {
		prompts = append(prompts, s.Prompt)
	}
	at, err := p.Shape(scenes.Size, scenes.Size)
	if err != nil {
		return nil, err
	}
	finals, err := drawn(ctx, p, at, prompts, nil, steps, guidance)
	if err != nil {
		return nil, err
	}
	v := &Evaluation{Guidance: guidance, By: map[scenes.Family]*Tally{}}
	for i, s := range list {
		raw, err := p.Decode(finals[i], at)
		if err != nil {
			return nil, err
		}
		px := toBytes(raw)
		c := s.Score(px)
		v.All.add(c)
		if v.By[s.Family] == nil {
			v.By[s.Family] = &Tally{}
		}
		v.By[s.Family].add(c)
		v.pictures = append(v.pictures, px)
	}
	return v, nil
}

// drawn are the final latents of prompts behind the first, which is the text that guidance leads away from, by the
// folder's own deterministic sampler. given are their sources beside their prompts; nil for nothing.
func drawn(ctx context.Context, p *pipeline.Pipeline, at pipeline.Shape, prompts []string, given []*pipeline.Given, steps int, guidance float64) (finals [][]float64, err error) {
	texts, err := p.Encode(prompts...)
	if err != nil {
		return nil, err
	}
	schedule, err := p.Schedule(steps, at)
	if err != nil {
		return nil, err
	}
	rows, err := p.Rows(schedule, 0)
	if err != nil {
		return nil, err
	}
	pictures := make([]pipeline.Picture, len(prompts)-1)
	for i := range pictures {
		start, step := pipeline.Draws(1, i, 0)
		pictures[i] = pipeline.Picture{Text: texts[i+1], Negative: texts[0], StartKey: start, StepKey: step}
		if given != nil {
			pictures[i].Given = given[i]
		}
	}
	tracks, err := p.Sample(ctx, pictures, pipeline.Sampler{At: at, Rows: rows, Times: schedule.Timesteps, Guidance: pipeline.Guidance{Scale: guidance}})
	for _, t := range tracks {
		finals = append(finals, t.Final)
	}
	return finals, err
}

// report judges the folder as it stands, and leaves sheets of pictures.
func (r *run) report(step int, guidances ...float64) error {
	for _, w := range guidances {
		ctx := r.Context
		if ctx == nil {
			ctx = context.Background()
		}
		v, err := Judge(ctx, r.pool, r.dir, HeldOut(r.Pipeline.Judge.Prompts), r.Pipeline.Judge.Steps, w)
		if err != nil {
			return err
		}
		r.Log(fmt.Sprintf("judged at %d, %s", step, v))
		if err := writeGrid(filepath.Join(r.dir, fmt.Sprintf("samples_g%g.png", w)), v.pictures, 8); err != nil {
			return err
		}
	}
	return nil
}

// Fidelity is how well a folder's autoencoder gives pictures back.
type Fidelity struct {
	PSNR  float64 `json:"psnr_db"`
	Drawn Tally   `json:"as_drawn"` // the scores of its drawings
	Seen  Tally   `json:"as_seen"`  // and of its sources

	pictures [][]uint8
}

func (f *Fidelity) String() string {
	return fmt.Sprintf("reconstruction: PSNR %.2f dB\n  as drawn %s\n  as seen  %s", f.PSNR, f.Drawn, f.Seen)
}

// Reconstruct encodes and decodes n pictures that no recipe draws.
func Reconstruct(pool *tensor.Pool, dir string, n int) (*Fidelity, error) {
	v, params, err := maker{dir: dir, pool: pool}.saved()
	if err != nil {
		return nil, err
	}
	defer params.Free()
	data := dataset{key: rng.New(1).With("reconstruction"), mix: scenes.Everything}
	f := &Fidelity{}
	var squares float64
	for lo := 0; lo < n; lo += 16 {
		count := min(16, n-lo)
		x := make([]float32, count*pixels)
		for i := range count {
			data.picture(lo+i, x[i*pixels:(i+1)*pixels])
		}
		y := passThrough(pool, v, x, count, scenes.Size)
		for i := range count {
			s, px, was := data.scene(lo+i), toBytes(y[i*pixels:(i+1)*pixels]), toBytes(x[i*pixels:(i+1)*pixels])
			for k := range px {
				d := float64(px[k]) - float64(was[k])
				squares += float64(d * d)
			}
			f.Drawn.add(s.Score(px))
			f.Seen.add(s.Score(was))
			f.pictures = append(f.pictures, px)
		}
	}
	f.PSNR = 10 * portable.Log10(255*255/(squares/float64(n*pixels)))
	return f, nil
}

func passThrough(pool *tensor.Pool, v *vae.KL, x []float32, n, side int) []float32 {
	tp := autograd.New(pool, autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16})
	defer tp.Reset()
	mu, _ := v.Encode(tp, tp.Upload("pictures", x, n, side, side, 3))
	return v.Decode(tp, v.Scaled(tp, mu)).F32()
}

// writeGrid writes pictures side by side, twice as large.
func writeGrid(path string, pictures [][]uint8, columns int) error {
	cells := make([]*vision.Image, len(pictures))
	for i, px := range pictures {
		cells[i] = &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: px}
	}
	sheet, err := vision.Sheet{Columns: columns, Padding: 4, Scale: 2}.Draw(cells)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := vision.EncodePNG(f, sheet); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
