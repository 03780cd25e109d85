package parity

import (
	"context"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/dino"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Rewards that networks compute, from pictures and prompts to scores and the gradients at
// the prepared numbers (grad_pixel_values) and at the picture's own (grad_raw).

var neuralOps = map[string]Op{
	"neural.aesthetic":          onDevice(neuralAesthetic),
	"neural.aesthetic_mlp_full": aestheticMLP,
	"neural.clip":               onDevice(neuralCLIP),
	"neural.dino":               onDevice(neuralDINO),
	"neural.geneval_color":      onDevice(genevalColor),
	"neural.hpsv2":              onDevice(neuralHPSv2),
	"neural.score_scales":       scoreScales,
}

func onDevice(op func(ctx context.Context, c *Case, d *features.Device) error) Op {
	return func(c *Case) error {
		be, err := cpu.New()
		if err != nil {
			return err
		}
		defer be.Close()
		return op(context.Background(), c, features.On(tensor.NewPool(be), features.F32))
	}
}

// shown are a case's pictures, in each form.
type shown struct {
	pictures []*vision.Image
	raw      []vision.Pixels
	prepared []vision.Pixels
}

func show3(c *Case, t *features.Tower) (s shown, err error) {
	for _, name := range c.Strings("images") {
		path, err := safetensors.Locate(c.Dir(), name)
		if err != nil {
			return s, err
		}
		m, err := vision.Open(path, vision.Limits{})
		if err != nil {
			return s, err
		}
		x, err := t.Prepare.Apply(nil, m, vision.ChannelsLast)
		if err != nil {
			return s, err
		}
		s.pictures = append(s.pictures, m)
		s.raw = append(s.raw, vision.Pixels{Width: m.Width, Height: m.Height, RGB: vision.Floats(nil, m, vision.Unit, vision.ChannelsLast)})
		s.prepared = append(s.prepared, vision.Pixels{Width: t.Prepare.Size, Height: t.Prepare.Size, RGB: x})
	}
	c.Put("pixel_values", pixelArray(s.prepared))
	return s, nil
}

// pixelArray is numbers of pictures as [B, 3, H, W].
func pixelArray(pictures []vision.Pixels) Array {
	if len(pictures) == 0 {
		return Array{}
	}
	a := Array{Shape: []int{len(pictures), pictures[0].Height, pictures[0].Width, 3}}
	for _, p := range pictures {
		a.Data = append(a.Data, widened(p.RGB)...)
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

// straight takes prepared numbers for pictures: no pipeline stands before the tower.
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

// matched computes what CLIP's rewards share: vectors, gradients, and the scores of both paths.
func matched(ctx context.Context, c *Case, t *clip.Towers, s shown, put func(images, texts [][]float64)) (scores []neural.Matched, soft []float64, err error) {
	prompts := c.Strings("prompts")
	images, err := t.Images(ctx, s.pictures)
	if err != nil {
		return nil, nil, err
	}
	texts, err := t.Texts(ctx, prompts)
	if err != nil {
		return nil, nil, err
	}
	put(images, texts)
	cosine, err := neural.ScalingNamed("cosine")
	if err != nil {
		return nil, nil, err
	}
	m := neural.Match{Towers: t, Scaling: cosine}
	if scores, err = m.Images(ctx, prompts, s.pictures); err != nil {
		return nil, nil, err
	}
	_, g, err := neural.Match{Towers: straightTowers{t, straight{&t.Tower}}, Scaling: cosine}.Gradient(ctx, prompts, s.prepared)
	if err != nil {
		return nil, nil, err
	}
	c.Put("grad_pixel_values", gradArray(g, s.prepared))
	soft, g, err = m.Gradient(ctx, prompts, s.raw)
	if err != nil {
		return nil, nil, err
	}
	c.Put("grad_raw", gradArray(g, s.raw))
	return scores, soft, nil
}

// tokens puts texts' tokens, and which of them are texts', padded with a token.
func putTokens(c *Case, t *clip.Towers, ids, mask string, texts []string, length int, pad func(row []int32) int32) {
	rows := make([][]int32, len(texts))
	for i, s := range texts {
		rows[i], _ = t.IDs(s)
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
	c.Put(ids, a)
	c.Put(mask, m)
}

func lastToken(row []int32) int32 { return row[len(row)-1] }
func zeroToken([]int32) int32     { return 0 }

func neuralCLIP(ctx context.Context, c *Case, d *features.Device) error {
	t, err := clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2})
	if err != nil {
		return err
	}
	defer t.Close()
	prompts := c.Strings("prompts")
	putTokens(c, t, "input_ids", "attention_mask", prompts, 0, lastToken)
	if c.Has("long_prompt") && len(prompts) > 0 {
		long := []string{c.String("long_prompt"), prompts[0]}
		putTokens(c, t, "long_ids", "long_mask", long, 0, lastToken)
		vectors, err := t.Texts(ctx, long)
		if err != nil {
			return err
		}
		c.Put("long_text_embeds", table(vectors))
	}
	s, err := show3(c, &t.Tower)
	if err != nil {
		return err
	}
	scores, soft, err := matched(ctx, c, t, s, func(images, texts [][]float64) {
		c.Put("image_embeds", table(images))
		c.Put("text_embeds", table(texts))
	})
	if err != nil {
		return err
	}
	if err := softPixels(c, &t.Tower, s.raw); err != nil {
		return err
	}
	out := map[string]any{"cosine_soft_path": soft, "logit_scale": t.Scale()}
	for name, scaling := range map[string]string{"cosine": "cosine", "clip_flow_factory": "cosine", "pickscore_flow_grpo": "pickscore_flow_grpo", "pickscore_mixgrpo": "pickscore_mixgrpo", "pickscore_pref_grpo": "pickscore_pref_grpo"} {
		if out[name], err = rescaled(scores, t.Scale(), scaling); err != nil {
			return err
		}
	}
	if out["logits_per_text"], out["choice_probability"], err = choices(ctx, t, prompts, s.pictures); err != nil {
		return err
	}
	c.Put("scores", out)
	return nil
}

func softPixels(c *Case, t *features.Tower, raw []vision.Pixels) error {
	var out []vision.Pixels
	for _, p := range raw {
		soft, err := t.Soft.Soft(p.Width, p.Height)
		if err != nil {
			return err
		}
		x, err := soft.Forward(p)
		if err != nil {
			return err
		}
		out = append(out, vision.Pixels{Width: soft.Size, Height: soft.Size, RGB: x})
	}
	c.Put("soft_pixel_values", pixelArray(out))
	return nil
}

func rescaled(scores []neural.Matched, scale float64, name string) (out []float64, err error) {
	s, err := neural.ScalingNamed(name)
	if err != nil {
		return nil, err
	}
	for _, m := range scores {
		v, _ := s.Of(m.Cosine, scale)
		out = append(out, v)
	}
	return out, nil
}

// choices compares every prompt with all pictures.
func choices(ctx context.Context, t *clip.Towers, prompts []string, pictures []*vision.Image) (logits, chosen Array, err error) {
	scaling, err := neural.ScalingNamed("logit")
	if err != nil {
		return logits, chosen, err
	}
	m := neural.Match{Towers: t, Scaling: scaling}
	logits.Shape = []int{len(prompts), len(pictures)}
	chosen.Shape = logits.Shape
	for _, p := range prompts {
		same := make([]string, len(pictures))
		for i := range same {
			same[i] = p
		}
		scores, err := m.Images(ctx, same, pictures)
		if err != nil {
			return logits, chosen, err
		}
		for _, s := range scores {
			logits.Data = append(logits.Data, s.Value)
		}
		chosen.Data = append(chosen.Data, m.Chosen(scores)...)
	}
	return logits, chosen, nil
}

func neuralHPSv2(ctx context.Context, c *Case, d *features.Device) error {
	t, err := clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2, Prepare: vision.HPSv2})
	if err != nil {
		return err
	}
	defer t.Close()
	putTokens(c, t, "input_ids", "input_mask", c.Strings("prompts"), t.Length(), zeroToken)
	s, err := show3(c, &t.Tower)
	if err != nil {
		return err
	}
	scores, soft, err := matched(ctx, c, t, s, func(images, texts [][]float64) {
		c.Put("image_features", table(unitRows(images)))
		c.Put("text_features", table(unitRows(texts)))
	})
	if err != nil {
		return err
	}
	hps, err := rescaled(scores, t.Scale(), "cosine")
	c.Put("scores", map[string]any{"hps": hps, "hps_soft_path": soft})
	return err
}

