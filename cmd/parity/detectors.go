package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/groundingdino"
	"github.com/darkroom-rl/darkroom/vision/mask2former"
	"github.com/darkroom-rl/darkroom/vision/owl"
	"github.com/darkroom-rl/darkroom/vision/rtdetr"
)

var detectorOps = map[string]Op{
	// Detectors, from pictures to the networks' input, to their answers, to boxes.
	"eyes.geneval":        onDevice(eyesGenEval),
	"eyes.grounding_dino": onDevice(eyesGroundingDINO),
	"eyes.mask2former":    onDevice(eyesMask2Former),
	"eyes.owlv2":          onDevice(eyesOWL),
	"eyes.d_fine":         onDevice(eyesRTDETR(rtdetr.Open)),
	"eyes.rf_detr":        onDevice(eyesRTDETR(rtdetr.OpenRF)),
	"eyes.rt_detr":        onDevice(eyesRTDETR(rtdetr.Open)),
	"eyes.rt_detr_v2":     onDevice(eyesRTDETR(rtdetr.Open)),

	"eyes.cv_resize": opencvResize,
}

func opencvResize(c *Case) {
	m, size := caseImage(c, "ocr/"+c.String("image")), c.Ints("size")
	if len(size) != 2 {
		failf("a size of %d numbers", len(size))
	}
	r := must(m.ResizeOpenCV(size[0], size[1]))
	c.Put("pixels", Array{[]int{r.Height, r.Width, 3}, to[float64](r.Pix)})
}

// caseImage is a picture of a case's folder.
func caseImage(c *Case, name string) *vision.Image {
	return must(vision.Open(must(safetensors.Locate(c.Dir(), name)), vision.Limits{}))
}

func caseImages(c *Case) []*vision.Image {
	return each(c.Strings("images"), func(name string) *vision.Image { return caseImage(c, name) })
}

// asRead is a recorded [B, 3, H, W] as a network here reads it, and its size.
func asRead(a Array) ([]float32, int, detr.Size) {
	if len(a.Shape) != 4 || a.Shape[1] != 3 {
		failf("pictures of shape %v", a.Shape)
	}
	return to[float32](channelsLast(a).Data), a.Shape[0], detr.Size{H: a.Shape[2], W: a.Shape[3]}
}

// prepares compares a preprocessing with the recorded one: the network's input, and Pillow's of the first picture.
func prepares(c *Case, p detr.Processor) {
	pictures := caseImages(c)
	b := must(p.Apply(pictures))
	agrees(c, "in.pixel_values", channelsFirst(Array{[]int{len(pictures), b.Size.H, b.Size.W, 3}, to[float64](b.Pixels)}))
	if c.Has("in.pixel_mask") {
		mask := Array{Shape: []int{len(pictures), b.Size.H, b.Size.W}}
		for _, s := range b.Inside {
			for y := range b.Size.H {
				for x := range b.Size.W {
					mask.Data = append(mask.Data, one(y < s.H && x < s.W))
				}
			}
		}
		agrees(c, "in.pixel_mask", mask)
	}
	if !c.Has("pre.pil.pixel_values") {
		return
	}
	p.Pillow = true
	b = must(p.Apply(pictures[:1]))
	c.Put("pre.pil.pixel_values", channelsFirst(Array{[]int{1, b.Size.H, b.Size.W, 3}, to[float64](b.Pixels)}))
}

// agrees holds an own input to the recorded one, by its tolerance.
func agrees(c *Case, name string, got Array) {
	var doc struct {
		Tols map[string]struct{ Abs float64 }
	}
	check(json.Unmarshal(c.raw, &doc))
	allowed := doc.Tols[name].Abs
	want := c.Array(name)
	if fmt.Sprint(want.Shape) != fmt.Sprint(got.Shape) {
		failf("%s has the shape %v, and %v was recorded", name, got.Shape, want.Shape)
	}
	for i, v := range got.Data {
		if !(math.Abs(v-want.Data[i]) <= allowed+1e-5*math.Abs(want.Data[i])) {
			failf("%s[%d] is %v, and %v was recorded", name, i, v, want.Data[i])
		}
	}
}

