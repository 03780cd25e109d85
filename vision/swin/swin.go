// Package swin is the Swin Transformer (Liu et al., 2021) as detectors use it: maps of several sizes from a picture
// of any size, with the parameter names of the hub's SwinBackbone.
//
//	n := swin.New(p.Sub("backbone"), config)
//	maps := n.Forward(tp, pictures)
//
// Pictures are [B, H, W, 3], channels last, and so are maps.
package swin

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is "backbone_config" of a detector's config.json.
type Config struct {
	Kind     string   `json:"model_type"`
	Width    int      `json:"embed_dim"`
	Depths   []int    `json:"depths"`
	Heads    []int    `json:"num_heads"`
	Window   int      `json:"window_size"`
	Ratio    float64  `json:"mlp_ratio"`
	Patch    int      `json:"patch_size"`
	Eps      float32  `json:"layer_norm_eps"`
	Bias     bool     `json:"qkv_bias"`
	Act      string   `json:"hidden_act"`
	Absolute bool     `json:"use_absolute_embeddings"`
	Features []string `json:"out_features"`
	Indices  []int    `json:"out_indices"`
}

// SetDefaults are those of transformers.
func (c *Config) SetDefaults() {
	*c = Config{Kind: "swin", Width: 96, Depths: []int{2, 2, 6, 2}, Heads: []int{3, 6, 12, 24}, Window: 7, Ratio: 4, Patch: 4, Eps: 1e-5, Bias: true, Act: "gelu"}
}

// Check refuses settings that are not done here.
func (c *Config) Check(l *hub.Limits) {
	l.Must(c.Kind == "swin", `"backbone_config" is of a %q; "swin" is known`, c.Kind)
	l.Int("embed_dim", c.Width, 1, 1<<12)
	l.Int("window_size", c.Window, 1, 64)
	l.Int("patch_size", c.Patch, 1, 64)
	l.Float("mlp_ratio", c.Ratio, 0.01, 64)
	l.Int("depths", len(c.Depths), 1, 8)
	l.Must(len(c.Heads) == len(c.Depths), `"num_heads" has %d stages, "depths" %d`, len(c.Heads), len(c.Depths))
	for i, d := range c.Depths {
		l.Int("depths", d, 1, 256)
		if i < len(c.Heads) {
			l.Must(c.Heads[i] > 0 && c.width(i)%max(c.Heads[i], 1) == 0, `"num_heads" %d of stage %d does not divide its width %d`, c.Heads[i], i+1, c.width(i))
		}
	}
	l.Must(!c.Absolute, `"use_absolute_embeddings" is true; relative positions are known`)
	l.Must(c.Act == "gelu", `"hidden_act" is %q; "gelu" is known`, c.Act)
	for _, s := range c.stages() {
		l.Must(s >= 1 && s <= len(c.Depths), `"out_features" names stage %d of %d`, s, len(c.Depths))
	}
}

