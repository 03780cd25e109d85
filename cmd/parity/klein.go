package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// FLUX.2-klein: the same prompt and noise, of text alone and of pictures.

func runKlein(c *Case) {
	be := must(c.open())
	defer be.Close()
	p := must(pipeline.Open(c.Dir(), pipeline.Options{Pool: tensor.NewPool(be), TextLength: c.Int("max_sequence_length"), TextLayers: c.Ints("layers")}))
	defer p.Close()
	s := sampled{Case: c, Pipeline: p, packed: true}
	s.at = must(p.Shape(c.Int("height"), c.Int("width")))
	texts := must(s.Encode(s.String("prompt"), ""))
	s.Put("out.prompt_embeds", s.states(texts[0]), "out.empty_prompt_embeds", s.states(texts[1]))
	s.Put("out.ids", [][]int{to[int](texts[0].IDs[0])})
	padding, _ := must(tokenizer.Open(filepath.Join(c.Dir(), "tokenizer"))).ID("<|endoftext|>")
	mask, words := make([]int, texts[0].Tokens), [][]int{}
	for i, id := range texts[0].IDs[0] {
		words = append(words, []int{0, 0, 0, i})
		if id != padding {
			mask[i] = 1
		}
	}
	s.Put("out.mask", [][]int{mask}, "out.txt_ids", [][][]int{words})
	s.way("t2i.", texts)
	var pictures []*vision.Image
	for i := range c.Int("pictures") {
		pictures = append(pictures, bytesOf(s.Array(fmt.Sprintf("in.image.%d", i))))
	}
	s.given = must(s.Source(context.Background(), pictures...))
	latents, _ := s.given.Sources()
	width := s.at.Latents[1]
	s.Put("out.image_latents", Array{Shape: []int{1, len(latents) / width, width}, Data: to[float64](latents)})
	s.way("edit.", texts)
}

// way samples with what is given, and records it under a tag.
func (s sampled) way(tag string, texts []*pipeline.Text) {
	shapes := [][2]int{{s.at.Rows / 2, s.at.Cols / 2}}
	if s.given != nil {
		_, grids := s.given.Sources()
		shapes = append(shapes, grids...)
	}
	var places [][]int
	for i, one := range shapes {
		for y := range one[0] {
			for x := range one[1] {
				places = append(places, []int{10 * i, y, x, 0})
			}
		}
	}
	s.Put("out."+tag+"img_ids", [][][]int{places})
	schedule := must(s.Schedule(s.Int("steps"), s.at))
	rows := must(s.Rows(schedule, 0))
	s.Put("out.sigmas", schedule.Sigmas, "out.timesteps", schedule.Timesteps)
	// The case's latents are packed numbers in rows and columns: channels of a patch first.
	start := channelsLast(s.Array("in.latents")).Data
	back := func(x []float64) Array { return Array{Shape: append([]int{1}, s.at.Latents...), Data: x} }
	tracks := must(s.Sample(context.Background(), []pipeline.Picture{{Text: texts[0], Negative: texts[1], Given: s.given, Start: start}}, pipeline.Sampler{
		At: s.at, Rows: rows, Times: schedule.Timesteps, Guidance: pipeline.Guidance{Scale: s.Float("guidance_scale")},
		Watch: func(step, _ int, output, next []float64) {
			s.Put(fmt.Sprintf("out.%smodel_output.%d", tag, step), back(output))
			s.Put(fmt.Sprintf("out.%slatents.%d", tag, step+1), back(next))
		}}))
	s.Put("out."+tag+"image", s.picture(pipeline.Pixels(must(s.Decode(tracks[0].Final, s.at)))))
}
