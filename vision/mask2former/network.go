package mask2former

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/swin"
)

// Card: Mask2Former. Maps of the backbone become one width; those of strides 32, 16 and 8 attend to each other in
// few places (detr.Places); the map of stride 4 has theirs added, and masks are made of its pixels.
// Queries then look at one map after another, the coarsest first, each where its mask so far is:
//
//	x  = norm(x + attention(x + place, map + place of pixels, map | mask))     all of the map where the mask is empty
//	x  = norm(x + attention(x + place, x + place, x))
//	x  = norm(x + mlp(x))
//	mask = <mlp(norm(x)), pixel>,  class = linear(norm(x))
//
// PreNorm has its norms before instead. Held to eyes.mask2former.

// levels are the maps that queries look at.
const levels = 3

// points are those of a head and a level.
const points = 4

// Network is a Mask2FormerForUniversalSegmentation.
type Network struct {
	c        Config
	backbone *swin.Network
	inputs   []scaled // of maps, the coarsest first
	level    *autograd.Param
	encoder  []*encoderLayer
	lateral  scaled
	output   *nn.Conv
	outNorm  *nn.GroupNorm
	pixels   *nn.Linear

	look            []*nn.Linear // nil where widths agree
	lookLevel       *autograd.Param
	places, queries *autograd.Param
	decoder         []*decoderLayer
	last            *nn.Norm
	mask            detr.Layers
	classes         *nn.Linear
}

// scaled is a convolution of 1 x 1 and a norm over channels.
type scaled struct {
	linear *nn.Linear
	norm   *nn.GroupNorm
}

func (s scaled) apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return s.norm.Apply(tp, s.linear.Apply(tp, x, autograd.With{}), kernels.Identity)
}

type encoderLayer struct {
	offsets, weights, value, out *nn.Linear
	after, last                  *nn.Norm
	mlp                          *nn.MLP
}

type decoderLayer struct {
	cross, self                   *nn.Attention
	afterCross, afterSelf, afterM *nn.Norm
	mlp                           *nn.MLP
}

// normEps is of all norms here.
const normEps = 1e-5

// New asks p for a network's parameters; its source has q_proj, k_proj and v_proj of cross-attention apart
// (detr.Thirds).
func New(p *nn.Params, c Config) *Network {
	p.Ignore("criterion\\..*")
	m := p.Sub("model")
	d := m.Sub("pixel_level_module.decoder")
	channels, w := c.Backbone.Channels(), c.Feature
	n := &Network{c: c, backbone: swin.New(m.Sub("pixel_level_module.encoder"), c.Backbone), level: d.Vector("level_embed", levels, w)}
	for i := range levels {
		in := channels[len(channels)-1-i]
		n.inputs = append(n.inputs, scaled{d.Pointwise(fmt.Sprintf("input_projections.%d.0", i), in, w, true), d.GroupNorm(fmt.Sprintf("input_projections.%d.1", i), w, groups, normEps)})
	}
	for i := range c.Encoder {
		n.encoder = append(n.encoder, newEncoderLayer(d.At("encoder.layers", i), c))
	}
	n.lateral = scaled{d.Pointwise("adapter_1.0", channels[0], w, false), d.GroupNorm("adapter_1.1", w, groups, normEps)}
	n.output, n.outNorm = d.Conv("layer_1.0", nn.Square(w, w, 3, 1, 1), false), d.GroupNorm("layer_1.1", w, groups, normEps)
	n.pixels = d.Pointwise("mask_projection", w, c.Mask, true)

	t, h := m.Sub("transformer_module"), c.Hidden
	for i := range levels {
		var look *nn.Linear
		if h != w || c.Project {
			look = t.Pointwise(fmt.Sprintf("input_projections.%d", i), w, h, true)
		}
		n.look = append(n.look, look)
	}
	n.lookLevel, n.places, n.queries = t.Embedding("level_embed", levels, h), t.Embedding("queries_embedder", c.Queries, h), t.Embedding("queries_features", c.Queries, h)
	for i := range c.Decoder - 1 {
		n.decoder = append(n.decoder, newDecoderLayer(t.At("decoder.layers", i), c))
	}
	n.last = t.LayerNorm("decoder.layernorm", h, normEps)
	for i := range 3 {
		out := h
		if i == 2 {
			out = c.Mask
		}
		n.mask = append(n.mask, t.Linear(fmt.Sprintf("decoder.mask_predictor.mask_embedder.%d.0", i), h, out, true))
	}
	n.classes = p.Linear("class_predictor", h, len(c.Labels)+1, true)
	return n
}

