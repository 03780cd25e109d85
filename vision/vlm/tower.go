package vlm

import (
	"fmt"
	"slices"

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
// The invariant: what other pictures are in the list changes nothing.

// Tower is a vision tower.
type Tower struct {
	TowerConfig
	patches   *nn.Linear
	positions *nn.Linear // the table, as a product with weights of its rows; nil for none
	layers    []*towerLayer
	merger    *merger
	deep      []*merger
}

// Seen is what a tower makes of pictures: tokens [1, tokens, Out], and, of Qwen3-VL, what is
// added to the language model's first layers in their places.
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

// order is in which order patches go through the layers, and what they see.
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
