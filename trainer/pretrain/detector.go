package pretrain

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/mask2former"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Detector is how a Mask2Former is made: it learns the masks and labels of drawn scenes' objects and letters by the
// loss of masks.go. Pictures differ in places and sizes whenever they come again, some are damaged, and some have
// objects anywhere.
type Detector struct {
	Makes string        `toml:"makes" enum:"detector" doc:"what kind of model this is the recipe of"`
	Name  string        `toml:"name,required" doc:"what the model is called"`
	Seed  uint64        `toml:"seed" doc:"random seed"`
	Data  DetectorData  `toml:"data" doc:"what it sees"`
	Model DetectorModel `toml:"model" doc:"the network"`
	Train DetectorStage `toml:"train" doc:"how it is trained"`
	Loss  Matching      `toml:"loss" doc:"weights of the loss"`
	Judge DetectorJudge `toml:"judge" doc:"how it is judged on the way"`
}

// DetectorData says which pictures are seen.
type DetectorData struct {
	Scenes    int     `toml:"scenes" range:"[64,inf)" doc:"how many pictures"`
	One       float64 `toml:"one" range:"[0,inf)" doc:"weight of scenes of one object"`
	Relation  float64 `toml:"relation" range:"[0,inf)" doc:"weight of two related objects"`
	Count     float64 `toml:"count" range:"[0,inf)" doc:"weight of two to four equal objects"`
	Word      float64 `toml:"word" range:"[0,inf)" doc:"weight of words"`
	Scattered float64 `toml:"scattered" range:"[0,1]" doc:"share of pictures with one to four objects anywhere"`
	Damaged   float64 `toml:"damaged" range:"[0,1]" doc:"share of pictures that are damaged, by any strength up to 1"`
}

// DetectorModel is the network's shape. The backbone's maps have the strides 1, 2, 4 and 8 of a patch.
type DetectorModel struct {
	Patch   int   `toml:"patch" range:"[2,4]" doc:"pixels a side of a patch, and of a mask's pixel"`
	Width   int   `toml:"width" range:"[8,512]" doc:"of the backbone's first stage, which doubles from stage to stage"`
	Depths  []int `toml:"depths" range:"[1,12]" doc:"blocks of the backbone's four stages"`
	Ratio   int   `toml:"mlp_ratio" range:"[1,8]" doc:"inner width of its layers"`
	Window  int   `toml:"window" range:"[2,16]" doc:"side of the windows of attention"`
	Hidden  int   `toml:"hidden" range:"[32,512]" doc:"of maps and queries, a multiple of 32"`
	Heads   int   `toml:"heads" range:"[1,16]" doc:"of attention to maps"`
	Forward int   `toml:"forward" range:"[32,4096]" doc:"inner width of the layers of maps and queries"`
	Encoder int   `toml:"encoder_layers" range:"[1,12]" doc:"attention of maps to each other"`
	Decoder int   `toml:"decoder_layers" range:"[1,12]" doc:"attention of queries to maps"`
	Queries int   `toml:"queries" range:"[4,256]" doc:"how many things can be found"`
}

// DetectorStage is the training.
type DetectorStage struct {
	Stage
	Muon float64 `toml:"muon" range:"[0,100]" doc:"Muon's learning rate for hidden matrices, beside lr; 0 leaves them to AdamW"`
	EMA  float64 `toml:"ema" range:"[0,1)" doc:"how much of the averaged weights is kept at most"`
	Save int     `toml:"save_every" range:"[1,inf)" doc:"steps between two saved states"`
}

// DetectorJudge sets the evaluations under way.
type DetectorJudge struct {
	Every    int `toml:"every" range:"[1,inf)" doc:"steps between two evaluations"`
	Pictures int `toml:"pictures" range:"[2,4096]" doc:"pictures that no training sees"`
}

// DefaultDetector is the recipe of an empty file.
func DefaultDetector() Detector {
	stage := Stage{Steps: 3000, Batch: 32, LR: 1e-3, Warmup: 100, Betas: [2]float64{0.9, 0.98}, Decay: 0.01, GradClip: 1}
	return Detector{
		Makes: "detector", Seed: 1,
		Data:  DetectorData{Scenes: 48000, One: 0.1, Relation: 0.35, Count: 0.3, Word: 0.25, Scattered: 0.35, Damaged: 0.4},
		Model: DetectorModel{Patch: 2, Width: 16, Depths: []int{1, 2, 2, 1}, Ratio: 2, Window: 4, Hidden: 64, Heads: 4, Forward: 128, Encoder: 1, Decoder: 3, Queries: 10},
		Train: DetectorStage{Stage: stage, Muon: 3, EMA: 0.995, Save: 250},
		Loss:  Matching{Class: 2, Mask: 5, Dice: 5, NoObject: 0.1},
		Judge: DetectorJudge{Every: 500, Pictures: 128},
	}
}

