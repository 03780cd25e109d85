package rtdetr

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/dino"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Card: RF-DETR (Robinson et al., 2025) is a DINOv2 whose layers see windows of a picture apart, all but a few, one
// map of the states after some layers, and the decoder of RT-DETR with boxes that stay: the likeliest pixels give
// boxes, learned ones move them, and queries are learned,
//
//	box   = move(move(pixel, mlp(pixel)), learned),   move(a, d) = (a.xy + d.xy·a.wh, a.wh·exp(d.wh))
//	place = mlp(sines(box)), of all layers
//
// and the last layer's mlp moves the box once more. Held to eyes.rf_detr.

// rfConfig is config.json of an RfDetrForObjectDetection.
type rfConfig struct {
	Backbone   rfBackbone        `json:"backbone_config"`
	Width      int               `json:"d_model"`
	FF         int               `json:"decoder_ffn_dim"`
	Layers     int               `json:"decoder_layers"`
	SelfHeads  int               `json:"decoder_self_attention_heads"`
	CrossHeads int               `json:"decoder_cross_attention_heads"`
	Points     int               `json:"decoder_n_points"`
	DecoderAct string            `json:"decoder_activation_function"`
	Queries    int               `json:"num_queries"`
	Groups     int               `json:"group_detr"`
	Blocks     int               `json:"c2f_num_blocks"`
	Expansion  float64           `json:"hidden_expansion"`
	Act        string            `json:"activation_function"`
	Bias       bool              `json:"attention_bias"`
	Eps        float32           `json:"layer_norm_eps"`
	Levels     int               `json:"num_feature_levels"`
	Labels     map[string]string `json:"id2label"`
}

// rfBackbone is "backbone_config" of an RfDetrDinov2.
type rfBackbone struct {
	dino.Config
	Windows int   `json:"num_windows"`
	Apart   []int `json:"window_block_indexes"` // layers that see windows apart; nil: all without a map
	Maps    []int `json:"out_indices"`
	Normed  bool  `json:"apply_layernorm"`
}

func readRFConfig(dir string) (rfConfig, error) {
	c := rfConfig{Width: 256, FF: 2048, Layers: 3, SelfHeads: 8, CrossHeads: 16, Points: 4, DecoderAct: "relu", Queries: 300, Groups: 13, Blocks: 3, Expansion: 0.5, Act: "silu", Bias: true, Eps: 1e-5, Levels: 1,
		Backbone: rfBackbone{Windows: 4, Maps: []int{2, 5, 8, 11}, Normed: true,
			Config: dino.Config{Kind: "rf_detr_dinov2", Width: 384, Ratio: 4, Layers: 12, Heads: 6, Act: "gelu", Eps: 1e-6, Side: 518, Patch: 14, Channels: 3, Bias: true}}}
	if err := hub.Config(dir, &c, "RfDetrForObjectDetection", "rf_detr"); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c *rfConfig) check() error {
	var l hub.Limits
	b := &c.Backbone
	l.Must(b.Kind == "rf_detr_dinov2", `"backbone_config" is of a %q; "rf_detr_dinov2" is known`, b.Kind)
	b.Kind, b.Smooth = "dinov2", true
	l.Must(!b.SwiGLU, `"use_swiglu_ffn" is true; false is known`)
	l.Must(b.Normed, `"apply_layernorm" is false; true is known`)
	l.Int("num_windows", b.Windows, 1, 64)
	l.Must(len(b.Maps) > 0 && len(b.Maps) <= 64, `"out_indices" has %d layers; 1 to 64 are read`, len(b.Maps))
	slices.Sort(b.Maps)
	for _, i := range b.Maps {
		l.Int("out_indices", i, 0, b.Layers)
	}
	if b.Apart == nil {
		for i := range min(b.Layers, 256) {
			if !slices.Contains(b.Maps, i) {
				b.Apart = append(b.Apart, i)
			}
		}
	}
	l.Int("d_model", c.Width, 4, 1<<14)
	l.Int("decoder_ffn_dim", c.FF, 1, 1<<16)
	l.Int("decoder_layers", c.Layers, 1, 64)
	l.Int("decoder_self_attention_heads", c.SelfHeads, 1, 256)
	l.Int("decoder_cross_attention_heads", c.CrossHeads, 1, 256)
	l.Must(c.Width%4 == 0 && c.Width%max(c.SelfHeads, 1) == 0 && c.Width%max(c.CrossHeads, 1) == 0, `"d_model" %d must be a multiple of 4 and of both numbers of heads, %d and %d`, c.Width, c.SelfHeads, c.CrossHeads)
	l.Int("decoder_n_points", c.Points, 1, 64)
	l.Int("num_queries", c.Queries, 1, 1<<12)
	l.Int("group_detr", c.Groups, 1, 256)
	l.Int("c2f_num_blocks", c.Blocks, 0, 64)
	l.Int("num_feature_levels", c.Levels, 1, 1)
	l.Float("hidden_expansion", c.Expansion, 0.01, 16)
	l.Must(c.inside() >= 1, `"hidden_expansion" %v leaves no channels of d_model %d`, c.Expansion, c.Width)
	l.Must(c.Bias, `"attention_bias" is false; true is known`)
	for key, name := range map[string]string{"activation_function": c.Act, "decoder_activation_function": c.DecoderAct} {
		_, ok := acts[name]
		l.Must(ok, `%q is %q; "silu", "relu" and "gelu" are known`, key, name)
	}
	checkLabels(&l, c.Labels)
	if err := l.Err(); err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return fmt.Errorf(`"backbone_config": %w`, err)
	}
	return nil
}

