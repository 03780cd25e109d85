package clip

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

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

// NewSight asks p for a picture tower without its projection: what is read is its tokens.
func NewSight(p *nn.Params, c VisionConfig) *Vision {
	m := p.Sub("vision_model")
	m.Ignore("embeddings\\.position_ids")
	shape := nn.Square(c.Channels, c.Width, c.Patch, c.Patch, 0)
	return &Vision{VisionConfig: c, class: m.Vector("embeddings.class_embedding", c.Width), patch: m.Conv("embeddings.patch_embedding", shape, false),
		positions: m.Vector("embeddings.position_embedding.weight", c.Tokens(), c.Width),
		pre:       m.LayerNorm("pre_layrnorm", c.Width, c.Eps), layers: newLayers(m, c.Encoder),
		post: m.LayerNorm("post_layernorm", c.Width, c.Eps)}
}

// VisionOut is what a picture tower says of each picture.
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

// BeforeLast is the tokens of pictures before the last layer, [B, Tokens, Width]: what Wan's networks
// read of them.
func (v *Vision) BeforeLast(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	return v.through(tp, pictures, len(v.layers)-1)
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
