package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/sde"
	clips "github.com/darkroom-rl/darkroom/video/vae"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

var pipelineOps = map[string]Op{
	// Whole pipelines: from prompts and given latents to every step and the picture.
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

	// Whole pipelines of clips: from prompts, pictures and given latents to every step and the frames.
	"pipelines.wan":        runClips,
	"pipelines.wan_i2v":    runClips,
	"pipelines.wan22_t2v":  runClips,
	"pipelines.wan22_i2v":  runClips,
	"pipelines.wan22_ti2v": runClips,
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
	if s.Op == "pipelines.z_image" { // its scale is of the difference added to the conditional output
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

// putTexts records the inputs of the prompts.
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

// Pictures that edits begin with.

// sourceAreas are the areas that a case's pictures were resized to.
func sourceAreas(c *Case, o pipeline.Options) pipeline.Options {
	o.SourceArea, o.SightArea = int(numberOr(c, "area", 0)), int(numberOr(c, "condition_area", 0))
	if c.Has("auto_resize") && !c.Bool("auto_resize") {
		o.SourceArea = pipeline.AsIs
	}
	return o
}

// readSources prepares the case's pictures, and records the results.
func (s *sampled) readSources() {
	var pictures []*vision.Image
	for _, name := range []string{"in.image", "in.image.0", "in.image.1", "in.image.2"} {
		if s.Has(name) {
			pictures = append(pictures, bytesOf(s.Array(name)))
		}
	}

	s.given = must(s.Source(context.Background(), pictures...))
	tokens, grids := s.given.Sources()
	width := s.at.Latents[1]
	s.Put("out.image_latents", Array{Shape: []int{1, len(tokens) / width, width}, Data: to[float64](tokens)})
	shapes := [][]int{{1, s.at.Rows / 2, s.at.Cols / 2}}
	for _, g := range grids {
		shapes = append(shapes, []int{1, g[0], g[1]})
	}
	s.Put("out.img_shapes", shapes)
	var places [][]int
	for i, one := range shapes {
		for y := range one[1] {
			for x := range one[2] {
				places = append(places, []int{i, y, x})
			}
		}
	}
	s.Put("out.img_ids", places)
	if patches, seen := s.given.Seen(); len(seen) > 0 {
		n, rows := 0, [][]int{}
		for _, g := range seen {
			n, rows = n+g[0]*g[1]*g[2], append(rows, g[:])
		}
		s.Put("out.image_grid_thw", rows)
		s.Put("out.pixel_values", Array{Shape: []int{n, len(patches) / n}, Data: to[float64](patches)})
	}
	s.sizes()
}

// sizes are the resized sizes of pictures of the case's widths and heights, by upstream's rules.
func (s *sampled) sizes() {
	if !s.Has("in.sizes") {
		return
	}
	var nearest, both [][]int
	for sizes := s.Ints("in.sizes"); len(sizes) > 1; sizes = sizes[2:] {
		w, h := pipeline.KontextSize(sizes[0], sizes[1])
		nearest = append(nearest, []int{w, h})
		w, h = pipeline.EditSize(1024*1024)(sizes[0], sizes[1])
		seenW, seenH := pipeline.EditSize(384*384)(sizes[0], sizes[1])
		both = append(both, []int{w, h, seenW, seenH})
	}
	s.Put("out.auto_resize", nearest, "out.dimensions", both)
}

// bytesOf is a picture of whole numbers from 0 to 255.
func bytesOf(a Array) *vision.Image {
	m := vision.New(a.Shape[1], a.Shape[0])
	if len(a.Data) != len(m.Pix) {
		panic(fmt.Sprintf("a picture of %v", a.Shape))
	}
	for i, v := range a.Data {
		m.Pix[i] = uint8(v)
	}
	return m
}

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

// way samples with given inputs, and records the result under a tag.
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
			q := pipeline.Point{Latents: now, Time: schedule.Timesteps[step], Given: given}
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

// putTexts records the inputs of the prompts; some cases have the first tokens alone.
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
