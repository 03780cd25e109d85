package vlm

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Card: Qwen-VL's vision towers. Patches are projected and go through layers that attend within
// their frame; Merge x Merge patches become a token of the language model. Half of a head's
// turning pairs turn by the row, half by the column.
//
//	Qwen2-VL    layer norms, QuickGELU                                          (arXiv 2409.12191)
//	Qwen2.5-VL  RMS norms, gated layers; patches are put in the order of windows, and all but a
//	            few layers attend within their window; the order is undone at the end (2502.13923)
//	Qwen3-VL    layer norms, GELU; a square table of positions, interpolated to the picture's
//	            grid, is added at first; states behind lower layers are merged, too  (2511.21631)
//	Qwen3.5     Qwen3-VL's, without states of lower layers
//
// The invariant: other pictures of the list change nothing.

// Tower is a vision tower.
type Tower struct {
	TowerConfig
	patches   *nn.Linear
	positions *nn.Linear // the table, as a product with weights of its rows; nil for none
	layers    []*towerLayer
	merger    *merger
	deep      []*merger
}

// Seen is a tower's output for pictures: tokens [1, tokens, Out], and, of Qwen3-VL, the additions to the language
// model's first layers in their places.
type Seen struct {
	States *autograd.Value
	Deep   []*autograd.Value
}

// newTower asks p for a tower's parameters.
func newTower(p *nn.Params, f Family, c TowerConfig) *Tower {
	t := &Tower{TowerConfig: c, patches: p.Patches("patch_embed.proj", c.Width, f.third(), c.Channels, c.Frames, c.Patch, c.Patch)}
	if c.Side > 0 {
		t.positions = p.LinearAs(nn.Stored{Weight: "pos_embed.weight", In: c.Side, Out: c.Width, Right: true})
	}
	for i := range c.Layers {
		t.layers = append(t.layers, newTowerLayer(p.At("blocks", i), f, c))
	}
	t.merger = newMerger(p.Sub("merger"), f, c, false)
	for i := range c.Deep {
		t.deep = append(t.deep, newMerger(p.At("deepstack_merger_list", i), f, c, true))
	}
	return t
}

func (c TowerConfig) patchWidth() int { return c.Channels * c.Frames * c.Patch * c.Patch }

// Forward sees patches [patches, Channels Frames Patch Patch].
func (t *Tower) Forward(tp *autograd.Tape, patches *autograd.Value, grids []Grid) (Seen, error) {
	o, err := t.orderOf(grids)
	if err != nil {
		return Seen{}, err
	}
	n := len(o.places)
	if patches.Dim(0) != n || patches.Dim(-1) != t.patchWidth() {
		return Seen{}, fmt.Errorf("patches of shape %v: the grids have %d, of %d numbers", patches.Shape(), n, t.patchWidth())
	}
	with := autograd.With{}
	if t.positions != nil {
		with.Residual = t.positions.Apply(tp, t.interpolated(tp, grids, o), autograd.With{})
	}
	x := t.patches.Apply(tp, tp.Gather(patches, o.rows, 1, n), with)
	turn := t.turns(tp, o)
	var seen Seen
	for i, l := range t.layers {
		see := o.within
		if t.whole(i) {
			see = o.whole
		}
		x = l.forward(tp, x, t.Heads, turn, see)
		if at := slices.Index(t.Deep, i); at >= 0 {
			seen.Deep = append(seen.Deep, o.undo(tp, t.deep[at].apply(tp, x)))
		}
	}
	seen.States = o.undo(tp, t.merger.apply(tp, x))
	return seen, nil
}

// order is the order of patches in the layers, and their attention.
type order struct {
	places        []Place // of the list
	rows          []int32 // of the list, in the layers' order
	back          []int32 // merged cells in the list's order; nil: as they are
	within, whole segments
}

func (t *Tower) orderOf(grids []Grid) (o order, err error) {
	if o.places, err = Places(grids, t.Merge); err != nil {
		return o, err
	}
	o.rows, o.whole = make([]int32, len(o.places)), segmentsOf(FrameEnds(grids))
	if t.Window == 0 {
		for i := range o.rows {
			o.rows[i] = int32(i)
		}
		return o, nil
	}
	cells, windows, err := Windows(grids, t.Merge, t.Window, t.Patch)
	if err != nil {
		return o, err
	}
	unit := t.Merge * t.Merge
	o.back, o.within = make([]int32, len(cells)), segmentsOf(windows)
	for i, cell := range cells {
		o.back[cell] = int32(i)
		for j := range unit {
			o.rows[i*unit+j] = int32(cell*unit + j)
		}
	}
	return o, nil
}

// undo puts merged cells back into the order of the list.
func (o order) undo(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	if o.back == nil {
		return x
	}
	return tp.Gather(x, o.back, 1, len(o.back))
}

// turns are the angles of patches: the first half of a head's pairs by row, the others by column.
func (t *Tower) turns(tp *autograd.Tape, o order) angles {
	pairs := t.Width / t.Heads / 2
	f := frequencies(1e4, pairs)
	return turned(tp, len(o.rows), pairs, 1, func(token, pair int) float32 {
		at := o.places[o.rows[token]]
		if pair < len(f) {
			return float32(at.Row) * f[pair]
		}
		return float32(at.Column) * f[pair-len(f)]
	})
}