func eyesMask2Former(_ context.Context, c *Case, d *features.Device) {
	m := must(mask2former.Open(c.Dir(), d))
	defer m.Close()
	prepares(c, m.Prepare)
	pixels, n, size := asRead(c.Array("in.pixel_values"))
	answers := must(m.Forward(pixels, n, size))
	classes, masks := Array{Shape: []int{n, m.Queries, len(m.Labels) + 1}}, Array{Shape: []int{n, answers[0].Size.H, answers[0].Size.W, m.Queries}}
	for _, a := range answers {
		for _, row := range a.Classes {
			classes.Data = append(classes.Data, to[float64](row)...)
		}
		masks.Data = append(masks.Data, to[float64](a.Masks)...)
	}
	c.Put("out.class_queries_logits", classes, "out.masks_queries_logits", channelsFirst(masks))
	facts := c.Sub("facts")
	shape := facts.Ints("mm_batch_shape")
	for i, picture := range caseImages(c) {
		shown := detr.Size{H: picture.Height, W: picture.Width}
		found := answers[i].Instances(size, size, shown, mask2former.Reading{Least: math.Nextafter(facts.Float("threshold"), 0)})
		putInstances(c, "hf", i, found, shown)
		batch := detr.Size{H: shape[0], W: shape[1]}
		found = answers[i].Instances(batch, shown, shown, mask2former.Reading{Published: true, Most: facts.Int("max_per_image"), Least: -1})
		putInstances(c, "mm", i, found, shown)
	}
}

// putInstances are objects as they are recorded: of masks those of the first four.
func putInstances(c *Case, kind string, picture int, found []mask2former.Instance, shown detr.Size) {
	scores, labels, rows, masks := Array{Shape: []int{len(found)}}, Array{Shape: []int{len(found)}}, Array{Shape: []int{len(found), 5}}, Array{Shape: []int{min(4, len(found)), shown.H, shown.W}}
	for k, f := range found {
		scores.Data, labels.Data = append(scores.Data, f.Score), append(labels.Data, float64(f.Label))
		rows.Data = append(append(rows.Data, f.Box[:]...), f.Score)
		for _, on := range f.Mask {
			if k < 4 {
				masks.Data = append(masks.Data, one(on))
			}
		}
	}
	of := func(what string) string { return fmt.Sprintf("post.%s_%s.%d", kind, what, picture) }
	c.Put(of("scores"), scores, of("labels"), labels, of("boxes"), rows, of("masks"), masks)
}

// eyesRTDETR is of a family of detectors, by the way that their folders are opened.
func eyesRTDETR(open func(string, *features.Device) (*rtdetr.Model, error)) func(context.Context, *Case, *features.Device) {
	return func(_ context.Context, c *Case, d *features.Device) { askRTDETR(c, must(open(c.Dir(), d))) }
}

func askRTDETR(c *Case, m *rtdetr.Model) {
	defer m.Close()
	prepares(c, m.Prepare)
	pixels, n, size := asRead(c.Array("in.pixel_values"))
	answers := must(m.Forward(pixels, n, size))
	logits, boxes := Array{Shape: []int{n, m.Queries, len(m.Labels)}}, Array{Shape: []int{n, m.Queries, 4}}
	least := c.Sub("facts").Float("threshold")
	for i, picture := range caseImages(c) {
		a := answers[i]
		logits.Data, boxes.Data = append(logits.Data, to[float64](a.Logits)...), append(boxes.Data, to[float64](a.Boxes)...)
		putBoxes(c, fmt.Sprint(i), detr.Top(a.Logits, a.Boxes, m.Queries, detr.Size{H: picture.Height, W: picture.Width}, least))
	}
	c.Put("out.logits", logits, "out.pred_boxes", boxes)
}

// putBoxes are boxes as they are recorded.
func putBoxes(c *Case, of string, found []detr.Box) {
	scores, labels, rows := Array{Shape: []int{len(found)}}, Array{Shape: []int{len(found)}}, Array{Shape: []int{len(found), 4}}
	for _, f := range found {
		scores.Data, labels.Data, rows.Data = append(scores.Data, f.Score), append(labels.Data, float64(f.Label)), append(rows.Data, f.Box[:]...)
	}
	c.Put("post.scores."+of, scores, "post.labels."+of, labels, "post.boxes."+of, rows)
}

// A genEvalItem is a question about a picture, and the answers of both programs.
type genEvalItem struct {
	Image    int
	Metadata neural.Wish
	GenEval  genEvalAnswer
	Server   genEvalAnswer
}

type genEvalAnswer struct {
	Correct     bool
	Strict      *bool `json:"strict_correct"`
	Score       *float64
	Reason      string
	Details     map[string][][]float64
	ColorLogits []struct {
		Shape []int
		Data  []float64
	} `json:"color_logits"`
}

