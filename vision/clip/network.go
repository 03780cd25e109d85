package clip

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// A tower's layers: x += out(attention(norm(x))), x += mlp(norm(x)).

type layer struct {
	before, between *nn.Norm
	attention       attention
	mlp             *nn.MLP
}

// attention is nn.Attention, or one whose queries, keys and values are one product.
type attention interface {
	Apply(tp *autograd.Tape, x, context *autograd.Value, at autograd.Attend, o autograd.With) *autograd.Value
}

func newLayers(p *nn.Params, c Encoder) []*layer {
	layers := make([]*layer, c.Layers)
	for i := range layers {
		l := p.At("encoder.layers", i)
		a, w := l.Sub("self_attn"), c.Width
		layers[i] = &layer{
			before: l.LayerNorm("layer_norm1", w, c.Eps), between: l.LayerNorm("layer_norm2", w, c.Eps),
			attention: &nn.Attention{Heads: c.Heads, Q: a.Linear("q_proj", w, w, true), K: a.Linear("k_proj", w, w, true),
				V: a.Linear("v_proj", w, w, true), Out: a.Linear("out_proj", w, w, true)},
			mlp: &nn.MLP{Up: l.Linear("mlp.fc1", w, c.Inner, true), Down: l.Linear("mlp.fc2", c.Inner, w, true), Act: activations[c.Act]},
		}
	}
	return layers
}

func (l *layer) forward(tp *autograd.Tape, x *autograd.Value, causal bool) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		h := l.before.Apply(tp, in[0])
		y := l.attention.Apply(tp, h, h, autograd.Attend{Causal: causal}, autograd.With{Residual: in[0]})
		tp.Release(h)
		g := l.between.Apply(tp, y)
		return []*autograd.Value{l.mlp.Apply(tp, g, autograd.With{Residual: y})}
	}, x)[0]
}

// Text is a text tower: causal, pooled at the end token.
type Text struct {
	TextConfig
	tokens, positions *autograd.Param
	layers            []*layer
	final             *nn.Norm
	projection        *nn.Linear // nil without one
}

// NewText asks p for a text tower's parameters, and for its projection where projected is
// set. transformers 5 leaves "text_model." out of the names; both are read.
func NewText(p *nn.Params, c TextConfig, projected bool) *Text {
	m := p.Sub("text_model")
	if p.Has("embeddings.token_embedding.weight") {
		m = p
	}
	m.Ignore("embeddings\\.position_ids")
	t := &Text{TextConfig: c, tokens: m.Embedding("embeddings.token_embedding", c.Vocabulary, c.Width),
		positions: m.Embedding("embeddings.position_embedding", c.Positions, c.Width),
		layers:    newLayers(m, c.Encoder), final: m.LayerNorm("final_layer_norm", c.Width, c.Eps)}
	if projected {
		t.projection = p.Linear("text_projection", c.Width, c.Out, false)
	}
	return t
}

// TextOut is a text tower's output for each text.
type TextOut struct {
	Last      *autograd.Value // [B, S, Width], after the final norm
	Before    *autograd.Value // [B, S, Width], the input of the last layer: SD3 and SDXL read it
	Pooled    *autograd.Value // [B, Width]
	Projected *autograd.Value // [B, Out], where there is a projection
}

// Forward encodes texts of one length, as rows of ids.
func (t *Text) Forward(tp *autograd.Tape, ids [][]int32) TextOut {
	n, flat, at := len(ids[0]), []int32(nil), []int32(nil)
	for i, row := range ids {
		if len(row) != n || n > t.Positions {
			panic(fmt.Sprintf("clip: texts of %d and %d tokens in one call; at most %d fit", n, len(row), t.Positions))
		}
		flat = append(flat, row...)
		at = append(at, int32(i*n+t.end(row)))
	}
	places := make([]int32, len(flat))
	for i := range places {
		places[i] = int32(i % n)
	}
	x := tp.Add(tp.Embedding(t.tokens, flat, len(ids), n), tp.Embedding(t.positions, places, len(ids), n))
	var out TextOut
	for i, l := range t.layers {
		if i == len(t.layers)-1 {
			out.Before = x
		}
		x = l.forward(tp, x, true)
	}
	out.Last = t.final.Apply(tp, x)
	out.Pooled = tp.Gather(out.Last, at)
	if t.projection != nil {
		out.Projected = t.projection.Apply(tp, out.Pooled, autograd.With{Wide: true})
	}
	return out
}

// end is where a text is pooled.
func (t *Text) end(row []int32) int {
	best := 0
	for i, id := range row {
		if t.End == 2 {
			if id > row[best] {
				best = i
			}
		} else if id == int32(t.End) {
			return i
		}
	}
	return best
}

