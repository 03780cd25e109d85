package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/rewards/preference"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/dino"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

var neuralOps = map[string]Op{
	// Rewards that networks compute, from pictures and prompts to scores and the gradients at
	// the prepared numbers (grad_pixel_values) and at the picture's own (grad_raw).
	"neural.aesthetic":          onDevice(neuralAesthetic),
	"neural.aesthetic_mlp_full": aestheticMLP,
	"neural.clip":               onDevice(neuralCLIP),
	"neural.dino":               onDevice(neuralDINO),
	"neural.geneval_color":      onDevice(genevalColor),
	"neural.hpsv2":              onDevice(neuralHPSv2),
	"neural.score_scales":       scoreScales,

	// Reward networks on Qwen2-VL: their questions, and their pictures.
	"qwen2vl.frame_indices":      preferenceFrames,
	"qwen2vl.hpsv3":              func(c *Case) { preferenceNetwork(c, false) },
	"qwen2vl.hpsv3_prompt":       preferencePicturePrompt,
	"qwen2vl.image_size":         preferenceSize,
	"qwen2vl.video_size":         preferenceSize,
	"qwen2vl.videoreward":        func(c *Case) { preferenceNetwork(c, true) },
	"qwen2vl.videoreward_prompt": preferenceVideoPrompt,
}

func onDevice(op func(ctx context.Context, c *Case, d *features.Device)) Op {
	return func(c *Case) {
		be := must(c.open())
		defer be.Close()
		op(context.Background(), c, features.On(tensor.NewPool(be), features.F32))
	}
}

// shown are a case's pictures, in each form.
type shown struct {
	pictures []*vision.Image
	raw      []vision.Pixels
	prepared []vision.Pixels
}

func show3(c *Case, t *features.Tower) (s shown) {
	for _, name := range c.Strings("images") {
		m := must(vision.Open(must(safetensors.Locate(c.Dir(), name)), vision.Limits{}))
		x := must(t.Prepare.Apply(nil, m, vision.ChannelsLast))
		s.pictures = append(s.pictures, m)
		s.raw = append(s.raw, vision.Pixels{Width: m.Width, Height: m.Height, RGB: vision.Floats(nil, m, vision.Unit, vision.ChannelsLast)})
		s.prepared = append(s.prepared, vision.Pixels{Width: t.Prepare.Size, Height: t.Prepare.Size, RGB: x})
	}
	c.Put("pixel_values", pixelArray(s.prepared))
	return s
}

// pixelArray is numbers of pictures as [B, 3, H, W].
func pixelArray(pictures []vision.Pixels) Array {
	if len(pictures) == 0 {
		return Array{}
	}
	a := Array{Shape: []int{len(pictures), pictures[0].Height, pictures[0].Width, 3}}
	for _, p := range pictures {
		a.Data = append(a.Data, to[float64](p.RGB)...)
	}
	return channelsFirst(a)
}

func gradArray(grads [][]float32, like []vision.Pixels) Array {
	var all []vision.Pixels
	for i, g := range grads {
		all = append(all, vision.Pixels{Width: like[i].Width, Height: like[i].Height, RGB: g})
	}
	return pixelArray(all)
}

// straight takes prepared numbers for pictures: without a pipeline before the tower.
type straight struct{ *features.Tower }

func (s straight) Pixels(ctx context.Context, pictures []vision.Pixels) ([][]float64, error) {
	return s.Vectors(ctx, numbers(pictures))
}

func (s straight) PullPixels(ctx context.Context, pictures []vision.Pixels, at features.At) ([][]float32, error) {
	return s.Pull(ctx, numbers(pictures), at)
}

func numbers(pictures []vision.Pixels) (x [][]float32) {
	for _, p := range pictures {
		x = append(x, p.RGB)
	}
	return x
}

// straightTowers are towers for prepared numbers.
type straightTowers struct {
	*clip.Towers
	straight
}

func (s straightTowers) Images(ctx context.Context, m []*vision.Image) ([][]float64, error) {
	return s.straight.Images(ctx, m)
}