func (r *Detector) check(doc *config.Document) {
	m := r.Model
	if doc.Clean("model.hidden") && m.Hidden%32 != 0 {
		doc.Report("model.hidden", fmt.Sprintf("%d is not a multiple of 32", m.Hidden), "norms have 32 groups")
	}
	if doc.Clean("model.hidden") && doc.Clean("model.heads") && m.Hidden%m.Heads != 0 {
		doc.Report("model.heads", fmt.Sprintf("%d does not divide hidden %d", m.Heads, m.Hidden), "heads share the width evenly")
	}
	if doc.Clean("model.patch") && m.Patch == 3 {
		doc.Report("model.patch", fmt.Sprintf("patches of 3 do not fill a picture of %d", scenes.Size), "2 or 4")
	}
	if doc.Clean("model.width") && m.Width%8 != 0 {
		doc.Report("model.width", fmt.Sprintf("%d is not a multiple of 8", m.Width), "heads of the backbone are 8 wide and more")
	}
	if doc.Clean("model.depths") && len(m.Depths) != 4 {
		doc.Report("model.depths", fmt.Sprintf("there are %d stages", len(m.Depths)), "a number for each of four")
	}
	if d := r.Data; d.One+d.Relation+d.Count+d.Word <= 0 && d.Scattered < 1 && doc.Clean("data") {
		doc.Report("data", "all families have weight 0", "give one, relation, count or word a weight, or scattered 1")
	}
}

// Text is the whole recipe.
func (r *Detector) Text() ([]byte, error) { return textOf(r) }

// writeFrame writes the folder's files beside weights.
func (r *Detector) writeFrame(dir string) error {
	m, labels, ids := r.Model, map[string]string{}, map[string]int{}
	for i, l := range scenes.Labels() {
		labels[fmt.Sprint(i)], ids[l] = l, i
	}
	heads := make([]int, len(m.Depths))
	for i := range heads {
		heads[i] = max(1, m.Width/16) << i
	}
	if err := writeJSON(filepath.Join(dir, "preprocessor_config.json"), map[string]any{
		"image_processor_type": "Mask2FormerImageProcessor", "do_resize": true, "size": map[string]int{"shortest_edge": scenes.Size, "longest_edge": scenes.Size},
		"size_divisor": 32, "resample": 2, "do_rescale": true, "rescale_factor": 1.0 / 255, "do_normalize": true,
		"image_mean": []float64{0.5, 0.5, 0.5}, "image_std": []float64{0.25, 0.25, 0.25}, "ignore_index": 255, "do_reduce_labels": false}); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "config.json"), map[string]any{
		"architectures": []string{"Mask2FormerForUniversalSegmentation"}, "model_type": "mask2former",
		"backbone_config": map[string]any{"model_type": "swin", "image_size": scenes.Size, "patch_size": m.Patch, "num_channels": 3, "embed_dim": m.Width,
			"depths": m.Depths, "num_heads": heads, "window_size": m.Window, "mlp_ratio": decimal(float64(m.Ratio)), "qkv_bias": true, "hidden_act": "gelu",
			"use_absolute_embeddings": false, "layer_norm_eps": 1e-5, "out_features": []string{"stage1", "stage2", "stage3", "stage4"}},
		"feature_size": m.Hidden, "mask_feature_size": m.Hidden, "hidden_dim": m.Hidden, "encoder_feedforward_dim": m.Forward, "dim_feedforward": m.Forward,
		"encoder_layers": m.Encoder, "decoder_layers": m.Decoder + 1, "num_attention_heads": m.Heads, "num_queries": m.Queries, "pre_norm": false,
		"enforce_input_projection": false, "common_stride": 4, "feature_strides": []int{4, 8, 16, 32}, "activation_function": "relu", "dropout": decimal(0),
		"no_object_weight": decimal(r.Loss.NoObject), "class_weight": decimal(r.Loss.Class), "mask_weight": decimal(r.Loss.Mask), "dice_weight": decimal(r.Loss.Dice),
		"id2label": labels, "label2id": ids})
}

// decimal is a number with a point: transformers refuses a whole one in these places.
func decimal(v float64) json.RawMessage {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return json.RawMessage(text)
}

// detectorFile is the weights' file.
const detectorFile = "model.safetensors"