// unitRows are rows of length 1; rewards keep theirs to themselves.
func unitRows(rows [][]float64) [][]float64 {
	out := make([][]float64, len(rows))
	for i, r := range rows {
		sum := 0.0
		for _, x := range r {
			sum += x * x
		}
		for _, x := range r {
			out[i] = append(out[i], x/math.Sqrt(sum))
		}
	}
	return out
}

func neuralAesthetic(ctx context.Context, c *Case, d *features.Device) error {
	t, err := clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2, NoTexts: true})
	if err != nil {
		return err
	}
	defer t.Close()
	head, err := neural.OpenHead(c.Dir())
	if err != nil {
		return err
	}
	s, err := show3(c, &t.Tower)
	if err != nil {
		return err
	}
	images, err := t.Images(ctx, s.pictures)
	if err != nil {
		return err
	}
	c.Put("image_embeds", table(images))
	c.Put("image_embeds_unit", table(unitRows(images)))
	scores, err := neural.Aesthetic{Pictures: t, Head: head}.Images(ctx, s.pictures)
	if err != nil {
		return err
	}
	_, g, err := neural.Aesthetic{Pictures: straight{&t.Tower}, Head: head}.Gradient(ctx, s.prepared)
	if err != nil {
		return err
	}
	c.Put("grad_pixel_values", gradArray(g, s.prepared))
	soft, g, err := neural.Aesthetic{Pictures: t, Head: head}.Gradient(ctx, s.raw)
	if err != nil {
		return err
	}
	c.Put("grad_raw", gradArray(g, s.raw))
	c.Put("scores", map[string]any{"aesthetic": scores, "aesthetic_soft_path": soft})
	return nil
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
func aestheticMLP(c *Case) error {
	salt, rows := uint64(c.Int("salt")), c.Int("rows")
	if rows < 1 || rows > 1<<12 {
		return fmt.Errorf("%d rows", rows)
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
	head, err := neural.NewHead(layers...)
	if err != nil {
		return err
	}
	width := layers[0].In
	var scores, norms, first []float64
	for x := byRule(rows, width, width, salt+99); len(x) > 0; x = x[width:] {
		value, g, err := head.Pull(x[:width])
		if err != nil {
			return err
		}
		sum := 0.0
		for _, v := range g {
			sum += v * v
		}
		scores, norms, first = append(scores, value), append(norms, math.Sqrt(sum)), append(first, g[:8]...)
	}
	c.Put("names", names)
	c.Put("shapes", shapes)
	c.Put("score", scores)
	c.Put("grad_norm", norms)
	c.Put("grad_first_8", Array{[]int{rows, 8}, first})
	return nil
}

func scoreScales(c *Case) error {
	scale := c.Float("logit_scale")
	for output, name := range map[string]string{"pickscore": "logit", "pickscore_flow_grpo": "pickscore_flow_grpo", "pickscore_mixgrpo": "pickscore_mixgrpo",
		"clipscore_hessel": "clipscore_hessel", "clipscore_torchmetrics": "clipscore_torchmetrics"} {
		var scores []neural.Matched
		for _, x := range c.Floats("cosine") {
			scores = append(scores, neural.Matched{Cosine: x})
		}
		out, err := rescaled(scores, scale, name)
		if err != nil {
			return err
		}
		c.Put(output, out)
	}
	var raw []float64
	for _, x := range c.Floats("imagereward_raw") {
		raw = append(raw, neural.ImageReward(x))
	}
	c.Put("imagereward", raw)
	return nil
}

func neuralDINO(ctx context.Context, c *Case, d *features.Device) error {
	t, err := dino.Open(c.Dir(), dino.Options{Device: d, Batch: 3})
	if err != nil {
		return err
	}
	defer t.Close()
	s, err := show3(c, &t.Tower)
	if err != nil {
		return err
	}
	vectors, err := t.Images(ctx, s.pictures)
	if err != nil {
		return err
	}
	c.Put("embeds", table(vectors))
	pairs := Array{Shape: []int{len(vectors), len(vectors)}}
	for _, x := range vectors {
		for _, y := range vectors {
			cosine, err := neural.Cosine(x, y)
			if err != nil {
				return err
			}
			pairs.Data = append(pairs.Data, cosine)
		}
	}
	like := neural.Likeness{Pictures: t}
	mean, _, err := like.Consistency(ctx, s.pictures)
	if err != nil {
		return err
	}
	c.Put("scores", map[string]any{"pair_cosine": pairs, "subject_consistency": mean})
	return pairGradient(ctx, c, t, s)
}

// pairGradient is that of the cosine of the first two pictures: what each does to it with the
// other held still.
func pairGradient(ctx context.Context, c *Case, t *dino.Tower, s shown) error {
	if len(s.prepared) < 2 {
		return nil
	}
	grads := make([][]float32, len(s.prepared))
	for i := range grads {
		grads[i] = make([]float32, len(s.prepared[i].RGB))
	}
	two := []vision.Pixels{s.prepared[0], s.prepared[1]}
	_, g, err := neural.Likeness{Pictures: straight{&t.Tower}}.Gradient(ctx, two, []*vision.Image{s.pictures[1], s.pictures[0]})
	if err != nil {
		return err
	}
	copy(grads, g)
	c.Put("grad_pixel_values", gradArray(grads, s.prepared))
	return nil
}

func genevalColor(ctx context.Context, c *Case, d *features.Device) error {
	t, err := clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2, Prepare: vision.OpenCLIP})
	if err != nil {
		return err
	}
	defer t.Close()
	pictures, err := show3(c, &t.Tower)
	if err != nil {
		return err
	}
	if len(pictures.pictures) != 1 {
		return fmt.Errorf("%d pictures: one was expected", len(pictures.pictures))
	}
	m := pictures.pictures[0]
	objects, err := objectsOf(c, m)
	if err != nil {
		return err
	}
	colors := neural.Colors{Towers: t, Background: c.String("background")}
	crops, err := colors.Crops(m, objects)
	if err != nil {
		return err
	}
	var seen []vision.Pixels
	var sizes [][]int
	for _, crop := range crops {
		x, err := t.Prepare.Apply(nil, crop, vision.ChannelsLast)
		if err != nil {
			return err
		}
		seen = append(seen, vision.Pixels{Width: t.Prepare.Size, Height: t.Prepare.Size, RGB: x})
		sizes = append(sizes, []int{crop.Width, crop.Height})
	}
	c.Put("pixel_values", pixelArray(seen))
	classes, err := colors.Classifier(ctx, c.String("classname"))
	if err != nil {
		return err
	}
	flipped := Array{Shape: []int{len(classes[0]), len(classes)}}
	for i := range classes[0] {
		for _, v := range classes {
			flipped.Data = append(flipped.Data, v[i])
		}
	}
	c.Put("classifier", flipped)
	answers, err := colors.Of(ctx, m, c.String("classname"), objects)
	if err != nil {
		return err
	}
	var names []string
	var logits [][]float64
	for _, a := range answers {
		names, logits = append(names, a.Name), append(logits, a.Logits)
	}
	c.Put("logits", table(logits))
	c.Put("scores", map[string]any{"colors": names, "crop_sizes": sizes})
	return nil
}