// Vision is a picture tower: a class token before the patches, pooled at it.
type Vision struct {
	VisionConfig
	patch            *nn.Conv
	class, positions *autograd.Param
	pre, post        *nn.Norm
	layers           []*layer
	projection       *nn.Linear
}

// NewVision asks p for a picture tower's parameters and its projection.
func NewVision(p *nn.Params, c VisionConfig) *Vision {
	v := NewSight(p, c)
	v.projection = p.Linear("visual_projection", c.Width, c.Out, false)
	return v
}

// NewSight asks p for a picture tower without its projection: its tokens are read.
func NewSight(p *nn.Params, c VisionConfig) *Vision {
	m := p.Sub("vision_model")
	m.Ignore("embeddings\\.position_ids")
	shape := nn.Square(c.Channels, c.Width, c.Patch, c.Patch, 0)
	return &Vision{VisionConfig: c, class: m.Vector("embeddings.class_embedding", c.Width), patch: m.Conv("embeddings.patch_embedding", shape, false),
		positions: m.Vector("embeddings.position_embedding.weight", c.Tokens(), c.Width),
		pre:       m.LayerNorm("pre_layrnorm", c.Width, c.Eps), layers: newLayers(m, c.Encoder),
		post: m.LayerNorm("post_layernorm", c.Width, c.Eps)}
}

// VisionOut is a picture tower's output for each picture.
type VisionOut struct {
	Last      *autograd.Value // [B, 1 + patches, Width], before the last norm
	Pooled    *autograd.Value // [B, Width]: the class token, after it
	Projected *autograd.Value // [B, Out]
}

// Forward encodes pictures [B, Side, Side, Channels].
func (v *Vision) Forward(tp *autograd.Tape, pictures *autograd.Value) VisionOut {
	x := v.through(tp, pictures, len(v.layers))
	at := make([]int32, x.Dim(0))
	for i := range at {
		at[i] = int32(i * x.Dim(1))
	}
	pooled := v.post.Apply(tp, tp.Gather(x, at))
	return VisionOut{Last: x, Pooled: pooled, Projected: v.projection.Apply(tp, pooled, autograd.With{Wide: true})}
}

// BeforeLast is the tokens of pictures before the last layer, [B, Tokens, Width]: Wan's networks read them.
func (v *Vision) BeforeLast(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	return v.through(tp, pictures, len(v.layers)-1)
}

// Normed is all tokens of pictures after the last norm, [B, Tokens, Width]: the class first.
func (v *Vision) Normed(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	return v.post.Apply(tp, v.through(tp, pictures, len(v.layers)))
}

// through is the tokens of pictures after some layers.
func (v *Vision) through(tp *autograd.Tape, pictures *autograd.Value, layers int) *autograd.Value {
	b := pictures.Dim(0)
	if pictures.Dim(1) != v.Side || pictures.Dim(2) != v.Side {
		panic(fmt.Sprintf("clip: pictures of %d x %d for a tower of %d x %d", pictures.Dim(1), pictures.Dim(2), v.Side, v.Side))
	}
	grid := v.patch.Apply(tp, pictures, nil)
	patches := tp.Reshape(grid, b, grid.Dim(1)*grid.Dim(2), v.Width)
	class := tp.AddParam(tp.Upload("class token", make([]float32, b*v.Width), b, 1, v.Width), v.class)
	x := v.pre.Apply(tp, tp.AddParam(tp.Concat(1, class, patches), v.positions))
	for _, l := range v.layers[:layers] {
		x = l.forward(tp, x, false)
	}
	return x
}

// Model is both towers and the scale between them.
type Model struct {
	Text   *Text
	Vision *Vision
	scale  *autograd.Param
}

// New asks p for both towers.
func New(p *nn.Params, c Config) *Model { return newModel(p, c, true) }

func newModel(p *nn.Params, c Config, texts bool) *Model {
	m := &Model{Vision: NewVision(p, c.Vision)}
	if !texts {
		p.Ignore("text_model\\..*", "text_projection\\..*", "logit_scale")
		return m
	}
	m.Text, m.scale = NewText(p, c.Text, true), p.Vector("logit_scale")
	return m
}

// Scale is the logarithm of the scale, as a value [1, 1] whose gradient reaches it.
func (m *Model) Scale(tp *autograd.Tape) *autograd.Value {
	t := tp.Pool().Zeros(kernels.F32, 1, 1)
	defer t.Free()
	return tp.AddParam(tp.Input(t), m.scale)
}