func (s straightTowers) Pixels(ctx context.Context, p []vision.Pixels) ([][]float64, error) {
	return s.straight.Pixels(ctx, p)
}

func (s straightTowers) PullPixels(ctx context.Context, p []vision.Pixels, at features.At) ([][]float32, error) {
	return s.straight.PullPixels(ctx, p, at)
}

// Heads on pictures' vectors, and the scales of published scores.

func neuralAesthetic(ctx context.Context, c *Case, d *features.Device) {
	t := must(clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2, NoTexts: true}))
	defer t.Close()
	head := must(neural.OpenHead(c.Dir()))
	s := show3(c, &t.Tower)
	images := must(t.Images(ctx, s.pictures))
	c.Put("image_embeds", table(images), "image_embeds_unit", table(units(images)))
	scores := must(neural.Aesthetic{Pictures: t, Head: head}.Images(ctx, s.pictures))
	_, g := must2(neural.Aesthetic{Pictures: straight{&t.Tower}, Head: head}.Gradient(ctx, s.prepared))
	c.Put("grad_pixel_values", gradArray(g, s.prepared))
	soft, g := must2(neural.Aesthetic{Pictures: t, Head: head}.Gradient(ctx, s.raw))
	c.Put("grad_raw", gradArray(g, s.raw), "scores", map[string]any{"aesthetic": scores, "aesthetic_soft_path": soft})
}

// byRule are numbers that any program can make again.
func byRule(rows, cols, fan int, salt uint64) []float64 {
	x := make([]float64, rows*cols)
	for i := range x {
		u := float64((uint64(i)*2654435761+salt*40503)&0xffffffff) / (1 << 32)
		x[i] = (u - 0.5) * (2 / math.Sqrt(float64(fan)))
	}
	return x
}

// aestheticMLP is the published head with weights by rule.
func aestheticMLP(c *Case) {
	salt, rows := uint64(c.Int("salt")), c.Int("rows")
	if rows < 1 || rows > 1<<12 {
		failf("%d rows", rows)
	}
	var layers []neural.Dense
	var names []string
	var shapes [][]int
	for _, l := range neural.PublishedHead {
		k := salt + uint64(len(names))
		layers = append(layers, neural.Dense{In: l.In, Out: l.Out, Weight: byRule(l.Out, l.In, l.In, k), Bias: byRule(1, l.Out, 1, k+1)})
		names = append(names, fmt.Sprintf("layers.%d.weight", l.Number), fmt.Sprintf("layers.%d.bias", l.Number))
		shapes = append(shapes, []int{l.Out, l.In}, []int{l.Out})
	}
	head := must(neural.NewHead(layers...))
	width := layers[0].In
	var scores, norms, first []float64
	for x := byRule(rows, width, width, salt+99); len(x) > 0; x = x[width:] {
		value, g := must2(head.Pull(x[:width]))
		sum := 0.0
		for _, v := range g {
			sum += v * v
		}
		scores, norms, first = append(scores, value), append(norms, math.Sqrt(sum)), append(first, g[:8]...)
	}
	c.Put("names", names, "shapes", shapes, "score", scores, "grad_norm", norms)
	c.Put("grad_first_8", Array{[]int{rows, 8}, first})
}

func scoreScales(c *Case) {
	scale := c.Float("logit_scale")
	for output, name := range map[string]string{"pickscore": "logit", "pickscore_flow_grpo": "pickscore_flow_grpo", "pickscore_mixgrpo": "pickscore_mixgrpo",
		"clipscore_hessel": "clipscore_hessel", "clipscore_torchmetrics": "clipscore_torchmetrics"} {
		scores := each(c.Floats("cosine"), func(x float64) neural.Matched { return neural.Matched{Cosine: x} })
		c.Put(output, rescaled(scores, scale, name))
	}
	var raw []float64 // as vision/blip scales them
	for _, x := range c.Floats("imagereward_raw") {
		raw = append(raw, (x-0.16717362830052426)/1.0333394966054072)
	}
	c.Put("imagereward", raw)
}

