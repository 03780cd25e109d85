package blip

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Card: ImageReward, as THUDM/ImageReward computes it from BLIP (Li et al., 2022):
//
//	picture   ViT: class token and patches with positions; x += attn(norm(x)), x += mlp(norm(x));
//	          a last norm over all tokens
//	text      BERT: embeddings of words and places, norm; in each layer x = norm(x + self(x)),
//	          x = norm(x + cross(x, picture)), x = norm(x + mlp(x)); nothing is causal, padding
//	          is not seen
//	reward    five linear layers on the text's first token, with nothing between them
//
// (raw - 0.16717)/1.03334 is the published score. Nothing of the text's [DEC] and [ENC] tokens
// is used. Invariants (tests): rewards and gradients are those of transformers' own port of
// BLIP; a reward does not depend on its batch.

// Network is both towers and the head.
type Network struct {
	Shape
	class, positions *autograd.Param
	patch            *nn.Conv
	blocks           []*block
	last             *nn.Norm

	words, places *autograd.Param
	first         *nn.Norm
	layers        []*textLayer
	head          []*nn.Linear
}

// block is a layer of the picture's transformer.
type block struct {
	before, between *nn.Norm
	qkv, out        *nn.Linear
	mlp             *nn.MLP
	heads           int
}

// textLayer is a layer of the text's: each part with the norm that follows it.
type textLayer struct {
	self, cross *nn.Attention
	mlp         *nn.MLP
	after       [3]*nn.Norm
}

// The epsilons that are in no file.
const visionEps = 1e-6

// New asks p for a network's parameters.
func New(p *nn.Params, s Shape) *Network {
	p.Ignore(`blip\.text_encoder\.embeddings\.position_ids`)
	p.Ignore(`blip\.text_encoder\.(?:cls|pooler)\..*`)
	p.Ignore(`blip\.(?:vision_proj|text_proj|itm_head)\..*`) // of BLIP's training
	n := &Network{Shape: s}
	v := p.Sub("blip.visual_encoder")
	n.class, n.positions = v.Vector("cls_token", 1, 1, s.Width), v.Vector("pos_embed", 1, 1+s.Grid*s.Grid, s.Width)
	n.patch = v.Conv("patch_embed.proj", nn.Square(3, s.Width, s.Patch, s.Patch, 0), true)
	for i := range s.Blocks {
		b := v.At("blocks", i)
		n.blocks = append(n.blocks, &block{b.LayerNorm("norm1", s.Width, visionEps), b.LayerNorm("norm2", s.Width, visionEps),
			b.Linear("attn.qkv", s.Width, 3*s.Width, true), b.Linear("attn.proj", s.Width, s.Width, true),
			&nn.MLP{Up: b.Linear("mlp.fc1", s.Width, s.VisionInner, true), Down: b.Linear("mlp.fc2", s.VisionInner, s.Width, true), Act: kernels.GELUErf}, s.VisionHeads})
	}
	n.last = v.LayerNorm("norm", s.Width, visionEps)
	t := p.Sub("blip.text_encoder")
	n.words, n.places = t.Embedding("embeddings.word_embeddings", s.Vocabulary, s.Hidden), t.Embedding("embeddings.position_embeddings", s.Positions, s.Hidden)
	n.first = t.LayerNorm("embeddings.LayerNorm", s.Hidden, s.Eps)
	for i := range s.Layers {
		n.layers = append(n.layers, newTextLayer(t.At("encoder.layer", i), s))
	}
	h := p.Sub("mlp")
	in := s.Hidden
	for _, l := range s.Head {
		n.head = append(n.head, h.Linear(l.name, in, l.out, true))
		in = l.out
	}
	return n
}

func newTextLayer(p *nn.Params, s Shape) *textLayer {
	attention := func(name string, context int) *nn.Attention {
		a := p.Sub(name)
		return &nn.Attention{Heads: s.Heads, Q: a.Linear("self.query", s.Hidden, s.Hidden, true), K: a.Linear("self.key", context, s.Hidden, true),
			V: a.Linear("self.value", context, s.Hidden, true), Out: a.Linear("output.dense", s.Hidden, s.Hidden, true)}
	}
	return &textLayer{self: attention("attention", s.Hidden), cross: attention("crossattention", s.Width),
		mlp: &nn.MLP{Up: p.Linear("intermediate.dense", s.Hidden, s.Inner, true), Down: p.Linear("output.dense", s.Inner, s.Hidden, true), Act: kernels.GELUErf},
		after: [3]*nn.Norm{p.LayerNorm("attention.output.LayerNorm", s.Hidden, s.Eps), p.LayerNorm("crossattention.output.LayerNorm", s.Hidden, s.Eps),
			p.LayerNorm("output.LayerNorm", s.Hidden, s.Eps)}}
}

// See is pictures' tokens, [B, 1+Grid², Width].
func (n *Network) See(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	b := pictures.Dim(0)
	grid := n.patch.Apply(tp, pictures, nil)
	patches := tp.Reshape(grid, b, n.Grid*n.Grid, n.Width)
	class := tp.AddParam(tp.Upload("class token", make([]float32, b*n.Width), b, 1, n.Width), n.class)
	x := tp.AddParam(tp.Concat(1, class, patches), n.positions)
	for _, l := range n.blocks {
		x = l.forward(tp, x)
	}
	return n.last.Apply(tp, x)
}

func (l *block) forward(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		h := l.before.Apply(tp, in[0])
		wide := l.qkv.Apply(tp, h, autograd.With{})
		qkv := tp.Chunk(wide, 3)
		a := tp.Attention(qkv[0], qkv[1], qkv[2], autograd.Attend{Heads: l.heads})
		tp.Release(h, wide, qkv[0], qkv[1], qkv[2])
		y := l.out.Apply(tp, a, autograd.With{Residual: in[0]})
		tp.Release(a)
		return []*autograd.Value{l.mlp.Apply(tp, l.between.Apply(tp, y), autograd.With{Residual: y})}
	}, x)[0]
}

// Judge is raw rewards of pictures' tokens with texts, [B, 1]: rows of ids of one length, of
// which lens are the text's.
func (n *Network) Judge(tp *autograd.Tape, seen *autograd.Value, ids [][]int32, lens []int32) *autograd.Value {
	long := len(ids[0])
	flat, places, at := []int32(nil), make([]int32, 0, len(ids)*long), make([]int32, len(ids))
	for i, row := range ids {
		flat, at[i] = append(flat, row...), int32(i*long)
		for k := range row {
			places = append(places, int32(k))
		}
	}
	x := n.first.Apply(tp, tp.Add(tp.Embedding(n.words, flat, len(ids), long), tp.Embedding(n.places, places, len(ids), long)))
	for _, l := range n.layers {
		x = l.forward(tp, x, seen, lens)
	}
	y := tp.Gather(x, at)
	for i, l := range n.head {
		y = l.Apply(tp, y, autograd.With{Wide: i == len(n.head)-1})
	}
	return y
}

func (l *textLayer) forward(tp *autograd.Tape, x, seen *autograd.Value, lens []int32) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		x := l.after[0].Apply(tp, l.self.Apply(tp, in[0], in[0], autograd.Attend{KeyLens: lens}, autograd.With{Residual: in[0]}))
		x = l.after[1].Apply(tp, l.cross.Apply(tp, x, in[1], autograd.Attend{}, autograd.With{Residual: x}))
		return []*autograd.Value{l.after[2].Apply(tp, l.mlp.Apply(tp, x, autograd.With{Residual: x}))}
	}, x, seen)[0]
}