// drawn is a network with parameters that are drawn, and trained.
func (r *Detector) drawn(dir string, pool *tensor.Pool, key rng.Key) (*mask2former.Network, *nn.Params, error) {
	c, err := mask2former.ReadConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	p, err := nn.New(nn.Options{Pool: pool, Math: kernels.MathBF16, Key: key.With(detectorFile), Train: []string{".*"}})
	if err != nil {
		return nil, nil, err
	}
	n := mask2former.New(p, c)
	if err := p.Check(); err != nil {
		return nil, nil, err
	}
	// Attention to few places begins evenly, at places around the pixel, further out point by point.
	for i := range r.Model.Encoder {
		at := p.At("model.pixel_level_module.decoder.encoder.layers", i).Sub("self_attn")
		for _, name := range []string{"sampling_offsets.weight", "attention_weights.weight", "attention_weights.bias"} {
			if err := at.Set(name, func(x []float32) { clear(x) }); err != nil {
				return nil, nil, err
			}
		}
		if err := at.Set("sampling_offsets.bias", func(x []float32) { around(x, r.Model.Heads) }); err != nil {
			return nil, nil, err
		}
	}
	return n, p, nil
}

// around are offsets [heads, levels, points, 2]: a direction a head, on a square, a step further each point.
func around(x []float32, heads int) {
	const levels, points = 3, 4
	for h := range heads {
		angle := 2 * math.Pi * float64(h) / float64(heads)
		dx, dy := portable.Cos(angle), portable.Sin(angle)
		by := max(math.Abs(dx), math.Abs(dy))
		for k := range levels * points {
			at, step := 2*(h*levels*points+k), float64(k%points+1)
			x[at], x[at+1] = float32(dx/by*step), float32(dy/by*step)
		}
	}
}

// saveDetector writes weights in bf16, with queries, keys and values of cross-attention in one, as folders have them.
func saveDetector(dir string, params *nn.Params) error {
	all, err := params.Stored()
	if err != nil {
		return err
	}
	joined := map[string][]float32{} // by PREFIX of PREFIXq_proj.weight, and the end
	shapes := map[string][]int{}
	var out []safetensors.Tensor
	for _, t := range all {
		prefix, end, ok := strings.Cut(t.Name, "cross_attn.")
		if _, name, _ := strings.Cut(end, "_proj."); ok && end[0] != 'o' && name != "" {
			x, err := t.Float32(nil)
			if err != nil {
				return err
			}
			key := prefix + "cross_attn.in_proj_" + name
			joined[key] = append(joined[key], x...) // q, k and v are in this order
			shapes[key] = append([]int{3 * t.Shape[0]}, t.Shape[1:]...)
			if end[0] != 'v' {
				continue
			}
			t = safetensors.FromF32(key, shapes[key], joined[key])
		}
		if t, err = t.Halved(); err != nil {
			return err
		}
		out = append(out, t)
	}
	return safetensors.Write(filepath.Join(dir, detectorFile), out, map[string]string{"format": "pt"})
}

// lesson is the input of one update.
type lesson struct {
	pixels []float32
	things [][]target
}

// sighted is a detector's picture, the parts in it, and its kind.
func (d DetectorData) sighted(scene func() scenes.Scene, k rng.Key) (px []uint8, parts []scenes.Part, kind string) {
	r := k.With("kind").Draw()
	s := scenes.Scene{}
	if r.Float64() < d.Scattered {
		s, kind = scenes.Scattered(k.With("scattered").Draw()), "scattered"
	} else {
		s = scene()
		kind = string(s.Family)
	}
	px, parts = s.Parts(scenes.Jitter(k.With("jitter").Draw()))
	if r.Float64() < d.Damaged {
		kind += " damaged"
		how := k.With("damage").Draw()
		damaged, err := scenes.Degrade(px, scenes.Degradations[how.Intn(len(scenes.Degradations))], how.Float64(), how)
		if err != nil {
			panic(err) // kinds and strengths are its own
		}
		px = damaged
	}
	return px, parts, kind
}

// lesson is the input of update step.
func (r *Detector) lesson(d dataset, seen *order, step int, prepare detr.Processor) (lesson, error) {
	l := lesson{things: make([][]target, r.Train.Batch)}
	pictures := make([]*vision.Image, r.Train.Batch)
	at := make([][2]int, r.Train.Batch)
	for i := range at {
		at[i][0], at[i][1] = seen.at((step-1)*r.Train.Batch + i)
	}
	detr.Share(len(at), func(i int) {
		n, epoch := at[i][0], at[i][1]
		px, parts, _ := r.Data.sighted(func() scenes.Scene { return d.scene(n) }, d.key.Iteration(epoch).Sample(n))
		pictures[i] = &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: px}
		l.things[i] = r.targets(parts)
	})
	b, err := prepare.Apply(pictures)
	l.pixels = b.Pixels
	return l, err
}