// Towers of both: CLIP score, PickScore and HPSv2.

// matched computes the common part of CLIP's rewards: vectors, gradients, and the scores of both paths.
func matched(ctx context.Context, c *Case, t *clip.Towers, s shown, put func(images, texts [][]float64)) (scores []neural.Matched, soft []float64) {
	prompts := c.Strings("prompts")
	put(must(t.Images(ctx, s.pictures)), must(t.Texts(ctx, prompts)))
	cosine := must(neural.ScalingNamed("cosine"))
	m := neural.Match{Towers: t, Scaling: cosine}
	scores = must(m.Images(ctx, prompts, s.pictures))
	_, g := must2(neural.Match{Towers: straightTowers{t, straight{&t.Tower}}, Scaling: cosine}.Gradient(ctx, prompts, s.prepared))
	c.Put("grad_pixel_values", gradArray(g, s.prepared))
	soft, g = must2(m.Gradient(ctx, prompts, s.raw))
	c.Put("grad_raw", gradArray(g, s.raw))
	return scores, soft
}

// tokens puts texts' tokens, and which of them are texts', padded with a token.
func putTokens(c *Case, t *clip.Towers, ids, mask string, texts []string, length int, pad func(row []int32) int32) {
	rows := make([][]int32, len(texts))
	for i, s := range texts {
		rows[i], _, _ = t.IDs(s) // texts of cases can be encoded; another one has no ids to agree with
		length = max(length, len(rows[i]))
	}
	a, m := Array{Shape: []int{len(rows), length}}, Array{Shape: []int{len(rows), length}}
	for _, r := range rows {
		for i := range length {
			if i < len(r) {
				a.Data, m.Data = append(a.Data, float64(r[i])), append(m.Data, 1)
			} else {
				a.Data, m.Data = append(a.Data, float64(pad(r))), append(m.Data, 0)
			}
		}
	}
	c.Put(ids, a, mask, m)
}

func lastToken(row []int32) int32 { return row[len(row)-1] }
func zeroToken([]int32) int32     { return 0 }

func neuralCLIP(ctx context.Context, c *Case, d *features.Device) {
	t := must(clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2}))
	defer t.Close()
	prompts := c.Strings("prompts")
	putTokens(c, t, "input_ids", "attention_mask", prompts, 0, lastToken)
	if c.Has("long_prompt") && len(prompts) > 0 {
		long := []string{c.String("long_prompt"), prompts[0]}
		putTokens(c, t, "long_ids", "long_mask", long, 0, lastToken)
		c.Put("long_text_embeds", table(must(t.Texts(ctx, long))))
	}
	s := show3(c, &t.Tower)
	scores, soft := matched(ctx, c, t, s, func(images, texts [][]float64) {
		c.Put("image_embeds", table(images), "text_embeds", table(texts))
	})
	softPixels(c, &t.Tower, s.raw)
	out := map[string]any{"cosine_soft_path": soft, "logit_scale": t.Scale()}
	for name, scaling := range map[string]string{"cosine": "cosine", "clip_flow_factory": "cosine", "pickscore_flow_grpo": "pickscore_flow_grpo", "pickscore_mixgrpo": "pickscore_mixgrpo", "pickscore_pref_grpo": "pickscore_pref_grpo"} {
		out[name] = rescaled(scores, t.Scale(), scaling)
	}
	out["logits_per_text"], out["choice_probability"] = choices(ctx, t, prompts, s.pictures)
	c.Put("scores", out)
}

func softPixels(c *Case, t *features.Tower, raw []vision.Pixels) {
	var out []vision.Pixels
	for _, p := range raw {
		soft := must(t.Soft.Soft(p.Width, p.Height))
		out = append(out, vision.Pixels{Width: soft.Size, Height: soft.Size, RGB: must(soft.Forward(p))})
	}
	c.Put("soft_pixel_values", pixelArray(out))
}