// inside is the width of the parts of the map's mix.
func (c *rfConfig) inside() int { return int(float64(c.Width) * c.Expansion) }

// OpenRF reads a folder of an RF-DETR. Pictures have the size of its preprocessor_config.json.
func OpenRF(dir string, device *features.Device) (*Model, error) {
	c, err := readRFConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	m := &Model{Config: Config{Kind: "rf_detr", Queries: c.Queries, Labels: c.Labels}, device: device, multiple: c.Backbone.Patch * c.Backbone.Windows}
	if m.Prepare, err = detr.ReadProcessor(dir, detr.PlainProcessor(560), true); err != nil {
		return nil, err
	}
	m.side = m.Prepare.Height
	if m.side != m.Prepare.Width || m.side < m.multiple || m.side%m.multiple != 0 {
		return nil, fmt.Errorf("%s: pictures of %d x %d; squares are read, of a multiple of %d windows of patches of %d\nhint: \"size\" of preprocessor_config.json says so", dir, m.Prepare.Width, m.side, c.Backbone.Windows, c.Backbone.Patch)
	}
	thirds := func(set *safetensors.Set) nn.Source { return detr.Thirds(set, "in_proj_weight", "in_proj_bias") }
	if err := m.load(dir, thirds, func(p *nn.Params) network { return newRF(p, c, m.side) }); err != nil {
		return nil, err
	}
	return m, nil
}

// rf is an RfDetrForObjectDetection.
type rf struct {
	c           rfConfig
	backbone    *dino.Network
	first, last *normed // of the mix
	blocks      [][2]*normed
	after       *nn.Norm

	memory     *nn.Linear
	memoryNorm *nn.Norm
	score      *nn.Linear
	box        detr.Layers
	learned    *autograd.Param
	move       []float32 // of each query's box

	place   detr.Layers
	decoder []*decoderLayer
	norm    *nn.Norm
	classes *nn.Linear
	final   detr.Layers
}

// normed is act(norm(conv(x))).
type normed struct {
	conv *nn.Conv
	norm *nn.Norm
}

func newRF(p *nn.Params, c rfConfig, side int) *rf {
	p.Ignore("transformer\\.enc_out[a-z_]*\\.[1-9]\\d*\\..*") // groups of the training
	n, w, t := &rf{c: c, backbone: dino.New(p.Sub("backbone.0.encoder.encoder"), c.Backbone.Config, side)}, c.Width, p.Sub("transformer")
	n.newMix(p.Sub("backbone.0.projector.stages.0"))
	n.memory, n.memoryNorm = t.Linear("enc_output.0", w, w, true), t.LayerNorm("enc_output_norm.0", w, 1e-5)
	n.score, n.box = t.Linear("enc_out_class_embed.0", w, len(c.Labels), true), head(t.Sub("enc_out_bbox_embed.0"), w, w, 4, 3)
	all := c.Queries * c.Groups
	n.learned = p.Embedding("query_feat", all, w)
	if b := p.Buffer("refpoint_embed.weight", func() []float32 { return make([]float32, all*4) }, all, 4); b != nil {
		n.move = b.Rows(0, c.Queries)
	}
	d := t.Sub("decoder")
	n.place = head(d.Sub("ref_point_head"), 2*w, w, w, 2)
	for i := range c.Layers {
		l := d.At("layers", i)
		a, points := l.Sub("cross_attn"), c.CrossHeads*c.Points
		n.decoder = append(n.decoder, &decoderLayer{attention: selfAttention(l, w, c.SelfHeads), offsets: a.Linear("sampling_offsets", w, 2*points, true), weights: a.Linear("attention_weights", w, points, true),
			value: a.Linear("value_proj", w, w, true), out: a.Linear("output_proj", w, w, true),
			after: l.LayerNorm("norm1", w, 1e-5), cross: l.LayerNorm("norm2", w, 1e-5), last: l.LayerNorm("norm3", w, 1e-5),
			mlp: &nn.MLP{Up: l.Linear("linear1", w, c.FF, true), Down: l.Linear("linear2", c.FF, w, true), Act: acts[c.DecoderAct]}})
	}
	n.norm, n.classes, n.final = d.LayerNorm("norm", w, 1e-5), p.Linear("class_embed", w, len(c.Labels), true), head(p.Sub("bbox_embed"), w, w, 4, 3)
	return n
}

