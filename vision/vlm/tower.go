package vlm

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Card: Qwen2.5-VL's vision tower (arXiv 2502.13923). Patches are projected, put in the order of
// windows, and go through layers that attend within their window, but for a few that attend
// within their frame; merged cells of Merge x Merge patches become tokens of the language
// model, and go back to the order of the list. Half of a head's turning pairs turn by the row,
// half by the column. The invariant: what other pictures are in the list changes nothing.

// Tower is a vision tower.
type Tower struct {
	TowerConfig
	patches       *nn.Linear
	layers        []*towerLayer
	norm          *nn.Norm
	merge, merge2 *nn.Linear
}

type towerLayer struct {
	before, between *nn.Norm
	qkv, out        *nn.Linear
	mlp             *nn.GatedMLP
}

// NewTower asks p for a tower's parameters.
func NewTower(p *nn.Params, c TowerConfig) *Tower {
	t := &Tower{TowerConfig: c, patches: p.Patches("patch_embed.proj", c.Width, false, c.Channels, c.Frames, c.Patch, c.Patch)}
	for i := range c.Layers {
		l := p.At("blocks", i)
		t.layers = append(t.layers, &towerLayer{
			before: l.RMSNorm("norm1", c.Width, 1e-6), between: l.RMSNorm("norm2", c.Width, 1e-6),
			qkv: l.Linear("attn.qkv", c.Width, 3*c.Width, true), out: l.Linear("attn.proj", c.Width, c.Width, true),
			mlp: gated(l, c.Width, c.Inner, true),
		})
	}
	wide := c.Width * c.Merge * c.Merge
	t.norm = p.RMSNorm("merger.ln_q", c.Width, 1e-6)
	t.merge, t.merge2 = p.Linear("merger.mlp.0", wide, wide, true), p.Linear("merger.mlp.2", wide, c.Out, true)
	return t
}

func gated(p *nn.Params, width, inner int, bias bool) *nn.GatedMLP {
	return &nn.GatedMLP{Up: p.Linear("mlp.up_proj", width, inner, bias), Gate: p.Linear("mlp.gate_proj", width, inner, bias),
		Down: p.Linear("mlp.down_proj", inner, width, bias), Act: kernels.SiLU}
}

// Forward makes tokens [1, tokens, Out] of patches [patches, Channels Frames Patch Patch].
func (t *Tower) Forward(tp *autograd.Tape, patches *autograd.Value, grids []Grid) (*autograd.Value, error) {
	cells, windows, err := Windows(grids, t.Merge, t.Window, t.Patch)
	if err != nil {
		return nil, err
	}
	places, err := Places(grids, t.Merge)
	if err != nil {
		return nil, err
	}
	n, unit := len(places), t.Merge*t.Merge
	if width := t.Channels * t.Frames * t.Patch * t.Patch; patches.Dim(0) != n || patches.Dim(-1) != width {
		return nil, fmt.Errorf("patches of shape %v: the grids have %d, of %d numbers", patches.Shape(), n, width)
	}
	order, back := make([]int32, n), make([]int32, len(cells))
	for i, cell := range cells {
		back[cell] = int32(i)
		for j := range unit {
			order[i*unit+j] = int32(cell*unit + j)
		}
	}
	pairs := t.Width / t.Heads / 2
	f := frequencies(1e4, pairs)
	turn := turned(tp, n, pairs, func(token, pair int) float32 {
		at := places[order[token]]
		if pair < len(f) {
			return float32(at.Row) * f[pair]
		}
		return float32(at.Column) * f[pair-len(f)]
	})
	within := segmentsOf(windows)
	whole := segmentsOf(FrameEnds(grids))
	x := t.patches.Apply(tp, tp.Gather(patches, order, 1, n), autograd.With{})
	for i, l := range t.layers {
		see := within
		if t.whole(i) {
			see = whole
		}
		x = l.forward(tp, x, t.Heads, turn, see)
	}
	wide := tp.Reshape(t.norm.Apply(tp, x), 1, len(cells), unit*t.Width)
	h := t.merge.Apply(tp, wide, autograd.With{Act: kernels.GELUErf})
	return tp.Gather(t.merge2.Apply(tp, h, autograd.With{}), back, 1, len(back)), nil
}

func (l *towerLayer) forward(tp *autograd.Tape, x *autograd.Value, heads int, turn angles, see segments) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		h := l.before.Apply(tp, in[0])
		w := h.Dim(-1)
		parts := tp.Split(l.qkv.Apply(tp, h, autograd.With{}), 2, w, w, w)
		a := see.attention(tp, turn.apply(tp, parts[0], heads), turn.apply(tp, parts[1], heads), parts[2], heads)
		y := l.out.Apply(tp, a, autograd.With{Residual: in[0]})
		return []*autograd.Value{l.mlp.Apply(tp, l.between.Apply(tp, y), autograd.With{Residual: y})}
	}, x)[0]
}

// segments are stretches of a list that attend to themselves alone.
type segments struct {
	longest int
	lengths []int32
	in, out []int32 // rows of the padded list, and back; nil where all are as long
}

func segmentsOf(ends []int) segments {
	var s segments
	equal := true
	for i := 1; i < len(ends); i++ {
		n := ends[i] - ends[i-1]
		s.lengths = append(s.lengths, int32(n))
		s.longest = max(s.longest, n)
		equal = equal && n == ends[1]-ends[0]
	}
	if equal {
		return s
	}
	for i, n := range s.lengths {
		for j := range int32(s.longest) {
			s.in = append(s.in, int32(ends[i])+min(j, n-1))
			if j < n {
				s.out = append(s.out, int32(i*s.longest)+j)
			}
		}
	}
	return s
}

// attention is that of [1, rows, C] within segments.
func (s segments) attention(tp *autograd.Tape, q, k, v *autograd.Value, heads int) *autograd.Value {
	rows, width := q.Dim(1), q.Dim(2)
	pad := func(x *autograd.Value) *autograd.Value {
		if s.in != nil {
			return tp.Gather(x, s.in, len(s.lengths), s.longest)
		}
		return tp.Reshape(x, len(s.lengths), s.longest, width)
	}
	y := tp.Attention(pad(q), pad(k), pad(v), autograd.Attend{Heads: heads, KeyLens: s.lengths})
	if s.out != nil {
		return tp.Gather(y, s.out, 1, rows)
	}
	return tp.Reshape(y, 1, rows, width)
}