// stages are the numbers of the stages whose maps are asked for, from 1.
func (c *Config) stages() []int {
	if len(c.Indices) > 0 {
		return c.Indices
	}
	var all []int
	for _, f := range c.Features {
		n := 0
		if _, err := fmt.Sscanf(f, "stage%d", &n); err != nil {
			return []int{0}
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		all = []int{len(c.Depths)}
	}
	return all
}

func (c *Config) width(stage int) int { return c.Width << stage }

// Channels are the widths of the maps.
func (c *Config) Channels() []int {
	var all []int
	for _, s := range c.stages() {
		all = append(all, c.width(s-1))
	}
	return all
}

// Card: patches, then stages of blocks, between which 2 x 2 tokens become one of twice the width.
//
//	x += attention(norm(x)) within windows of Window x Window; every second block shifts them by half a window
//	x += mlp(norm(x))
//
// Scores have a bias for each difference of places, a table a block. Maps are padded to whole windows with zeros
// after the norm, whatever their size; tokens that a shift brings together from opposite borders do not see each
// other. A stage's map has a norm of its own. Held to eyes.mask2former and eyes.grounding_dino.

// Network is a SwinBackbone.
type Network struct {
	Config
	patch  *nn.Conv
	norm   *nn.Norm
	stages []*stage
}

type stage struct {
	blocks []*block
	merge  *nn.Norm // nil in the last
	reduce *nn.Linear
	out    *nn.Norm // nil where the map is not asked for
}

type block struct {
	heads, window, shift int
	before, between      *nn.Norm
	attention            *nn.Attention
	table                *autograd.Param
	mlp                  *nn.MLP
}

// normEps is of the norms that take no number from the config.
const normEps = 1e-5

// New asks p for a backbone's parameters.
func New(p *nn.Params, c Config) *Network {
	p.Ignore("swin\\.layernorm\\..*", "layernorm\\..*", "(?:swin\\.)?encoder\\.layers\\..*relative_position_index")
	body := p
	if p.Has("swin.embeddings.norm.weight") {
		body = p.Sub("swin")
	}
	n := &Network{Config: c, patch: body.Conv("embeddings.patch_embeddings.projection", nn.Square(3, c.Width, c.Patch, c.Patch, 0), true),
		norm: body.LayerNorm("embeddings.norm", c.Width, normEps)}
	for i, depth := range c.Depths {
		s, w := &stage{}, c.width(i)
		at := body.At("encoder.layers", i)
		for k := range depth {
			s.blocks = append(s.blocks, newBlock(at.At("blocks", k), c, w, c.Heads[i], k%2*(c.Window/2)))
		}
		if i < len(c.Depths)-1 {
			s.merge, s.reduce = at.LayerNorm("downsample.norm", 4*w, normEps), at.Linear("downsample.reduction", 4*w, 2*w, false)
		}
		if slices.Contains(c.stages(), i+1) {
			s.out = p.LayerNorm(fmt.Sprintf("hidden_states_norms.stage%d", i+1), w, normEps)
		}
		n.stages = append(n.stages, s)
	}
	return n
}

func newBlock(p *nn.Params, c Config, w, heads, shift int) *block {
	a, inner, side := p.Sub("attention.self"), int(c.Ratio*float64(w)), 2*c.Window-1
	return &block{heads: heads, window: c.Window, shift: shift,
		before: p.LayerNorm("layernorm_before", w, c.Eps), between: p.LayerNorm("layernorm_after", w, c.Eps),
		attention: &nn.Attention{Heads: heads, Q: a.Linear("query", w, w, c.Bias), K: a.Linear("key", w, w, c.Bias), V: a.Linear("value", w, w, c.Bias),
			Out: p.Linear("attention.output.dense", w, w, true)},
		table: a.Vector("relative_position_bias_table", side*side, heads),
		mlp:   &nn.MLP{Up: p.Linear("intermediate.dense", w, inner, true), Down: p.Linear("output.dense", inner, w, true), Act: kernels.GELUErf}}
}

// Forward is the maps of pictures; sides that the patch does not divide are padded with zeros.
func (n *Network) Forward(tp *autograd.Tape, pictures *autograd.Value) (maps []*autograd.Value) {
	for axis := 1; axis <= 2; axis++ {
		if rest := pictures.Dim(axis) % n.Patch; rest != 0 {
			shape := append([]int(nil), pictures.Shape()...)
			shape[axis] = n.Patch - rest
			zeros := make([]float32, shape[0]*shape[1]*shape[2]*shape[3])
			pictures = tp.Concat(axis, pictures, tp.Upload("outside", zeros, shape...))
		}
	}
	x := n.norm.Apply(tp, n.patch.Apply(tp, pictures, nil))
	for _, s := range n.stages {
		for _, b := range s.blocks {
			x = b.forward(tp, x)
		}
		if s.out != nil {
			maps = append(maps, s.out.Apply(tp, x))
		}
		if s.merge != nil {
			x = s.halve(tp, x)
		}
	}
	return maps
}

// halve makes one token of 2 x 2: the column on the left first, from above.
func (s *stage) halve(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	var at []int32
	for i := range b {
		for y := 0; y < h; y += 2 {
			for x := 0; x < w; x += 2 {
				for k := range 4 {
					at = append(at, token(i, y+k%2, x+k/2, b, h, w))
				}
			}
		}
	}
	four := tp.Reshape(rows(tp, x, at, b, (h+1)/2, (w+1)/2*4), b, (h+1)/2, (w+1)/2, 4*c)
	return s.reduce.Apply(tp, s.merge.Apply(tp, four), autograd.With{})
}

// token is the row of a place; the row after all is that of places outside.
func token(sample, y, x, b, h, w int) int32 {
	if y >= h || x >= w {
		return int32(b * h * w)
	}
	return int32((sample*h+y)*w + x)
}

// rows takes tokens of a map by number; the one after the last is zero.
func rows(tp *autograd.Tape, x *autograd.Value, at []int32, dims ...int) *autograd.Value {
	n, c := x.Dim(0)*x.Dim(1)*x.Dim(2), x.Dim(3)
	all := tp.Reshape(x, n, c)
	if slices.Contains(at, int32(n)) {
		all = tp.Concat(0, all, tp.Upload("outside", make([]float32, c), 1, c))
	}
	return tp.Gather(all, at, dims...)
}

func (k *block) forward(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	v := newWindows(k.window, k.shift, b, h, w)
	seen := rows(tp, k.before.Apply(tp, x), v.from, v.count, k.window*k.window)
	y := k.attention.Apply(tp, seen, seen, autograd.Attend{Bias: k.bias(tp, v)}, autograd.With{})
	back := tp.Reshape(tp.Gather(tp.Reshape(y, y.Dim(0)*y.Dim(1), c), v.back, b, h*w), b, h, w, c)
	x = tp.Add(x, back)
	return k.mlp.Apply(tp, k.between.Apply(tp, x), autograd.With{Residual: x})
}

// windows say which token is where.
type windows struct {
	window, shift int
	count         int     // windows of all samples
	from          []int32 // a window's tokens, one after the other
	back          []int32 // where each token went
	region        []uint8 // of a window's tokens: those of different ones do not see each other; nil without a shift
}

func newWindows(window, shift, b, h, w int) windows {
	up := func(n int) int { return (n + window - 1) / window * window }
	ph, pw := up(h), up(w)
	v := windows{window: window, shift: shift, count: b * (ph / window) * (pw / window), back: make([]int32, b*h*w)}
	part := func(i, n int) uint8 {
		switch {
		case i < n-window:
			return 0
		case i < n-shift:
			return 1
		}
		return 2
	}
	for i := range b {
		for top := 0; top < ph; top += window {
			for left := 0; left < pw; left += window {
				for k := range window * window {
					y, x := top+k/window, left+k%window
					t := token(i, (y+shift)%ph, (x+shift)%pw, b, h, w)
					if int(t) < len(v.back) {
						v.back[t] = int32(len(v.from))
					}
					v.from = append(v.from, t)
					if shift > 0 {
						v.region = append(v.region, 3*part(y, ph)+part(x, pw))
					}
				}
			}
		}
	}
	return v
}

// masked is added to the score of a pair that does not see each other.
const masked = -100

// bias is the sum of table and mask for scores of windows, [1 or windows, heads, tokens, tokens].
func (k *block) bias(tp *autograd.Tape, v windows) *autograd.Value {
	n, side := k.window*k.window, 2*k.window-1
	offset := func(q, key int) int32 {
		return int32((q/k.window-key/k.window+k.window-1)*side + q%k.window - key%k.window + k.window - 1)
	}
	count := 1
	if v.region != nil {
		count = v.count
	}
	index := make([]int32, 0, count*n*n)
	for i := range count {
		for q := range n {
			for key := range n {
				at := offset(q, key)
				if v.region != nil && v.region[i*n+q] != v.region[i*n+key] {
					at = int32(side * side)
				}
				index = append(index, at)
			}
		}
	}
	hidden := slices.Repeat([]float32{masked}, k.heads)
	last := tp.Pool().FromF32(kernels.F32, hidden, 1, k.heads)
	defer last.Free()
	table := tp.Concat(0, tp.EmbeddingWide(k.table, every(side*side), side*side), tp.Input(last))
	return tp.Permute(tp.Gather(table, index, count, n, n), 0, 3, 1, 2)
}

// every is 0 to n-1.
func every(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}