// eyesGenEval goes from pictures to verdicts: GenEval's own program, and flow_grpo's server, whose detector sees
// red for blue.
func eyesGenEval(ctx context.Context, c *Case, d *features.Device) {
	m := must(mask2former.Open(c.Dir()+"/detector", d))
	defer m.Close()
	towers := must(clip.Open(c.Dir()+"/clip", clip.Options{Device: d, Prepare: vision.OpenCLIP}))
	defer towers.Close()
	scale, pictures := c.Ints("scale"), caseImages(c)
	if len(scale) != 2 {
		failf("a scale of %d numbers", len(scale))
	}
	found := map[string][]mask2former.Instance{}
	for i, picture := range pictures {
		for _, order := range []string{"rgb", "bgr"} {
			of := fmt.Sprintf("%s.%d", order, i)
			r := mask2former.Reading{Published: true, Exchanged: order == "bgr", Scale: [2]int(scale), Most: c.Int("max_per_image"), Least: -1}
			b := must(mask2former.Published(picture, r))
			answer := must(m.Forward(b.Pixels, 1, b.Size))[0]
			found[of] = answer.Instances(b.Size, b.Inside[0], b.Shown[0], r)
			classes := Array{Shape: []int{1, m.Queries, len(m.Labels) + 1}}
			for _, row := range answer.Classes {
				classes.Data = append(classes.Data, to[float64](row)...)
			}
			c.Put("pre.pixel_values."+of, channelsFirst(Array{[]int{1, b.Size.H, b.Size.W, 3}, to[float64](b.Pixels)}),
				"out.class_logits."+of, classes, "out.mask_logits."+of, channelsFirst(Array{[]int{1, answer.Size.H, answer.Size.W, m.Queries}, to[float64](answer.Masks)}))
			rows, labels := Array{Shape: []int{len(found[of]), 5}}, Array{Shape: []int{len(found[of])}}
			for _, f := range found[of] {
				rows.Data, labels.Data = append(append(rows.Data, f.Box[:]...), f.Score), append(labels.Data, float64(f.Label))
			}
			c.Put("post.boxes."+of, rows, "post.labels."+of, labels)
		}
	}
	var doc struct {
		Items []genEvalItem
		Tols  map[string]struct{ Abs, Rel float64 }
	}
	check(json.Unmarshal(c.raw, &doc))
	if len(doc.Items) == 0 {
		failf("no questions")
	}
	for i, item := range doc.Items {
		for k, want := range []genEvalAnswer{item.GenEval, item.Server} {
			of := fmt.Sprintf("%s.%d", []string{"rgb", "bgr"}[k], item.Image)
			got := genEvalSays(ctx, m, towers, pictures[item.Image], found[of], item.Metadata, k)
			if err := got.differs(want, doc.Tols["details"].Abs, doc.Tols["color_logits"].Abs); err != nil {
				failf("item %d, %s: %v", i, []string{"geneval", "server"}[k], err)
			}
		}
	}
}

// genEvalSays is the answer of GenEval (0), or of the server (1).
func genEvalSays(ctx context.Context, m *mask2former.Model, towers *clip.Towers, picture *vision.Image, found []mask2former.Instance, w neural.Wish, program int) (a genEvalAnswer) {
	var rules neural.GenEvalRules
	rules.SetDefaults()
	rules.UpstreamSlip = true
	var all []rewards.Detection
	for _, f := range found {
		all = append(all, rewards.Detection{Class: m.Classes()[f.Label], Box: f.Box, Score: f.Score, Mask: f.Mask})
	}
	kept := rules.Keep(all, w.Tag)
	a.Details = map[string][][]float64{}
	for class, list := range kept {
		for _, d := range list {
			a.Details[class] = append(a.Details[class], append(d.Box[:], d.Score))
		}
	}
	for pass := range 1 + program { // the server asks for its own score first, then as GenEval does
		for _, clause := range w.Include {
			list := kept[clause.Class]
			if clause.Color == "" || len(list) < clause.Count || pass < program && len(list) != clause.Count {
				continue
			}
			list = list[:clause.Count]
			var objects []neural.Object
			for _, d := range list {
				objects = append(objects, neural.Object{Box: d.Box, Mask: d.Mask})
			}
			var logits []float64
			for i, answer := range must(neural.Colors{Towers: towers}.Of(ctx, picture, clause.Class, objects)) {
				list[i].Color = answer.Name
				logits = append(logits, answer.Logits...)
			}
			a.ColorLogits = append(a.ColorLogits, struct {
				Shape []int
				Data  []float64
			}{[]int{len(objects), len(neural.ColorNames())}, logits})
		}
	}
	v := must(rules.Evaluate(kept, w))
	a.Correct, a.Reason = v.Correct, v.Published[program]
	if program == 1 {
		a.Strict, a.Score = &v.Strict, &v.Soft
	}
	return a
}

