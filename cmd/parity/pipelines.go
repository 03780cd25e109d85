package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Whole pipelines: from prompts and given latents to every step and the picture.

var pipelineOps = map[string]Op{
	"pipelines.flux": runPipeline,
	"pipelines.sd15": runPipeline,
	"pipelines.sd3":  runPipeline,
	"pipelines.sdxl": runPipeline,

	"pipelines.flux_kontext":         runPipeline,
	"pipelines.qwen_image":           runPipeline,
	"pipelines.z_image":              runPipeline,
	"pipelines.flux2_klein":          runKlein,
	"pipelines.qwen_image_edit":      runPipeline,
	"pipelines.qwen_image_edit_plus": runPipeline,
}

// A sampled case is one on its way through a pipeline.
type sampled struct {
	*Case
	*pipeline.Pipeline
	at     pipeline.Shape
	packed bool
	given  *pipeline.Given // pictures that an edit begins with
}

func runPipeline(c *Case) {
	be := must(c.open())
	defer be.Close()
	p := must(pipeline.Open(c.Dir(), sourceAreas(c, pipeline.Options{Pool: tensor.NewPool(be), TextLength: int(numberOr(c, "max_sequence_length", 0))})))
	defer p.Close()
	s := sampled{Case: c, Pipeline: p, packed: c.Op == "pipelines.flux" || c.Op == "pipelines.flux_kontext" || strings.HasPrefix(c.Op, "pipelines.qwen_image")}
	s.at = must(p.Shape(c.Int("height"), c.Int("width")))
	if most, _ := p.Edits(); most > 0 {
		s.readSources()
	}
	s.run()
}

func (s sampled) run() {
	schedule := must(s.Schedule(s.Int("steps"), s.at))
	rows := must(s.Rows(schedule, numberOr(s.Case, "eta", 0)))
	if s.Flow() {
		s.Put("out.sigmas", schedule.Sigmas)
	} else if shares, err := s.Shares(); err == nil {
		s.Put("out.alphas_cumprod", shares)
	}
	s.Put("out.timesteps", schedule.Timesteps)
	texts := must(s.EncodeWith(s.given, s.String("prompt"), text(s.Case, "negative_prompt", "")))
	s.putTexts(texts[0], texts[1])
	guidance := pipeline.Guidance{Scale: numberOr(s.Case, "true_cfg_scale", 1), Norm: s.Defaults().Norm}
	switch {
	case s.Defaults().Embedded:
		guidance.Embedded = s.Float("guidance_scale")
	case s.Has("guidance_scale"):
		guidance.Scale = s.Float("guidance_scale")
	}
	if s.Op == "pipelines.z_image" { // its scale is of what is added to the conditional output
		guidance.Scale, guidance.Until, guidance.Most = 1+guidance.Scale, s.Float("cfg_truncation"), s.Float("cfg_normalization")
	}
	start := s.Floats("in.latents")
	if !s.packed {
		start = channelsLast(s.Array("in.latents")).Data
	}
	tracks := must(s.Sample(context.Background(), []pipeline.Picture{{Text: texts[0], Negative: texts[1], Given: s.given, Start: start}}, pipeline.Sampler{
		At: s.at, Rows: rows, Times: schedule.Timesteps, Guidance: guidance,
		Watch: func(step, _ int, output, next []float64) {
			s.Put(fmt.Sprintf("out.model_output.%d", step), s.latents(output))
			s.Put(fmt.Sprintf("out.latents.%d", step+1), s.latents(next))
		}}))
	if s.packed {
		c := s.at.Latents[1] / 4
		s.Put("out.unpacked", Array{Shape: []int{1, c, s.at.Rows, s.at.Cols}, Data: diffusion.Unpack(tracks[0].Final, c, s.at.Rows, s.at.Cols)})
	}
	raw := must(s.Decode(tracks[0].Final, s.at))
	s.Put("out.vae_out", s.picture(raw), "out.image", s.picture(pipeline.Pixels(raw)))
}

// putTexts records what was read of the prompts.
func (s sampled) putTexts(prompt, negative *pipeline.Text) {
	for i, ids := range prompt.IDs {
		name := fmt.Sprintf("out.ids_%d", i+1)
		if len(prompt.IDs) == 1 {
			name = "out.ids"
		}
		s.Put(name, [][]int{to[int](ids)})
	}
	s.Put("out.prompt_embeds", s.states(prompt), "out.negative_prompt_embeds", s.states(negative))
	if prompt.Pooled != nil {
		s.Put("out.pooled", pooled(prompt), "out.negative_pooled", pooled(negative))
	}
}

func (s sampled) states(t *pipeline.Text) Array {
	if s.Op == "pipelines.z_image" {
		return Array{Shape: []int{t.Tokens, t.Width}, Data: to[float64](t.States)}
	}
	return Array{Shape: []int{1, t.Tokens, t.Width}, Data: to[float64](t.States)}
}

func pooled(t *pipeline.Text) Array {
	return Array{Shape: []int{1, len(t.Pooled)}, Data: to[float64](t.Pooled)}
}

// latents are one sample's as the case has them.
func (s sampled) latents(x []float64) Array {
	return channelsFirst(Array{Shape: append([]int{1}, s.at.Latents...), Data: x})
}

// picture is one picture as the case has it.
func (s sampled) picture(x []float32) Array {
	return channelsFirst(Array{Shape: []int{1, s.at.Height, s.at.Width, 3}, Data: to[float64](x)})
}
