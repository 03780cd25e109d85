package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/sde"
	clips "github.com/darkroom-rl/darkroom/video/vae"
	"github.com/darkroom-rl/darkroom/vision"
)

// Whole pipelines of clips: from prompts, pictures and given latents to every step and the frames.

var clipPipelineOps = map[string]Op{
	"pipelines.wan":        runClips,
	"pipelines.wan_i2v":    runClips,
	"pipelines.wan22_t2v":  runClips,
	"pipelines.wan22_i2v":  runClips,
	"pipelines.wan22_ti2v": runClips,
}

// A clipCase is one on its way through a pipeline.
type clipCase struct {
	*Case
	*pipeline.Pipeline
	at       pipeline.Shape
	schedule sde.Schedule
	guidance pipeline.Guidance
	texts    []*pipeline.Text
}

func runClips(c *Case) {
	be := must(c.open())
	defer be.Close()
	p := must(pipeline.Open(c.Dir(), pipeline.Options{Pool: tensor.NewPool(be), TextLength: c.Int("max_sequence_length")}))
	defer p.Close()
	s := clipCase{Case: c, Pipeline: p, guidance: pipeline.Guidance{Scale: c.Float("guidance_scale"), Second: numberOr(c, "guidance_scale_2", 0)}}
	s.at = must(p.ClipShape(c.Int("num_frames"), c.Int("height"), c.Int("width")))
	s.schedule = must(s.Schedule(s.Int("steps"), s.at))
	s.texts = must(s.Encode(s.String("prompt"), s.String("negative_prompt")))
	s.putTexts()
	s.ways(must(s.Rows(s.schedule, 0)))
}

// ways runs each of the ways that a case goes: one, or with and without a picture, or with UniPC besides.
func (s clipCase) ways(rows []sde.Row) {
	given := s.given()
	if s.Op == "pipelines.wan22_ti2v" {
		s.sample("t2v.", s.schedule, rows, nil)
		s.sample("i2v.", s.schedule, rows, given)
		return
	}
	s.sample("", s.schedule, rows, given)
	if !s.Has("scheduler_unipc") {
		return
	}
	said := s.Sub("scheduler_unipc")
	u, schedule := sde.UniPC{Order: said.Int("solver_order"), BH1: said.String("solver_type") == "bh1"}, sde.UniPCFP32(said.Float("flow_shift"), s.Int("steps"), false)
	rows = nil
	for i := range schedule.Steps() {
		rows = append(rows, u.Row(schedule, i))
	}
	s.sample("unipc.", schedule, rows, nil)
}

// image is a picture of the case's, nil where it has none.
func (s clipCase) image(name string) *vision.Image {
	if !s.Has(name) {
		return nil
	}
	m := bytesOf(s.Array(name))
	pixels := must(s.SightPixels(m))
	if pixels == nil {
		return m
	}
	side := s.Array("out.clip_pixels").Shape[3]
	seen := channelsFirst(Array{Shape: []int{1, side, side, 3}, Data: to[float64](pixels)})
	if before, ok := s.ran.out["out.clip_pixels"].(Array); ok {
		seen = Array{Shape: []int{2, 3, side, side}, Data: append(before.Data, seen.Data...)}
	}
	s.Put("out.clip_pixels", seen)
	return m
}

func (s clipCase) given() *pipeline.Given {
	first := s.image("in.image")
	if first == nil {
		return nil
	}
	g := must(s.Give(context.Background(), s.at, first, s.image("in.last_image")))
	if g.Tokens() != nil {
		s.Put("out.image_embeds", Array{Shape: s.Array("out.image_embeds").Shape, Data: to[float64](g.Tokens())})
	}
	return g
}