func newEncoderLayer(p *nn.Params, c Config) *encoderLayer {
	w, a := c.Feature, p.Sub("self_attn")
	return &encoderLayer{offsets: a.Linear("sampling_offsets", w, c.Heads*levels*points*2, true), weights: a.Linear("attention_weights", w, c.Heads*levels*points, true),
		value: a.Linear("value_proj", w, w, true), out: a.Linear("output_proj", w, w, true), after: p.LayerNorm("self_attn_layer_norm", w, normEps),
		last: p.LayerNorm("final_layer_norm", w, normEps), mlp: &nn.MLP{Up: p.Linear("fc1", w, c.Inner, true), Down: p.Linear("fc2", c.Inner, w, true), Act: kernels.ReLU}}
}

func newDecoderLayer(p *nn.Params, c Config) *decoderLayer {
	h := c.Hidden
	attention := func(p *nn.Params) *nn.Attention {
		return &nn.Attention{Heads: c.Heads, Q: p.Linear("q_proj", h, h, true), K: p.Linear("k_proj", h, h, true), V: p.Linear("v_proj", h, h, true), Out: p.Linear("out_proj", h, h, true)}
	}
	return &decoderLayer{cross: attention(p.Sub("cross_attn")), self: attention(p.Sub("self_attn")), afterCross: p.LayerNorm("cross_attn_layer_norm", h, normEps),
		afterSelf: p.LayerNorm("self_attn_layer_norm", h, normEps), afterM: p.LayerNorm("final_layer_norm", h, normEps),
		mlp: &nn.MLP{Up: p.Linear("fc1", h, c.Forward, true), Down: p.Linear("fc2", c.Forward, h, true), Act: kernels.ReLU}}
}

// Out is a network's answer.
type Out struct {
	Classes *autograd.Value // [B, queries, classes + 1]
	Masks   *autograd.Value // [B, pixels, queries]
	Size    detr.Size       // of the masks
	// Earlier are the answers before each layer of the decoder: the losses of training read them, too.
	Earlier []Out
}

// Forward asks about pictures [B, H, W, 3] whose sides are multiples of 32.
func (n *Network) Forward(tp *autograd.Tape, pictures *autograd.Value) Out {
	maps, pixels := n.decode(tp, n.backbone.Forward(tp, pictures))
	b, h := pictures.Dim(0), n.c.Hidden
	var keys, seen []*autograd.Value
	for i, m := range maps {
		x, s := detr.Flat(tp, m), detr.Sizes(m)[0]
		if l := n.look[i]; l != nil {
			x = l.Apply(tp, x, autograd.With{})
		}
		x = tp.Add(x, tp.Embedding(n.lookLevel, detr.Numbers(i, i+1, b*s.H*s.W), b, s.H*s.W))
		at := tp.Upload("places of pixels", detr.Repeat(detr.Sines(s, h/2, 10000), b), b, s.H*s.W, h)
		seen, keys = append(seen, x), append(keys, tp.Add(x, at))
	}
	at, x := tp.Embedding(n.places, detr.Numbers(0, n.c.Queries, b), b, n.c.Queries), tp.Embedding(n.queries, detr.Numbers(0, n.c.Queries, b), b, n.c.Queries)
	sizes := detr.Sizes(maps...)
	out := n.answer(tp, x, pixels)
	for i, l := range n.decoder {
		level := i % levels
		x = l.forward(tp, x, at, keys[level], seen[level], n.visible(tp, out, sizes[level]), n.c.PreNorm)
		earlier := append(out.Earlier, out)
		out = n.answer(tp, x, pixels)
		out.Earlier = earlier
	}
	return out
}

// decode is the maps that queries look at, the coarsest first, and that of masks' pixels.
func (n *Network) decode(tp *autograd.Tape, from []*autograd.Value) (maps []*autograd.Value, pixels *autograd.Value) {
	b, w := from[0].Dim(0), n.c.Feature
	var flat []*autograd.Value
	var sizes []detr.Size
	var sines []float32
	var of []int32
	for i, in := range n.inputs {
		x := in.apply(tp, from[len(from)-1-i])
		s := detr.Sizes(x)[0]
		sizes, flat = append(sizes, s), append(flat, detr.Flat(tp, x))
		sines = append(sines, detr.Sines(s, w/2, 10000)...)
		of = append(of, detr.Numbers(i, i+1, s.H*s.W)...)
	}
	x, total := tp.Concat(1, flat...), detr.Pixels(sizes)
	level := tp.Embedding(n.level, repeated(of, b), b, total)
	places := tp.Add(tp.Upload("places", detr.Repeat(sines, b), b, total, w), level)
	looks := detr.Places{Levels: sizes, Heads: n.c.Heads, Points: []int{points, points, points}, Refs: detr.Grid(sizes, b), Coordinates: 2}
	for _, l := range n.encoder {
		x = l.forward(tp, x, places, looks)
	}
	lengths := make([]int, levels)
	for i, s := range sizes {
		lengths[i] = s.H * s.W
	}
	for i, part := range tp.Split(x, 1, lengths...) {
		maps = append(maps, tp.Reshape(part, b, sizes[i].H, sizes[i].W, w))
	}
	fine := n.lateral.apply(tp, from[0])
	fine = tp.Add(fine, detr.Resize(tp, maps[levels-1], detr.Sizes(fine)[0]))
	fine = tp.Unary(kernels.ReLU, n.outNorm.Apply(tp, n.output.Apply(tp, fine, nil), kernels.Identity))
	return maps, n.pixels.Apply(tp, fine, autograd.With{})
}