// targets are the parts of a picture, at the size of masks.
func (r *Detector) targets(parts []scenes.Part) (all []target) {
	labels := scenes.Labels()
	for _, p := range parts {
		all = append(all, newTarget(slices.Index(labels, p.Label), p.Share, scenes.Size, scenes.Size/r.Model.Patch))
	}
	return all
}

// pass leaves the gradient of an update in the parameters and returns the loss of the last answer.
func (r *Detector) pass(s *stage, n *mask2former.Network, l lesson) loss {
	tp := s.tape()
	o := n.Forward(tp, tp.Upload("pictures", l.pixels, len(l.things), scenes.Size, scenes.Size, 3))
	var seeds []autograd.Seed
	var last loss
	for _, out := range append(o.Earlier, o) {
		a := &maskAnswer{classes: out.Classes.F32(), masks: out.Masks.F32(), queries: r.Model.Queries}
		last = r.Loss.judge(a, l.things)
		seeds = append(seeds, autograd.Seed{Of: out.Classes, Grad: a.dClasses}, autograd.Seed{Of: out.Masks, Grad: a.dMasks})
	}
	tp.Backward(seeds...)
	tp.Reset()
	return last
}

func (r *Detector) run(dir string, h Hooks) error {
	if finished(dir, "train") {
		h.Log("train: done before")
		return nil
	}
	if err := r.writeFrame(dir); err != nil {
		return err
	}
	prepare, err := detr.ReadProcessor(dir, detr.EdgeProcessor(32), true)
	if err != nil {
		return err
	}
	pool, key := tensor.NewPool(h.Backend), rng.New(r.Seed)
	net, params, err := r.drawn(dir, pool, key)
	if err != nil {
		return err
	}
	defer params.Free()
	s := r.Train.begin("train", pool, h.Log, groupsOf(params.Trained(), r.Train.Muon, "embed", "bias_table", "queries", "class_predictor", "sampling_offsets", "attention_weights")...)
	defer s.mover.Free()
	shadow := optim.NewShadow(params.Trained())
	defer shadow.Free()
	state := &progress{dir, "train", []*nn.Params{params}, s.mover, shadow}
	from, err := state.load()
	if err != nil {
		return err
	}
	// report judges the averaged weights, as they are read from the folder.
	report := func(step int) error {
		shadow.Swap()
		defer shadow.Swap()
		if err := saveDetector(dir, params); err != nil {
			return err
		}
		v, err := JudgeDetector(h.context(), pool, dir, r.Judge.Pictures)
		if err == nil {
			h.Log(fmt.Sprintf("judged at %d, %s", step, v))
		}
		return err
	}
	mix := Data{Scenes: r.Data.Scenes, One: r.Data.One, Relation: r.Data.Relation, Count: r.Data.Count, Word: r.Data.Word}
	data := dataset{Data: mix, key: key, mix: mix.Mix()}
	seen := order{key: key.With("order of pictures"), n: r.Data.Scenes}
	var class, mask, dice mean
	for step := from + 1; step <= s.Steps; step++ {
		if err := h.stopped(); err != nil {
			return state.orSave(err, step-1)
		}
		l, err := r.lesson(data, &seen, step, prepare)
		if err != nil {
			return err
		}
		out := r.pass(&s, net, l)
		if _, err := s.mover.Step(s.rate(step, 0.02)); err != nil {
			return fmt.Errorf("train, step %d: %w", step, err)
		}
		shadow.Follow(min(r.Train.EMA, float64(1+step)/float64(10+step)))
		class.add(out.class)
		mask.add(out.mask)
		dice.add(out.dice)
		if step%50 == 0 || step == s.Steps {
			s.say(step, s.Steps, "labels %.4f  masks %.4f  overlap %.4f", class.take(), mask.take(), dice.take())
		}
		if step%r.Train.Save == 0 {
			if err := state.save(step); err != nil {
				return err
			}
		}
		if step%r.Judge.Every == 0 && step < s.Steps {
			if err := report(step); err != nil {
				return state.orSave(err, step)
			}
		}
	}
	if err := report(s.Steps); err != nil {
		return state.orSave(err, s.Steps)
	}
	return mark(dir, "train")
}

// DetectorEvaluation is how good a detector is on pictures that no training sees.
type DetectorEvaluation struct {
	Pictures int                       `json:"pictures"`
	AP       float64                   `json:"ap"` // COCO's, over IoU 0.5 to 0.95
	AP50     float64                   `json:"ap50"`
	All      DetectorTally             `json:"all"`
	By       map[string]*DetectorTally `json:"by_kind"`
}