func rescaled(scores []neural.Matched, scale float64, name string) (out []float64) {
	s := must(neural.ScalingNamed(name))
	for _, m := range scores {
		v, _ := s.Of(m.Cosine, scale)
		out = append(out, v)
	}
	return out
}

// choices compares every prompt with all pictures.
func choices(ctx context.Context, t *clip.Towers, prompts []string, pictures []*vision.Image) (logits, chosen Array) {
	m := neural.Match{Towers: t, Scaling: must(neural.ScalingNamed("logit"))}
	logits.Shape = []int{len(prompts), len(pictures)}
	chosen.Shape = logits.Shape
	for _, p := range prompts {
		scores := must(m.Images(ctx, times(len(pictures), func(i int) string { return p }), pictures))
		row := each(scores, func(s neural.Matched) float64 { return s.Value })
		shares, _ := softmax(row) // how probable it is that people choose each (PickScore)
		logits.Data, chosen.Data = append(logits.Data, row...), append(chosen.Data, shares...)
	}
	return logits, chosen
}

func neuralHPSv2(ctx context.Context, c *Case, d *features.Device) {
	t := must(clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2, Prepare: vision.HPSv2}))
	defer t.Close()
	putTokens(c, t, "input_ids", "input_mask", c.Strings("prompts"), t.Length(), zeroToken)
	scores, soft := matched(ctx, c, t, show3(c, &t.Tower), func(images, texts [][]float64) {
		c.Put("image_features", table(units(images)), "text_features", table(units(texts)))
	})
	c.Put("scores", map[string]any{"hps": rescaled(scores, t.Scale(), "cosine"), "hps_soft_path": soft})
}

// units are rows of length 1.
func units(rows [][]float64) [][]float64 {
	unit, _ := clip.Units(rows)
	return unit
}

// GenEval's classifier of colours.

func genevalColor(ctx context.Context, c *Case, d *features.Device) {
	t := must(clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2, Prepare: vision.OpenCLIP}))
	defer t.Close()
	pictures := show3(c, &t.Tower)
	if len(pictures.pictures) != 1 {
		failf("%d pictures: one was expected", len(pictures.pictures))
	}
	m := pictures.pictures[0]
	objects := objectsOf(c, m)
	colors := neural.Colors{Towers: t, Background: c.String("background")}
	crops := must(colors.Crops(m, objects))
	var seen []vision.Pixels
	var sizes [][]int
	for _, crop := range crops {
		x := must(t.Prepare.Apply(nil, crop, vision.ChannelsLast))
		seen = append(seen, vision.Pixels{Width: t.Prepare.Size, Height: t.Prepare.Size, RGB: x})
		sizes = append(sizes, []int{crop.Width, crop.Height})
	}
	c.Put("pixel_values", pixelArray(seen))
	classes := must(colors.Classifier(ctx, c.String("classname")))
	flipped := Array{Shape: []int{len(classes[0]), len(classes)}}
	for i := range classes[0] {
		for _, v := range classes {
			flipped.Data = append(flipped.Data, v[i])
		}
	}
	c.Put("classifier", flipped)
	answers := must(colors.Of(ctx, m, c.String("classname"), objects))
	var names []string
	var logits [][]float64
	for _, a := range answers {
		names, logits = append(names, a.Name), append(logits, a.Logits)
	}
	c.Put("logits", table(logits), "scores", map[string]any{"colors": names, "crop_sizes": sizes})
}

// objectsOf reads a case's boxes and the files of its masks.
func objectsOf(c *Case, m *vision.Image) []neural.Object {
	boxes := c.Array("boxes")
	masks, ok := c.Raw("masks").([]any)
	if len(boxes.Shape) != 2 || boxes.Shape[1] < 4 || !ok || len(masks) != boxes.Shape[0] || len(masks) == 0 {
		failf("boxes %v and %d masks", boxes.Shape, len(masks))
	}
	var objects []neural.Object
	for i, mask := range masks {
		o := neural.Object{Box: [4]float64(boxes.Data[i*boxes.Shape[1]:])}
		if name, ok := mask.(string); ok {
			drawn := must(vision.Open(must(safetensors.Locate(c.Dir(), name)), vision.Limits{}))
			if drawn.Width != m.Width || drawn.Height != m.Height {
				failf("%s has another size than the picture", name)
			}
			o.Mask = make([]bool, len(drawn.Pix)/3)
			for at := range o.Mask {
				o.Mask[at] = drawn.Pix[3*at] > 0
			}
		}
		objects = append(objects, o)
	}
	return objects
}