// newMix asks for the layers that make one map of the backbone's.
func (n *rf) newMix(p *nn.Params) {
	inside, at := n.c.inside(), p.Sub("0")
	layer := func(p *nn.Params, name string, in, out, kernel int) *normed {
		return &normed{p.Conv(name+".conv", nn.Square(in, out, kernel, 1, kernel/2), false), p.LayerNorm(name+".bn", out, n.c.Eps)}
	}
	n.first = layer(at, "cv1", len(n.c.Backbone.Maps)*n.c.Backbone.Width, 2*inside, 1)
	for i := range n.c.Blocks {
		b := at.At("m", i)
		n.blocks = append(n.blocks, [2]*normed{layer(b, "cv1", inside, inside, 3), layer(b, "cv2", inside, inside, 3)})
	}
	n.last = layer(at, "cv2", (2+n.c.Blocks)*inside, n.c.Width, 1)
	n.after = p.LayerNorm("1", n.c.Width, 1e-6)
}

// mixed is one map of a picture, [B, H, W, Width].
func (n *rf) mixed(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	layer := func(l *normed, x *autograd.Value) *autograd.Value {
		return tp.Unary(acts[n.c.Act], l.norm.Apply(tp, l.conv.Apply(tp, x, nil)))
	}
	b := n.c.Backbone
	x := layer(n.first, tp.Concat(3, n.backbone.Maps(tp, pictures, dino.Windows{Side: b.Windows, Apart: b.Apart, After: b.Maps})...))
	all := tp.Split(x, 3, n.c.inside(), n.c.inside())
	x = all[1]
	for _, block := range n.blocks {
		x = layer(block[1], layer(block[0], x))
		all = append(all, x)
	}
	return n.after.Apply(tp, layer(n.last, tp.Concat(3, all...)))
}

// Forward is the logits [B, queries, classes] and the boxes [B, queries, 4] of pictures [B, H, W, 3].
func (n *rf) Forward(tp *autograd.Tape, pictures *autograd.Value) (logits, boxes []float32) {
	m := n.mixed(tp, pictures)
	sizes, source, b := detr.Sizes(m), detr.Flat(tp, m), pictures.Dim(0)
	boxes = n.boxes(tp, source, sizes)
	looks := detr.Places{Levels: sizes, Heads: n.c.CrossHeads, Coordinates: 4, Points: []int{n.c.Points}, Refs: boxes, Spread: slices.Repeat([]float32{float32(0.5 / float64(n.c.Points))}, n.c.Points)}
	place := n.place.Apply(tp, tp.Upload("sines", boxSines(boxes, n.c.Width/2), b, n.c.Queries, 2*n.c.Width))
	x := tp.Embedding(n.learned, detr.Numbers(0, n.c.Queries, b), b, n.c.Queries)
	for _, l := range n.decoder {
		x = l.forward(tp, x, place, source, looks)
	}
	x = n.norm.Apply(tp, x)
	return n.classes.Apply(tp, x, autograd.With{}).F32(), shifted(boxes, n.final.Apply(tp, x).F32())
}

// boxes are those of the pixels with the likeliest classes, moved by the learned ones.
func (n *rf) boxes(tp *autograd.Tape, source *autograd.Value, sizes []detr.Size) []float32 {
	b, pixels, s := source.Dim(0), source.Dim(1), sizes[0]
	_, inside := detr.Anchors(sizes)
	memory := n.memoryNorm.Apply(tp, n.memory.Apply(tp, kept(tp, source, inside), autograd.With{}))
	best := detr.Most(n.score.Apply(tp, memory, autograd.With{}).F32(), len(n.c.Labels))
	for i := range best {
		if !inside[i%pixels] {
			best[i] = float32(math.Inf(-1))
		}
	}
	rows := likeliest(best, b, n.c.Queries)
	by := n.box.Apply(tp, tp.Gather(tp.Reshape(memory, b*pixels, n.c.Width), rows, b, n.c.Queries)).F32()
	var from []float32
	for _, row := range rows {
		at := int(row) % pixels
		if !inside[at] {
			from = append(from, 0, 0, 0, 0)
			continue
		}
		from = append(from, float32((float64(at%s.W)+0.5)/float64(s.W)), float32((float64(at/s.W)+0.5)/float64(s.H)), 0.05, 0.05)
	}
	return shifted(shifted(from, by), slices.Repeat(n.move, b))
}

// shifted are boxes (cx, cy, w, h) whose middles moved by shares of their sides, and whose sides grew by exp.
func shifted(boxes, by []float32) []float32 {
	out := make([]float32, len(boxes))
	for i, d := range by {
		side := float64(boxes[i/4*4+2+i%2])
		if i%4 < 2 {
			out[i] = float32(float64(float64(d)*side) + float64(boxes[i]))
		} else {
			out[i] = float32(portable.Exp(float64(d)) * side)
		}
	}
	return out
}

// boxSines are sines and cosines of each box's cy, cx, w and h, each of the given features.
func boxSines(boxes []float32, features int) []float32 {
	out := make([]float32, 0, len(boxes)*features)
	for at := 0; at < len(boxes); at += 4 {
		for _, k := range []int{1, 0, 2, 3} {
			out = append(out, detr.Waves(float64(boxes[at+k]), features, 10000)...)
		}
	}
	return out
}