// DetectorTally counts boxes with scores above 0.5: right ones have the label of a thing and an IoU of 0.5 with it.
type DetectorTally struct {
	Things   int     `json:"things"`
	Found    int     `json:"found"`
	Right    int     `json:"right"`
	Pictures int     `json:"pictures"`
	Exact    int     `json:"exact"`   // pictures of which all boxes are right, and none is missing
	IoU      float64 `json:"iou_sum"` // over right ones
}

func (t *DetectorTally) add(o DetectorTally) {
	t.Things, t.Found, t.Right, t.Pictures, t.Exact = t.Things+o.Things, t.Found+o.Found, t.Right+o.Right, t.Pictures+o.Pictures, t.Exact+o.Exact
	t.IoU += o.IoU
}

// F1 is the harmonic mean of precision and recall.
func (t DetectorTally) F1() float64 { return 2 * float64(t.Right) / float64(max(1, t.Things+t.Found)) }

func (t DetectorTally) String() string {
	return fmt.Sprintf("F1 %.3f  IoU %.3f  all right %.3f  (%d of %d, %d found)", t.F1(), t.IoU/float64(max(1, t.Right)), float64(t.Exact)/float64(max(1, t.Pictures)), t.Right, t.Things, t.Found)
}

func (v *DetectorEvaluation) String() string {
	lines := []string{fmt.Sprintf("%d pictures: AP %.3f  AP50 %.3f  %s", v.Pictures, v.AP, v.AP50, v.All)}
	for k, t := range v.By {
		lines = append(lines, fmt.Sprintf("  %-18s %s", k, t))
	}
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n")
}

// JudgeDetector judges a folder's detector on n pictures: of held-out captions and of scattered objects, half of them
// damaged.
func JudgeDetector(ctx context.Context, pool *tensor.Pool, dir string, n int) (*DetectorEvaluation, error) {
	m, err := mask2former.Open(dir, features.On(pool, features.F32))
	if err != nil {
		return nil, err
	}
	defer m.Close()
	labels := scenes.Labels()
	if !slices.Equal(m.Classes(), labels) {
		return nil, fmt.Errorf("%s finds %s; scenes have %s", dir, strings.Join(m.Classes(), ", "), strings.Join(labels, ", "))
	}
	v := &DetectorEvaluation{Pictures: n, By: map[string]*DetectorTally{}}
	data, key := DetectorData{Scattered: 0.3, Damaged: 0.5}, rng.New(1).With("judge of detectors")
	var truth []boxes.Truth
	var found []boxes.Found
	for i, s := range HeldOut(n) {
		px, parts, kind := data.sighted(func() scenes.Scene { return s }, key.Sample(i))
		all, err := m.Detect(ctx, &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: px}, mask2former.Reading{Least: 0.01})
		if err != nil {
			return nil, err
		}
		rect := func(b [4]float64) boxes.Rect { return boxes.Rect{X: b[0], Y: b[1], W: b[2] - b[0], H: b[3] - b[1]} }
		for _, p := range parts {
			b, _ := p.Box()
			truth = append(truth, boxes.Truth{Rect: rect(b), Image: i, Class: slices.Index(labels, p.Label)})
		}
		for _, f := range all {
			found = append(found, boxes.Found{Rect: rect(f.Box), Image: i, Class: f.Label, Score: f.Score})
		}
		t := tally(parts, all)
		v.All.add(t)
		if v.By[kind] == nil {
			v.By[kind] = &DetectorTally{}
		}
		v.By[kind].add(t)
	}
	p := boxes.AveragePrecision(truth, found, len(labels))
	v.AP, v.AP50 = p.AP, p.AP50
	return v, nil
}

// tally is that of one picture.
func tally(parts []scenes.Part, found []mask2former.Instance) DetectorTally {
	const sure, close = 0.5, 0.5
	labels := scenes.Labels()
	t := DetectorTally{Things: len(parts), Pictures: 1}
	taken := make([]bool, len(parts))
	for _, f := range found {
		if f.Score <= sure {
			continue
		}
		t.Found++
		best, at := close, -1
		for k, p := range parts {
			b, _ := p.Box()
			if iou := detr.IoU(f.Box, b); !taken[k] && labels[f.Label] == p.Label && iou >= best {
				best, at = iou, k
			}
		}
		if at >= 0 {
			taken[at] = true
			t.Right, t.IoU = t.Right+1, t.IoU+best
		}
	}
	if t.Right == t.Things && t.Found == t.Things {
		t.Exact = 1
	}
	return t
}
