package pretrain

import (
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// judge draws held-out captions from fixed noise, and scores the pictures.
type judge struct {
	run    *run
	g      *painter
	v      *vae.KL
	params *nn.Params
	scenes []scenes.Scene
}

func (r *run) judge(g *painter) (*judge, error) {
	v, params, err := r.maker().autoencoder(&r.Recipe, false)
	if err != nil {
		return nil, err
	}
	j := &judge{run: r, g: g, v: v, params: params}
	for i := range r.Judge.Prompts {
		j.scenes = append(j.scenes, r.dataset().heldOut(i))
	}
	return j, nil
}

func (j *judge) free() { j.params.Free() }

// report scores the model at some guidances and leaves grids of pictures.
func (j *judge) report(step int, guidances ...float64) error {
	for _, w := range guidances {
		pictures, err := j.draw(w)
		if err != nil {
			return err
		}
		total, by := tally{}, map[scenes.Family]*tally{}
		for i, s := range j.scenes {
			c := s.Score(pictures[i])
			total.add(c)
			if by[s.Family] == nil {
				by[s.Family] = &tally{}
			}
			by[s.Family].add(c)
		}
		line := fmt.Sprintf("judged at %d, guidance %g: %s", step, w, total)
		for _, f := range []scenes.Family{scenes.One, scenes.Relation, scenes.Count, scenes.Word} {
			if by[f] != nil {
				line += fmt.Sprintf("\n  %-8s %s", f, by[f])
			}
		}
		j.run.Say(line)
		if err := writeGrid(filepath.Join(j.run.dir, fmt.Sprintf("samples_g%g.png", w)), pictures, 8); err != nil {
			return err
		}
	}
	return nil
}

// tally is mean scores.
type tally struct {
	n                          int
	task, strict, clean, total float64
}

func (t *tally) add(c scenes.Score) {
	t.n++
	t.task, t.clean, t.total = t.task+c.Task, t.clean+c.Clean, t.total+c.Total
	if c.Strict {
		t.strict++
	}
}

func (t tally) String() string {
	n := float64(t.n)
	return fmt.Sprintf("task %.3f  strict %.3f  clean %.3f  total %.3f  (%d)", t.task/n, t.strict/n, t.clean/n, t.total/n, t.n)
}

// draw is a picture of each scene by the deterministic sampler.
func (j *judge) draw(guidance float64) ([][]uint8, error) {
	r := j.run
	o := sde.DefaultFlow()
	o.Shift = r.Flow.Shift
	schedule, err := sde.Flow(o, r.Judge.Steps, nil, 0)
	if err != nil {
		return nil, err
	}
	rows := make([]sde.Row, r.Judge.Steps)
	for i := range rows {
		rows[i] = sde.Euler(schedule, i)
	}
	var out [][]uint8
	const together = 16
	n := r.latentLen()
	for lo := 0; lo < len(j.scenes); lo += together {
		hi := min(lo+together, len(j.scenes))
		captions := make([]string, hi-lo)
		start := make([]float64, (hi-lo)*n)
		for i := lo; i < hi; i++ {
			captions[i-lo] = j.scenes[i].Prompt
			noise := make([]float32, n)
			r.dataset().key.With("judge's noise").Sample(i).Normal(noise, 0)
			for k, e := range noise {
				start[(i-lo)*n+k] = float64(e)
			}
		}
		end := sde.Run(rows, start, func(x []float64, step int) []float64 {
			return j.guided(x, captions, schedule.Sigmas[step], guidance)
		}, nil)
		out = append(out, j.decode(end.States[len(rows)], hi-lo)...)
	}
	return out, nil
}

// guided is the velocity, guided where guidance is not 1.
func (j *judge) guided(x []float64, captions []string, sigma, guidance float64) []float64 {
	latents := make([]float32, len(x))
	for i, v := range x {
		latents[i] = float32(v)
	}
	at := func(captions []string) []float32 {
		tp := autograd.New(j.run.pool, autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16})
		defer tp.Reset()
		times := make([]float32, len(captions))
		for i := range times {
			times[i] = float32(1000 * sigma)
		}
		side := j.run.latentSide()
		return j.g.velocity(tp, tp.Upload("latents", latents, len(captions), side, side, j.run.VAE.Latent), captions, times).F32()
	}
	v := at(captions)
	out := make([]float64, len(x))
	for i := range v {
		out[i] = float64(v[i])
	}
	if guidance != 1 {
		for i, u := range at(make([]string, len(captions))) {
			out[i] = float64(u) + guidance*(out[i]-float64(u))
		}
	}
	return out
}

// decode is the pictures of latents.
func (j *judge) decode(z []float64, n int) [][]uint8 {
	x := make([]float32, len(z))
	for i, v := range z {
		x[i] = float32(v)
	}
	tp := autograd.New(j.run.pool, autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16})
	defer tp.Reset()
	side := j.run.latentSide()
	y := j.v.Decode(tp, tp.Upload("latents", x, n, side, side, j.run.VAE.Latent)).F32()
	out := make([][]uint8, n)
	for i := range out {
		out[i] = toBytes(y[i*pixels : (i+1)*pixels])
	}
	return out
}

// reconstructed is how well the autoencoder gives pictures back: PSNR in dB, and the score of
// what it draws beside that of what it saw.
func (j *judge) reconstructed(n int) (psnr float64, drawn, seen tally, err error) {
	r := j.run
	data := r.dataset()
	var squares float64
	var shown [][]uint8
	for lo := 0; lo < n; lo += 16 {
		hi := min(lo+16, n)
		var z []float64
		for _, v := range r.encode(j.v, lo, hi) {
			z = append(z, float64(v))
		}
		for i, px := range j.decode(z, hi-lo) {
			s := data.scene(lo + i)
			x := make([]float32, pixels)
			data.picture(lo+i, x)
			was := toBytes(x)
			for k := range px {
				d := float64(px[k]) - float64(was[k])
				squares += d * d
			}
			drawn.add(s.Score(px))
			seen.add(s.Score(was))
			shown = append(shown, px)
		}
	}
	psnr = 10 * math.Log10(255*255/(squares/float64(n*pixels)))
	return psnr, drawn, seen, writeGrid(filepath.Join(r.dir, "reconstruction.png"), shown[:min(64, n)], 8)
}

// writeGrid writes pictures side by side, twice as large.
func writeGrid(path string, pictures [][]uint8, columns int) error {
	const gap, scale = 2, 2
	rows := (len(pictures) + columns - 1) / columns
	side := scenes.Size + gap
	im := image.NewRGBA(image.Rect(0, 0, scale*(columns*side+gap), scale*(rows*side+gap)))
	for i := range im.Pix {
		im.Pix[i] = 90 + 165*uint8(i%4/3)
	}
	for n, px := range pictures {
		x0, y0 := scale*(gap+n%columns*side), scale*(gap+n/columns*side)
		for y := range scale * scenes.Size {
			for x := range scale * scenes.Size {
				copy(im.Pix[im.PixOffset(x0+x, y0+y):], px[(y/scale*scenes.Size+x/scale)*3:][:3])
			}
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := png.Encode(f, im); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
