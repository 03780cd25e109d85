package dino

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Card: a class token before the patches, positions added, then
//
//	ViT      x += attention(norm(x)), x += mlp(norm(x))
//	DINOv2   the same, each branch times a scale a channel; mlp may be SwiGLU
//
// and a last norm. Held to neural.dino.

// Network is a ViTModel or a Dinov2Model.
type Network struct {
	Config
	side             int // of pictures
	class, positions *autograd.Param
	patch            *nn.Conv
	layers           []*layer
	last             *nn.Norm
}

type layer struct {
	before, between *nn.Norm
	attention       *nn.Attention
	mlp             mlp
	scale           [2]*autograd.Param // of the branches, nil where there is none
}

type mlp interface {
	Apply(tp *autograd.Tape, x *autograd.Value, o autograd.With) *autograd.Value
}

// New asks p for a network's parameters; it will read pictures of side x side.
func New(p *nn.Params, c Config, side int) *Network {
	p.Ignore("(?:pooler|classifier)\\..*")
	for _, prefix := range []string{"vit", "dinov2", "encoder"} {
		if !p.Has("embeddings.cls_token") && p.Has(prefix+".embeddings.cls_token") {
			p = p.Sub(prefix)
			p.Ignore("pooler\\..*")
		}
	}
	p.Ignore("embeddings\\.mask_token")
	w, grid := c.Width, c.Side/c.Patch
	n := &Network{Config: c, side: side, class: p.Vector("embeddings.cls_token", 1, 1, w),
		patch: p.Conv("embeddings.patch_embeddings.projection", nn.Square(3, w, c.Patch, c.Patch, 0), true)}
	tokens := 1 + grid*grid
	if b := p.Buffer("embeddings.position_embeddings", func() []float32 { return make([]float32, tokens*w) }, 1, tokens, w); b != nil {
		x, err := resized(b.Rows(0, tokens), grid, side/c.Patch, w)
		if err == nil { // sizes were checked
			n.positions = p.Constant("embeddings.position_embeddings", x, len(x)/w, w)
		}
	}
	for i := range c.Layers {
		n.layers = append(n.layers, newLayer(p.At("encoder.layer", i), c))
	}
	n.last = p.LayerNorm("layernorm", w, c.Eps)
	return n
}

func newLayer(p *nn.Params, c Config) *layer {
	w, a := c.Width, p.Sub("attention.attention")
	l := &layer{attention: &nn.Attention{Heads: c.Heads, Q: a.Linear("query", w, w, c.Bias), K: a.Linear("key", w, w, c.Bias), V: a.Linear("value", w, w, c.Bias),
		Out: p.Linear("attention.output.dense", w, w, true)}}
	act := activations[c.Act]
	if c.Kind == "vit" {
		l.before, l.between = p.LayerNorm("layernorm_before", w, c.Eps), p.LayerNorm("layernorm_after", w, c.Eps)
		l.mlp = &nn.MLP{Up: p.Linear("intermediate.dense", w, c.Inner, true), Down: p.Linear("output.dense", c.Inner, w, true), Act: act}
		return l
	}
	l.before, l.between = p.LayerNorm("norm1", w, c.Eps), p.LayerNorm("norm2", w, c.Eps)
	l.scale = [2]*autograd.Param{p.Vector("layer_scale1.lambda1", w), p.Vector("layer_scale2.lambda1", w)}
	if c.SwiGLU {
		l.mlp = &swiglu{p.Linear("mlp.weights_in", w, 2*c.Inner, true), p.Linear("mlp.weights_out", c.Inner, w, true)}
		return l
	}
	l.mlp = &nn.MLP{Up: p.Linear("mlp.fc1", w, c.Inner, true), Down: p.Linear("mlp.fc2", c.Inner, w, true), Act: act}
	return l
}

// swiglu is out(silu(first half of in) · second half): nn.GatedMLP has the halves the other
// way round.
type swiglu struct{ in, out *nn.Linear }

// Apply computes the layer; o is the epilogue of the last product.
func (s *swiglu) Apply(tp *autograd.Tape, x *autograd.Value, o autograd.With) *autograd.Value {
	wide := s.in.Apply(tp, x, autograd.With{})
	halves := tp.Chunk(wide, 2)
	g := tp.GLU(kernels.SiLU, halves[1], halves[0])
	tp.Release(wide, halves[0], halves[1])
	y := s.out.Apply(tp, g, o)
	tp.Release(g)
	return y
}

// Forward is pictures' class tokens after the last norm, [B, Width].
func (n *Network) Forward(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	x := n.states(tp, pictures)
	at := make([]int32, x.Dim(0))
	for i := range at {
		at[i] = int32(i * x.Dim(1))
	}
	return n.last.Apply(tp, tp.Gather(x, at))
}

// Patches are all tokens but the class's after the last norm, a picture's in a row: [B, patches · Width].
func (n *Network) Patches(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	x := n.last.Apply(tp, n.states(tp, pictures))
	patches := tp.Split(x, 1, 1, x.Dim(1)-1)[1]
	return tp.Reshape(patches, x.Dim(0), patches.Dim(1)*n.Width)
}

// states are all tokens before the last norm, [B, 1 + patches, Width].
func (n *Network) states(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	b := pictures.Dim(0)
	grid := n.patch.Apply(tp, pictures, nil)
	patches := tp.Reshape(grid, b, grid.Dim(1)*grid.Dim(2), n.Width)
	class := tp.AddParam(tp.Upload("class token", make([]float32, b*n.Width), b, 1, n.Width), n.class)
	x := tp.AddParam(tp.Concat(1, class, patches), n.positions)
	for _, l := range n.layers {
		x = l.forward(tp, x)
	}
	return x
}

func (l *layer) forward(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		h := l.before.Apply(tp, in[0])
		y := l.attention.Apply(tp, h, h, autograd.Attend{}, l.branch(tp, 0, in[0]))
		tp.Release(h)
		g := l.between.Apply(tp, y)
		return []*autograd.Value{l.mlp.Apply(tp, g, l.branch(tp, 1, y))}
	}, x)[0]
}

// branch is the epilogue that scales branch i and adds it to x.
func (l *layer) branch(tp *autograd.Tape, i int, x *autograd.Value) autograd.With {
	o := autograd.With{Residual: x}
	if s := l.scale[i]; s != nil {
		b, w := x.Dim(0), x.Dim(-1)
		o.Gate = tp.AddParam(tp.Upload("scale", make([]float32, b*w), b, w), s)
	}
	return o
}