// repeated is x, some times in a row.
func repeated(x []int32, times int) (all []int32) {
	for range times {
		all = append(all, x...)
	}
	return all
}

func (l *encoderLayer) forward(tp *autograd.Tape, x, places *autograd.Value, looks detr.Places) *autograd.Value {
	q, b, s := tp.Add(x, places), x.Dim(0), x.Dim(1)
	offsets := l.offsets.Apply(tp, q, autograd.With{})
	weights := tp.Softmax(tp.Reshape(l.weights.Apply(tp, q, autograd.With{}), b, s*looks.Heads, levels*points))
	y := looks.Apply(tp, l.value.Apply(tp, x, autograd.With{}), offsets, tp.Reshape(weights, b, s, looks.Heads*levels*points))
	x = l.after.Apply(tp, l.out.Apply(tp, y, autograd.With{Residual: x}))
	return l.last.Apply(tp, l.mlp.Apply(tp, x, autograd.With{Residual: x}))
}

// answer is the classes and masks of queries as they are now.
func (n *Network) answer(tp *autograd.Tape, x, pixels *autograd.Value) Out {
	y := n.last.Apply(tp, x)
	return Out{Classes: n.classes.Apply(tp, y, autograd.With{}), Masks: tp.Products(detr.Flat(tp, pixels), n.mask.Apply(tp, y)), Size: detr.Sizes(pixels)[0]}
}

// hidden is added to the score of a pixel outside a query's mask.
var hidden = float32(math.Inf(-1))

// visible is the bias of scores of a map's pixels: 0 inside a query's mask, -Inf outside.
func (n *Network) visible(tp *autograd.Tape, o Out, s detr.Size) *autograd.Value {
	b, q := o.Masks.Dim(0), n.c.Queries
	pixels := s.H * s.W
	bias := make([]float32, b*n.c.Heads*q*pixels)
	small := detr.Resized(o.Masks.F32(), b, o.Size, s, q)
	for i := range b {
		for k := range q {
			row := bias[(i*n.c.Heads*q+k)*pixels:][:pixels]
			seen := 0
			for at := range row {
				if small[(i*pixels+at)*q+k] < 0 {
					row[at] = hidden
				} else {
					seen++
				}
			}
			if seen == 0 {
				clear(row)
			}
			for h := 1; h < n.c.Heads; h++ {
				copy(bias[((i*n.c.Heads+h)*q+k)*pixels:], row)
			}
		}
	}
	t := tp.Pool().FromF32(kernels.F32, bias, b, n.c.Heads, q, pixels)
	defer t.Free()
	return tp.Input(t)
}

func (l *decoderLayer) forward(tp *autograd.Tape, x, at, keys, seen, visible *autograd.Value, before bool) *autograd.Value {
	norm := func(n *nn.Norm, x *autograd.Value, here bool) *autograd.Value {
		if !here {
			return x
		}
		return n.Apply(tp, x)
	}
	attend := func(a *nn.Attention, q, k, v *autograd.Value, o autograd.Attend, residual *autograd.Value) *autograd.Value {
		o.Heads = a.Heads
		y := tp.Attention(a.Q.Apply(tp, q, autograd.With{}), a.K.Apply(tp, k, autograd.With{}), a.V.Apply(tp, v, autograd.With{}), o)
		return a.Out.Apply(tp, y, autograd.With{Residual: residual})
	}
	h := norm(l.afterCross, x, before)
	x = norm(l.afterCross, attend(l.cross, tp.Add(h, at), keys, seen, autograd.Attend{Bias: visible}, x), !before)
	h = norm(l.afterSelf, x, before)
	q := tp.Add(h, at)
	x = norm(l.afterSelf, attend(l.self, q, q, h, autograd.Attend{}, x), !before)
	return norm(l.afterM, l.mlp.Apply(tp, norm(l.afterM, x, before), autograd.With{Residual: x}), !before)
}