// differs is the first difference of an answer from a recorded one.
func (a genEvalAnswer) differs(want genEvalAnswer, box, logit float64) error {
	switch {
	case want.Strict != nil && (*a.Strict != *want.Strict || math.Abs(*a.Score-*want.Score) > 1e-9):
		return fmt.Errorf("strict %v and score %v; %v and %v were recorded", *a.Strict, *a.Score, *want.Strict, *want.Score)
	case want.Strict == nil && a.Correct != want.Correct:
		return fmt.Errorf("correct is %v", a.Correct)
	case sortedRelations(a.Reason) != sortedRelations(want.Reason):
		return fmt.Errorf("the reason is %q; %q was recorded", a.Reason, want.Reason)
	case len(a.Details) != len(want.Details):
		return fmt.Errorf("%d classes; %d were recorded", len(a.Details), len(want.Details))
	case len(a.ColorLogits) != len(want.ColorLogits):
		return fmt.Errorf("%d questions of colours; %d were recorded", len(a.ColorLogits), len(want.ColorLogits))
	}
	for class, rows := range want.Details {
		if len(a.Details[class]) != len(rows) {
			return fmt.Errorf("%d boxes of %s; %d were recorded", len(a.Details[class]), class, len(rows))
		}
		for i, row := range rows {
			for k, v := range row {
				if math.Abs(a.Details[class][i][k]-v) > box+1e-5*math.Abs(v) {
					return fmt.Errorf("box %d of %s is %v; %v was recorded", i, class, a.Details[class][i], row)
				}
			}
		}
	}
	for i, q := range want.ColorLogits {
		for k, v := range q.Data {
			if len(a.ColorLogits[i].Data) != len(q.Data) || math.Abs(a.ColorLogits[i].Data[k]-v) > logit+1e-5*math.Abs(v) {
				return fmt.Errorf("colours %d: logits %v; %v were recorded", i, a.ColorLogits[i].Data, q.Data)
			}
		}
	}
	return nil
}

// sortedRelations is a reason whose relations are in order: upstream prints a set of them.
func sortedRelations(reason string) string {
	words := strings.Split(reason, " and ")
	if len(words) != 2 {
		return reason
	}
	for _, r := range []string{"left of", "right of"} {
		if strings.HasPrefix(words[1], r) {
			return strings.Replace(strings.Replace(reason, " and "+r, "", 1), "found ", "found "+r+" and ", 1)
		}
	}
	return reason
}

func eyesOWL(_ context.Context, c *Case, d *features.Device) {
	m := must(owl.Open(c.Dir(), d))
	defer m.Close()
	side, pictures := m.Vision.Side, caseImages(c)
	prepared := func(p owl.Processor, of []*vision.Image) Array {
		a := Array{Shape: []int{len(of), side, side, 3}}
		for _, picture := range of {
			a.Data = append(a.Data, to[float64](must(p.Apply(picture)))...)
		}
		return channelsFirst(a)
	}
	agrees(c, "in.pixel_values", prepared(m.Prepare, pictures))
	scipy := m.Prepare
	scipy.SciPy = true
	c.Put("pre.pil.pixel_values", prepared(scipy, pictures[:1]))
	pixels, n, _ := asRead(c.Array("in.pixel_values"))
	seen := must(m.See(pixels, n))
	var spec struct{ Spec struct{ Texts [][]string } }
	check(json.Unmarshal(c.raw, &spec))
	texts := spec.Spec.Texts
	c.Raw("spec")
	most := 0
	for _, t := range texts {
		most = max(most, len(t))
	}
	var ids Array
	var vectors [][][]float64
	for _, t := range texts {
		for len(t) < most {
			t = append(t, " ")
		}
		for _, q := range t {
			ids.Data = append(ids.Data, to[float64](must(m.IDs(q)))...)
		}
		vectors = append(vectors, must(m.Queries(t)))
	}
	ids.Shape = []int{most * len(texts), m.Config.Text.Positions}
	agrees(c, "in.input_ids", ids)
	masked := c.Array("in.attention_mask")
	for i, v := range ids.Data {
		if (masked.Data[i] != 0) != (v != 0) {
			failf("in.attention_mask[%d] is %v, of id %v", i, masked.Data[i], v)
		}
	}
	patches, width := len(seen[0].Objects), m.Vision.Width
	grid := side / m.Vision.Patch
	out := map[string]*Array{"logits": {Shape: []int{n, patches, most}}, "objectness_logits": {Shape: []int{n, patches}}, "pred_boxes": {Shape: []int{n, patches, 4}},
		"text_embeds": {Shape: []int{n, most, m.Out}}, "image_embeds": {Shape: []int{n, grid, grid, width}}, "class_embeds": {Shape: []int{n, patches, m.Out}}}
	facts := c.Sub("facts")
	for i, s := range seen {
		logits := s.Logits(vectors[i])
		put := func(name string, x []float64) { out[name].Data = append(out[name].Data, x...) }
		put("logits", to[float64](logits))
		put("objectness_logits", to[float64](s.Objects))
		put("pred_boxes", to[float64](s.Boxes))
		put("image_embeds", to[float64](s.Tokens))
		for _, v := range vectors[i] {
			put("text_embeds", v)
		}
		for _, v := range s.Classes {
			put("class_embeds", owl.Unit(v))
		}
		putBoxes(c, fmt.Sprint(i), s.Named(logits, most, detr.Size{H: pictures[i].Height, W: pictures[i].Width}, facts.Float("threshold")))
	}
	for name, a := range out {
		c.Put("out."+name, *a)
	}
	query := seen[n-1].Query()
	c.Put("out.guided_logits", Array{[]int{1, patches, 1}, to[float64](seen[0].Logits([][]float64{query}))}, "out.guided_boxes", Array{[]int{1, patches, 4}, to[float64](seen[0].Boxes)})
	like := seen[0].Like(query, detr.Size{H: pictures[0].Height, W: pictures[0].Width}, facts.Float("guided_threshold"), facts.Float("guided_nms"))
	scores, rows := Array{Shape: []int{len(like)}}, Array{Shape: []int{len(like), 4}}
	for _, b := range like {
		scores.Data, rows.Data = append(scores.Data, b.Score), append(rows.Data, b.Box[:]...)
	}
	c.Put("post.guided_scores", scores, "post.guided_boxes", rows)
}