// How alike pictures are.

func neuralDINO(ctx context.Context, c *Case, d *features.Device) {
	t := must(dino.Open(c.Dir(), dino.Options{Device: d, Batch: 3}))
	defer t.Close()
	s := show3(c, &t.Tower)
	vectors := must(t.Images(ctx, s.pictures))
	c.Put("embeds", table(vectors))
	pairs := Array{Shape: []int{len(vectors), len(vectors)}}
	for _, x := range vectors {
		for _, y := range vectors {
			pairs.Data = append(pairs.Data, must(neural.Cosine(x, y)))
		}
	}
	mean, _ := must2(neural.Likeness{Pictures: t}.Consistency(ctx, s.pictures))
	c.Put("scores", map[string]any{"pair_cosine": pairs, "subject_consistency": mean})
	pairGradient(ctx, c, t, s)
}

// pairGradient is that of the cosine of the first two pictures: the derivative for each with the other held still.
func pairGradient(ctx context.Context, c *Case, t *dino.Tower, s shown) {
	if len(s.prepared) < 2 {
		return
	}
	grads := times(len(s.prepared), func(i int) []float32 { return make([]float32, len(s.prepared[i].RGB)) })
	two := []vision.Pixels{s.prepared[0], s.prepared[1]}
	_, g := must2(neural.Likeness{Pictures: straight{&t.Tower}}.Gradient(ctx, two, []*vision.Image{s.pictures[1], s.pictures[0]}))
	copy(grads, g)
	c.Put("grad_pixel_values", gradArray(grads, s.prepared))
}

func preferenceFrames(c *Case) {
	e := c.Sub("ele")
	r := preference.Reading{FPS: numberOr(e, "fps", 0), Count: int(numberOr(e, "nframes", 0)), Least: int(numberOr(e, "min_frames", 0)), Most: int(numberOr(e, "max_frames", 0)),
		MultiPoints: e.String("sample_type") == "multi_pts"}
	frames, err := r.Of(c.Int("total_frames"), c.Float("video_fps"))
	if err != nil {
		c.Put("error", "ValueError")
		return
	}
	c.Put("indices", frames)
}

func preferencePicturePrompt(c *Case) {
	text := preference.PlainPicturePrompt()
	if c.Bool("use_special_tokens") {
		text = preference.PicturePrompt(c.String("prompt"))
	}
	c.Put("text", text)
}

func preferenceSize(c *Case) {
	p := vlm.Pixels{Min: int(numberOr(c, "min_pixels", 0)), Max: int(numberOr(c, "max_pixels", 0))}
	if c.Has("pixels") {
		p = vlm.Pixels{Min: c.Int("pixels"), Max: c.Int("pixels")}
	}
	w, h := must2(p.MostFirst(c.Int("width"), c.Int("height"), 28))
	c.Put("height", h, "width", w, "tokens", h/28*(w/28))
}

func preferenceVideoPrompt(c *Case) {
	dimensions := []string{"Overall"}
	if _, ok := c.Raw("dimension").(string); !ok {
		dimensions = c.Strings("dimension")
	}
	c.Put("text", must(preference.VideoPrompt(c.String("template"), c.String("prompt"), dimensions...)))
}

// A preferenceCase is a network's on its way: texts, pictures or clips, scores, gradients.
type preferenceCase struct {
	*network
	tokens *tokenizer.Tokenizer
	marks  vlm.Marks
	cut    *vlm.Processor
	clips  bool
	values []*autograd.Value // patches of each row
	rows   []*autograd.Value // scores of each row
	ids    [][]int32
	grids  []vlm.Grid
	soft   []preference.Soft // of pictures whose own gradient was recorded
}