// A tower's layers, and the layers that merge patches into tokens.

type towerLayer struct {
	before, between *nn.Norm
	qkv, out        *nn.Linear
	mlp             feedForward
}

type feedForward interface {
	Apply(tp *autograd.Tape, x *autograd.Value, o autograd.With) *autograd.Value
}

// towerEps is the norms' in every tower.
const towerEps = 1e-6

func newTowerLayer(l *nn.Params, f Family, c TowerConfig) *towerLayer {
	t := &towerLayer{qkv: l.Linear("attn.qkv", c.Width, 3*c.Width, true), out: l.Linear("attn.proj", c.Width, c.Width, true)}
	if f == FamilyQwen25VL {
		t.before, t.between = l.RMSNorm("norm1", c.Width, towerEps), l.RMSNorm("norm2", c.Width, towerEps)
		t.mlp = gated(l, c.Width, c.Inner, true)
		return t
	}
	t.before, t.between = l.LayerNorm("norm1", c.Width, towerEps), l.LayerNorm("norm2", c.Width, towerEps)
	up, down, act := "mlp.fc1", "mlp.fc2", kernels.QuickGELU
	if f.third() {
		up, down, act = "mlp.linear_fc1", "mlp.linear_fc2", kernels.GELUTanh
	}
	t.mlp = &nn.MLP{Up: l.Linear(up, c.Width, c.Inner, true), Down: l.Linear(down, c.Inner, c.Width, true), Act: act}
	return t
}

func (l *towerLayer) forward(tp *autograd.Tape, x *autograd.Value, heads int, turn angles, see segments) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		h := l.before.Apply(tp, in[0])
		w := h.Dim(-1)
		parts := tp.Split(l.qkv.Apply(tp, h, autograd.With{}), 2, w, w, w)
		a := see.attention(tp, turn.apply(tp, parts[0], heads), turn.apply(tp, parts[1], heads), parts[2], autograd.Attend{Heads: heads})
		y := l.out.Apply(tp, a, autograd.With{Residual: in[0]})
		return []*autograd.Value{l.mlp.Apply(tp, l.between.Apply(tp, y), autograd.With{Residual: y})}
	}, x)[0]
}

// merger makes tokens of Merge x Merge patches that follow each other in the list.
type merger struct {
	norm   *nn.Norm
	up     *nn.Linear
	down   *nn.Linear
	cells  int  // patches of a token
	behind bool // the norm is over a token's patches together
}

func newMerger(p *nn.Params, f Family, c TowerConfig, behind bool) *merger {
	m := &merger{cells: c.Merge * c.Merge, behind: behind}
	wide := c.Width * m.cells
	norm, up, down := "ln_q", "mlp.0", "mlp.2"
	if f.third() {
		norm, up, down = "norm", "linear_fc1", "linear_fc2"
	}
	over := c.Width
	if behind {
		over = wide
	}
	if f == FamilyQwen25VL {
		m.norm = p.RMSNorm(norm, over, towerEps)
	} else {
		m.norm = p.LayerNorm(norm, over, towerEps)
	}
	m.up, m.down = p.Linear(up, wide, wide, true), p.Linear(down, wide, c.Out, true)
	return m
}

func (m *merger) apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	n, width := x.Dim(1)/m.cells, x.Dim(2)*m.cells
	if m.behind {
		x = m.norm.Apply(tp, tp.Reshape(x, 1, n, width))
	} else {
		x = tp.Reshape(m.norm.Apply(tp, x), 1, n, width)
	}
	h := m.up.Apply(tp, x, autograd.With{Act: kernels.GELUErf})
	return m.down.Apply(tp, h, autograd.With{})
}

// Card: a square table of positions, resampled to a picture's grid by bilinear interpolation with aligned corners:
// patch i of n has the place i (side-1) / max(n-1, 1) in the table's rows. Source: transformers,
// get_vision_interpolation_indices_and_weights. The interpolation is a product of weights [patches, side side], four
// of a row not zero, with the table.

// interpolated are the weights of the table's rows for every patch, in the layers' order.
func (t *Tower) interpolated(tp *autograd.Tape, grids []Grid, o order) *autograd.Value {
	side := t.side()
	weights := make([]float32, len(o.rows)*t.Side)
	at := 0
	for _, g := range grids {
		rows, columns := taps(g.Rows, side), taps(g.Columns, side)
		for range g.Patches() {
			p := o.places[o.rows[at]]
			w := weights[at*t.Side:][:t.Side]
			for _, y := range rows[p.Row] {
				for _, x := range columns[p.Column] {
					w[y.at*side+x.at] += float32(y.weight * x.weight)
				}
			}
			at++
		}
	}
	pool := tp.Pool()
	u := pool.FromF32(kernels.F32, weights, 1, len(o.rows), t.Side)
	defer u.Free()
	return tp.Input(u)
}

// tap is a share of a row of a table.
type tap struct {
	at     int
	weight float32
}

// taps are the two rows that each of n places lies between.
func taps(n, side int) [][2]tap {
	all := make([][2]tap, n)
	for i := range all {
		src := float32(i*(side-1)) / float32(max(n-1, 1))
		low := int(src)
		part := src - float32(low)
		all[i] = [2]tap{{min(low, side-1), 1 - part}, {min(low+1, side-1), part}}
	}
	return all
}