func eyesGroundingDINO(_ context.Context, c *Case, d *features.Device) {
	m := must(groundingdino.Open(c.Dir(), d))
	defer m.Close()
	prepares(c, m.Prepare)
	pictures := caseImages(c)
	b := must(m.Prepare.Apply(pictures))
	b.Pixels, _, b.Size = asRead(c.Array("in.pixel_values"))
	var doc struct {
		Spec  struct{ Texts [][]string }
		Facts struct{ Phrases [][]string }
	}
	check(json.Unmarshal(c.raw, &doc))
	c.Raw("spec")
	var texts [][]int32
	for _, labels := range doc.Spec.Texts {
		texts = append(texts, must(m.IDs(groundingdino.Question(labels))))
	}
	want := c.Array("in.input_ids")
	ids, masks, types := Array{Shape: want.Shape}, Array{Shape: want.Shape}, Array{Shape: want.Shape, Data: make([]float64, len(want.Data))}
	for _, t := range texts {
		for i := range want.Shape[1] {
			id := int32(0)
			if i < len(t) {
				id = t[i]
			}
			ids.Data, masks.Data = append(ids.Data, float64(id)), append(masks.Data, one(i < len(t)))
		}
	}
	agrees(c, "in.input_ids", ids)
	agrees(c, "in.attention_mask", masks)
	agrees(c, "in.token_type_ids", types)
	answers := must(m.Forward(b, texts))
	logits, boxes := Array{Shape: []int{len(answers), m.Config.Queries, m.MostText}}, Array{Shape: []int{len(answers), m.Config.Queries, 4}}
	facts := c.Sub("facts")
	for i, a := range answers {
		for _, row := range a.Logits {
			for _, v := range row {
				logits.Data = append(logits.Data, math.Max(float64(v), -100))
			}
		}
		boxes.Data = append(boxes.Data, to[float64](a.Boxes)...)
		found, tokens := a.Found(detr.Size{H: pictures[i].Height, W: pictures[i].Width}, facts.Float("threshold"), facts.Float("text_threshold"))
		scores, rows := Array{Shape: []int{len(found)}}, Array{Shape: []int{len(found), 4}}
		for k, f := range found {
			scores.Data, rows.Data = append(scores.Data, f.Score), append(rows.Data, f.Box[:]...)
			if k >= len(doc.Facts.Phrases[i]) {
				continue
			}
			if got := m.Phrase(texts[i], tokens[k]); got != doc.Facts.Phrases[i][k] {
				failf("phrase %d of picture %d is %q; %q was recorded", k, i, got, doc.Facts.Phrases[i][k])
			}
		}
		c.Put(fmt.Sprintf("post.scores.%d", i), scores, fmt.Sprintf("post.boxes.%d", i), rows)
	}
	c.Put("out.logits", logits, "out.pred_boxes", boxes)
}