// objectsOf reads a case's boxes and the files of its masks.
func objectsOf(c *Case, m *vision.Image) ([]neural.Object, error) {
	boxes := c.Array("boxes")
	masks, ok := c.Raw("masks").([]any)
	if len(boxes.Shape) != 2 || boxes.Shape[1] < 4 || !ok || len(masks) != boxes.Shape[0] || len(masks) == 0 {
		return nil, fmt.Errorf("boxes %v and %d masks", boxes.Shape, len(masks))
	}
	var objects []neural.Object
	for i, mask := range masks {
		o := neural.Object{Box: [4]float64(boxes.Data[i*boxes.Shape[1]:])}
		if name, ok := mask.(string); ok {
			path, err := safetensors.Locate(c.Dir(), name)
			if err != nil {
				return nil, err
			}
			drawn, err := vision.Open(path, vision.Limits{})
			if err != nil {
				return nil, err
			}
			if drawn.Width != m.Width || drawn.Height != m.Height {
				return nil, fmt.Errorf("%s has another size than the picture", name)
			}
			o.Mask = make([]bool, len(drawn.Pix)/3)
			for at := range o.Mask {
				o.Mask[at] = drawn.Pix[3*at] > 0
			}
		}
		objects = append(objects, o)
	}
	return objects, nil
}