func preferenceNetwork(c *Case, clips bool) {
	opened := how{forwardOnly: true}
	published, err := preference.OpenPublished(c.Dir())
	switch {
	case err == nil:
		defer published.Close()
		opened.source, opened.frozen = published, true
	case !errors.Is(err, fs.ErrNotExist):
		check(err)
	}
	file := filepath.Join(c.Dir(), map[bool]string{true: "model.safetensors", false: "HPSv3.safetensors"}[clips])
	config := must(vlm.ReadConfig(c.Dir()))
	runFolder(c, file, opened, func(n *network) {
		config = must(preference.Fitted(config, n.source))
		s := &preferenceCase{network: n, clips: clips}
		net, special := preference.NewPicture, preference.PictureTokens
		if clips {
			special = preference.VideoTokens
			net = func(p *nn.Params, c vlm.Config) *preference.Network { return preference.NewVideo(p, c, len(special)) }
		}
		network := net(n.params, config)
		check(n.params.Check())
		if published != nil {
			must(published.Adapt(n.params))
		}
		s.tokens = must(tokenizer.Open(c.Dir()))
		s.marks = must(vlm.MarksOf(s.tokens))
		s.cut = must(vlm.OpenProcessor(c.Dir()))
		for i, prompt := range c.Strings("prompts") {
			s.row(network, i, prompt, special)
		}
		s.put()
	})
}

// row asks about one picture or clip.
func (s *preferenceCase) row(net *preference.Network, i int, prompt string, special []string) {
	text, kind := preference.PicturePrompt(prompt), "image"
	patches := s.patches(i)
	if s.clips {
		kind = "video"
		text = must(preference.VideoPrompt(s.Sub("data_config").String("prompt_template_type"), prompt))
	}
	quoted := must(json.Marshal(text))
	messages := must(vlm.ReadMessages(`[{"role": "user", "content": [{"type": "` + kind + `"}, {"type": "text", "text": ` + string(quoted) + `}]}]`))
	text = must(must(vlm.TemplateNamed("qwen2_5_vl")).Render(messages, vlm.Rendering{Generate: true}))
	ids, added := must2(preference.IDs(s.tokens, text, special))
	width := len(patches.Values) / patches.Grids[0].Patches()
	memory := s.tape.Pool().FromF32(kernels.F32, patches.Values, patches.Grids[0].Patches(), width)
	defer memory.Free()
	value := s.tape.Variable(memory)
	q := vlm.Stretch{Pictures: patches}
	onTape := [2]*autograd.Value{value, nil}
	if s.clips {
		q, onTape = vlm.Stretch{Clips: patches}, [2]*autograd.Value{nil, value}
	}
	q.IDs, _ = must2(s.marks.Expand(ids, q.Pictures.Grids, q.Clips.Grids, s.cut.Merge))
	scores := must(net.Scores(s.tape, q, added, onTape[0], onTape[1]))
	s.values, s.rows, s.ids, s.grids = append(s.values, value), append(s.rows, scores), append(s.ids, q.IDs), append(s.grids, patches.Grids...)
}

