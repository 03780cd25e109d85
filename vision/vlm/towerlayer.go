package vlm

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

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