// sample goes one way; its outputs' names begin with tag.
func (s clipCase) sample(tag string, schedule sde.Schedule, rows []sde.Row, given *pipeline.Given) {
	start := framesFirst(s.Array("in.latents")).Data
	name := func(format string, args ...any) string { return "out." + tag + fmt.Sprintf(format, args...) }
	s.Put(name("sigmas"), schedule.Sigmas, name("timesteps"), schedule.Timesteps)
	now, experts := start, []int{}
	picture := pipeline.Picture{Text: s.texts[0], Negative: s.texts[1], Given: given, Start: start}
	tracks := must(s.Sample(context.Background(), []pipeline.Picture{picture}, pipeline.Sampler{
		At: s.at, Rows: rows, Times: schedule.Timesteps, Guidance: s.guidance,
		Watch: func(step, _ int, output, next []float64) {
			q := pipeline.Question{Latents: now, Time: schedule.Timesteps[step], Given: given}
			expert := 1 + s.Expert(q.Time)
			if !slices.Contains(experts, expert) {
				numbers, times := s.Reads(q, s.at)
				s.Put(name("model_input.%d", expert), s.clip(to[float64](numbers)))
				s.Put(name("model_timestep.%d", expert), s.times(times))
			}
			experts = append(experts, expert)
			s.Put(name("model_output.%d", step), s.clip(output), name("latents.%d", step+1), s.clip(next))
			now = next
		}}))
	s.Put(name("expert"), experts)
	final := tracks[0].Final
	s.putScaled(name("vae_in"), final)
	raw := must(s.Decode(final, s.at))
	frames := moveAxes(Array{Shape: []int{1, s.at.Frames, s.at.Height * s.at.Width, 3}, Data: to[float64](pipeline.Pixels(raw))}, 0, 1, 3, 2)
	frames.Shape = []int{1, s.at.Frames, 3, s.at.Height, s.at.Width}
	s.Put(name("image"), frames)
}

// putScaled records latents as the autoencoder has them.
func (s clipCase) putScaled(name string, latents []float64) {
	c := must(clips.ReadConfig(filepath.Join(s.Case.Dir(), "vae")))
	x := make([]float64, len(latents))
	for i, v := range latents {
		x[i] = v*float64(c.Deviation[i%c.Latent]) + float64(c.Mean[i%c.Latent])
	}
	s.Put(name, s.clip(x))
}

// clip is numbers of latents, and of channels beside them, as the case has them.
func (s clipCase) clip(x []float64) Array {
	shape := append([]int{1}, s.at.Latents...)
	shape[4] = len(x) / (s.at.Times * s.at.Rows * s.at.Cols)
	return channelsBeforeFrames(Array{Shape: shape, Data: x})
}

// times are one, or of each frame of latents, which the case has as one for each token.
func (s clipCase) times(x []float32) Array {
	if len(x) == 1 {
		return Array{Shape: []int{1}, Data: to[float64](x)}
	}
	all := Array{Shape: []int{1, s.at.Tokens}}
	for _, t := range x {
		all.Data = append(all.Data, slices.Repeat([]float64{float64(t)}, s.at.Tokens/len(x))...)
	}
	return all
}

// putTexts records what was read of the prompts; some cases have the first tokens alone.
func (s clipCase) putTexts() {
	beginning := func(name string, x []float64, each int) {
		if !s.Has(name) {
			return
		}
		shape := s.Array(name).Shape
		s.Put(name, Array{Shape: shape, Data: x[:shape[1]*each]})
	}
	for i, name := range []string{"out.prompt_embeds", "out.negative_prompt_embeds"} {
		beginning(name, to[float64](s.texts[i].States), s.texts[i].Width)
	}
	ids, mask := make([]float64, s.texts[0].Tokens), make([]float64, s.texts[0].Tokens)
	for i, id := range s.texts[0].IDs[0] {
		ids[i] = float64(id)
		if slices.ContainsFunc(s.texts[0].States[i*s.texts[0].Width:(i+1)*s.texts[0].Width], func(x float32) bool { return x != 0 }) {
			mask[i] = 1
		}
	}
	beginning("out.ids", ids, 1)
	beginning("out.mask", mask, 1)
}