// patches are a row's picture or clip, resized as upstream does before its processor.
func (s *preferenceCase) patches(i int) vlm.Patches {
	if !s.clips {
		r := rasterInput(s.Case, fmt.Sprintf("image.%d", i))
		soft := must(preference.SoftOf(s.cut, r.Width, r.Height))
		if s.Has(fmt.Sprintf("grad.image.%d", i)) { // the differentiable way
			s.soft = append(s.soft, soft)
			return soft.Patches(to[float32](rasterArray(r).Data))
		}
		w, h := soft.Width, soft.Height
		m := must(r.RGB().Resize(w, h, vision.Bicubic))
		s.Put(fmt.Sprintf("resized.%d", i), rasterArray(m.Raster()))
		return must(s.cut.Apply(m.Raster()))
	}
	clip, data := s.Array(fmt.Sprintf("clip.%d", i)), s.Sub("data_config")
	read := preference.Reading{FPS: numberOr(data, "fps", 0), Count: int(numberOr(data, "num_frames", 0)), MultiPoints: data.String("sample_type") == "multi_pts"}
	places := must(read.Of(clip.Shape[0], s.Floats("clip_fps")[i]))
	w, h := must2(vlm.Pixels{Min: 100352, Max: data.Int("max_frame_pixels")}.MostFirst(clip.Shape[2], clip.Shape[1], 28))
	var frames []*vision.Raster
	resized := Array{Shape: []int{len(places), 3, h, w}}
	for _, k := range places {
		r := vision.NewRaster(clip.Shape[2], clip.Shape[1], 3)
		for j, v := range clip.Data[k*len(r.Pix) : (k+1)*len(r.Pix)] {
			r.Pix[j] = uint8(v)
		}
		m := preference.Frame(r.RGB(), w, h)
		frames = append(frames, m.Raster())
		resized.Data = append(resized.Data, channelsFirst(Array{Shape: []int{1, h, w, 3}, Data: rasterArray(m.Raster()).Data}).Data...)
	}
	s.Put(fmt.Sprintf("resized.%d", i), resized)
	return must(s.cut.Clip(vlm.ClipPixels{Rule: vlm.Qwen2Frames, Pixels: vlm.Pixels{Max: 1 << 30}}, frames...))
}

// put records inputs and scores, and goes back from the cotangent.
func (s *preferenceCase) put() {
	longest := 0
	for _, ids := range s.ids {
		longest = max(longest, len(ids))
	}
	pad, _ := s.tokens.Role("pad_token")
	var ids, mask, scores []float64
	var seeds []autograd.Seed
	cotangent := samples(s.Array("cotangent"))
	for i, row := range s.ids {
		for k := range longest {
			id, real := float64(pad), 0.0
			if k < len(row) {
				id, real = float64(row[k]), 1
			}
			ids, mask = append(ids, id), append(mask, real)
		}
		scores = append(scores, to[float64](s.rows[i].F32())...)
		seeds = append(seeds, autograd.Seed{Of: s.rows[i], Grad: to[float32](cotangent[i])})
	}
	s.Put("input_ids", Array{[]int{len(s.ids), longest}, ids})
	s.Put("attention_mask", Array{[]int{len(s.ids), longest}, mask})
	s.Put("scores", Array{[]int{len(s.ids), len(scores) / len(s.ids)}, scores}, "image_grid_thw", gridRows(s.grids))
	s.Put("video_grid_thw", gridRows(s.grids))
	s.tape.Backward(seeds...)
	var values, grads []float64
	width := s.values[0].Dim(1)
	for _, v := range s.values {
		values, grads = append(values, to[float64](v.F32())...), append(grads, to[float64](v.Grad().F32())...)
	}
	for name, x := range map[string][]float64{"pixel_values": values, "grad.pixel_values": grads} {
		some := Array{Shape: []int{0, width}}
		for i := 0; i < len(x); i += 37 * width {
			some.Data, some.Shape[0] = append(some.Data, x[i:i+width]...), some.Shape[0]+1
		}
		s.Put(name+"_rows", some, name+"_videos", Array{[]int{len(x) / width, width}, x})
	}
	for i, soft := range s.soft {
		g := soft.Back(s.values[i].Grad().F32())
		a := moveAxes(Array{Shape: []int{1, soft.FromHeight, soft.FromWidth, 3}, Data: to[float64](g)}, 0, 3, 1, 2)
		s.Put(fmt.Sprintf("grad.image.%d", i), Array{Shape: a.Shape[1:], Data: a.Data})
	}
	for name := range s.want {
		weight, ok := strings.CutPrefix(name, "grad.")
		if !ok || strings.HasPrefix(weight, "pixel_values") || strings.HasPrefix(weight, "image.") {
			continue
		}
		s.putGrad(name, strings.Replace(weight, ".default", "", 1))
	}
}
