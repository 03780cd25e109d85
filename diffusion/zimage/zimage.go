// Package zimage is the transformer of Z-Image (Tongyi, 2025, arXiv 2511.22699), with diffusers' parameter
// names (ZImageTransformer2DModel): picture and text are refined apart, then go through layers as one
// stream.
//
// Start with Model.Forward. Tokens become sequences of a multiple of 32, whose padding is seen. The time is the clean
// share, 1 - sigma, and the output points from clean to noise with the sign turned: pipelines negate it.
package zimage

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/portable"
)

// Config is config.json of a ZImageTransformer2DModel.
type Config struct {
	Patches []int   `json:"all_patch_size"`
	Frames  []int   `json:"all_f_patch_size"`
	In      int     `json:"in_channels"`
	Width   int     `json:"dim"`
	Layers  int     `json:"n_layers"`
	Refine  int     `json:"n_refiner_layers"`
	Heads   int     `json:"n_heads"`
	KVHeads int     `json:"n_kv_heads"`
	Eps     float32 `json:"norm_eps"`
	QKNorm  bool    `json:"qk_norm"`
	Caption int     `json:"cap_feat_dim"`
	Sight   *int    `json:"siglip_feat_dim"`
	Theta   float64 `json:"rope_theta"`
	Times   float64 `json:"t_scale"`
	Axes    []int   `json:"axes_dims"` // of a head: caption or picture, row, column
	Longest []int   `json:"axes_lens"` // places along each of them
}

// Patch is the side of a token in latents.
func (c Config) Patch() int { return c.Patches[0] }

// timeWidth is the width of the modulations' time input.
func (c Config) timeWidth() int { return min(c.Width, 256) }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{Patches: []int{2}, Frames: []int{1}, In: 16, Width: 3840, Layers: 30, Refine: 2, Heads: 30, KVHeads: 30, Eps: 1e-5, QKNorm: true,
		Caption: 2560, Theta: 256, Times: 1000, Axes: []int{32, 48, 48}, Longest: []int{1024, 512, 512}}
	if err := hub.Config(dir, &c, "ZImageTransformer2DModel"); err != nil {
		return c, err
	}
	return c, c.Check()
}

// Check reports every setting that makes no sense.
func (c Config) Check() error {
	var l hub.Limits
	l.Int("in_channels", c.In, 1, 1024)
	l.Int("dim", c.Width, 1, 1<<16)
	l.Int("n_layers", c.Layers, 0, 512)
	l.Int("n_refiner_layers", c.Refine, 0, 512)
	l.Int("n_heads", c.Heads, 1, 1024)
	l.Int("cap_feat_dim", c.Caption, 1, 1<<16)
	l.Float("norm_eps", float64(c.Eps), 0, 1)
	l.Float("rope_theta", c.Theta, 1.001, 1e9)
	l.Float("t_scale", c.Times, 1e-3, 1e6)
	l.Must(len(c.Patches) == 1 && slices.Equal(c.Frames, []int{1}) && c.Patches[0] >= 1 && c.Patches[0] <= 16,
		`"all_patch_size" is %v and "all_f_patch_size" %v; one patch of pictures is known`, c.Patches, c.Frames)
	l.Must(c.KVHeads == c.Heads, `"n_kv_heads" is %d and "n_heads" %d; they must be equal`, c.KVHeads, c.Heads)
	l.Must(c.Sight == nil, `"siglip_feat_dim" is set: Z-Image-Omni, which sees pictures, is not known`)
	l.Must(len(c.Axes) == 3 && len(c.Longest) == 3, `"axes_dims" and "axes_lens" have %d and %d numbers; 3 are needed`, len(c.Axes), len(c.Longest))
	if err := l.Err(); err != nil {
		return err
	}
	l.Must(c.Width%c.Heads == 0, `"dim" %d is no multiple of "n_heads" %d`, c.Width, c.Heads)
	mmdit.CheckAxes(&l, "axes_dims", c.Axes, c.Width/c.Heads)
	for _, n := range c.Longest {
		l.Int("axes_lens", n, 1, 1<<20)
	}
	return l.Err()
}

// Model is the network: latents and a caption's states in, a number for every number of latents out.
type Model struct {
	Config
	in, words               *nn.Linear
	wordNorm                *nn.Norm
	timeMLP                 *nn.MLP
	picture, caption, joint []*layer
	noPixel, noWord         *autograd.Param // padding of sequences
	norm                    *nn.Norm
	modulateOut, out        *nn.Linear
}

// Of the time's embedding.
const (
	waves = 256
	inner = 1024
)

// New asks p for the network's parameters; p.Check reports problems with them.
func New(p *nn.Params, c Config) *Model {
	w, patch := c.Width, c.Patch()*c.Patch()*c.In
	kind := fmt.Sprintf("%d-1", c.Patch())
	m := &Model{Config: c, norm: nn.PlainNorm(kernels.LayerNorm, 1e-6), in: p.Linear("all_x_embedder."+kind, patch, w, true),
		wordNorm: p.RMSNorm("cap_embedder.0", c.Caption, c.Eps), words: p.Linear("cap_embedder.1", c.Caption, w, true),
		noPixel: p.Vector("x_pad_token", 1, w), noWord: p.Vector("cap_pad_token", 1, w)}
	m.timeMLP = &nn.MLP{Up: p.Linear("t_embedder.mlp.0", waves, inner, true), Down: p.Linear("t_embedder.mlp.2", inner, c.timeWidth(), true), Act: kernels.SiLU}
	m.picture, m.caption = newLayers(p, "noise_refiner", c.Refine, c, true), newLayers(p, "context_refiner", c.Refine, c, false)
	m.joint = newLayers(p, "layers", c.Layers, c, true)
	final := p.Sub("all_final_layer." + kind)
	m.modulateOut, m.out = final.Linear("adaLN_modulation.1", c.timeWidth(), w, true), final.Linear("linear", w, patch, true)
	return m
}

// Forward is the output at latents [1, H, W, In], as F32 of their shape, for a caption's states [1, S, Caption] and
// the clean share at that time. One sample goes through at a time: where a picture's tokens are depends
// on its caption's length.
func (m *Model) Forward(tp *autograd.Tape, latents, caption *autograd.Value, clean float32) *autograd.Value {
	p, words := m.Patch(), caption.Dim(1)
	h, w := latents.Dim(1)/p, latents.Dim(2)/p
	if latents.Dim(0) != 1 || h*p != latents.Dim(1) || w*p != latents.Dim(2) {
		panic(fmt.Sprintf("zimage: latents of %v: one sample whose sides are multiples of %d was expected", latents.Shape(), p))
	}
	time := m.time(tp, clean)
	turn := func(places [][]float32) turning {
		return mmdit.Rotary{Heads: m.Heads, Axes: m.Axes, LogTheta: portable.Log(m.Theta)}.Turn(tp, places)
	}
	at, atWords := picturePlaces(h, w, words), captionPlaces(words)
	patches := tp.Reshape(tp.Permute(tp.Reshape(latents, h, p, w, p*m.In), 0, 2, 1, 3), 1, h*w, p*p*m.In)
	x := through(tp, m.picture, fill(tp, m.in.Apply(tp, patches, autograd.With{}), m.noPixel), time, turn(at))
	text := m.words.Apply(tp, m.wordNorm.Apply(tp, caption), autograd.With{})
	text = through(tp, m.caption, fill(tp, text, m.noWord), nil, turn(atWords))
	both := tp.Concat(1, x, text)
	tp.Release(x, text)
	both = through(tp, m.joint, both, time, turn(slices.Concat(at, atWords)))
	x = tp.Split(both, 1, h*w, both.Dim(1)-h*w)[0]
	scale := m.modulateOut.Apply(tp, tp.Unary(kernels.SiLU, time), autograd.With{})
	y := m.out.Apply(tp, m.norm.Modulated(tp, x, scale, nil), autograd.With{Wide: true})
	rows := tp.Permute(tp.Reshape(y, h, w, p, p*m.In), 0, 2, 1, 3)
	return tp.Reshape(rows, 1, h*p, w*p, m.In)
}

// time is the modulations' input for a time.
func (m *Model) time(tp *autograd.Tape, clean float32) *autograd.Value {
	at := []float32{clean * float32(m.Times)}
	return m.timeMLP.Apply(tp, tp.Upload("time", nn.Timestep{Dim: waves, CosFirst: true}.Embed(at), 1, waves), autograd.With{})
}

// Fits reports whether the places of a picture of h x w tokens, and of a caption, are within those that the network
// knows.
func (m Config) Fits(h, w, words int) bool {
	return 1+filled(words) < m.Longest[0] && h <= m.Longest[1] && w <= m.Longest[2]
}

// A layer. Its norms are RMS norms, and with c, g of linear(time), which the text's refiners do not read,
//
//	x += tanh(g₁) · norm(attention(norm(x)·(1+c₁)))
//	x += tanh(g₂) · norm(mlp(norm(x)·(1+c₂)))
type layer struct {
	modulation      *nn.Linear // nil: the layer has no time input
	attention       *nn.Attention
	mlp             *nn.GatedMLP
	before1, after1 *nn.Norm
	before2, after2 *nn.Norm
}

// headEps is of the norms of queries and keys.
const headEps = 1e-5

func newLayer(p *nn.Params, c Config, told bool) *layer {
	w, attn, f := c.Width, p.Sub("attention"), p.Sub("feed_forward")
	inner := int(float64(w) / 3 * 8)
	l := &layer{before1: p.RMSNorm("attention_norm1", w, c.Eps), after1: p.RMSNorm("attention_norm2", w, c.Eps),
		before2: p.RMSNorm("ffn_norm1", w, c.Eps), after2: p.RMSNorm("ffn_norm2", w, c.Eps),
		attention: &nn.Attention{Heads: c.Heads, Q: attn.Linear("to_q", w, w, false), K: attn.Linear("to_k", w, w, false),
			V: attn.Linear("to_v", w, w, false), Out: attn.Linear("to_out.0", w, w, false)},
		mlp: &nn.GatedMLP{Gate: f.Linear("w1", w, inner, false), Up: f.Linear("w3", w, inner, false), Down: f.Linear("w2", inner, w, false), Act: kernels.SiLU}}
	if c.QKNorm {
		l.attention.NormQ, l.attention.NormK = attn.RMSNorm("norm_q", w/c.Heads, headEps), attn.RMSNorm("norm_k", w/c.Heads, headEps)
	}
	if told {
		l.modulation = p.Linear("adaLN_modulation.0", c.timeWidth(), 4*w, true)
	}
	return l
}

func newLayers(p *nn.Params, name string, n int, c Config, told bool) (all []*layer) {
	for i := range n {
		all = append(all, newLayer(p.Sub(fmt.Sprintf("%s.%d", name, i)), c, told))
	}
	return all
}

// turning rotates queries or keys.
type turning = func(*autograd.Value) *autograd.Value

// through takes tokens [1, S, Width] through layers, each a unit of memory. time is nil without such an input.
func through(tp *autograd.Tape, layers []*layer, x, time *autograd.Value, turn turning) *autograd.Value {
	for _, l := range layers {
		in := []*autograd.Value{x}
		if time != nil {
			in = append(in, time)
		}
		out := tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			var time *autograd.Value
			if len(in) > 1 {
				time = in[1]
			}
			return []*autograd.Value{l.forward(tp, in[0], time, turn)}
		}, in...)
		tp.Release(x)
		x = out[0]
	}
	return x
}

func (l *layer) forward(tp *autograd.Tape, x, time *autograd.Value, turn turning) *autograd.Value {
	var by [4]*autograd.Value // scale, gate, scale, gate
	if time != nil {
		by = [4]*autograd.Value(tp.Chunk(l.modulation.Apply(tp, time, autograd.With{}), 4))
		by[1], by[3] = tp.Unary(kernels.Tanh, by[1]), tp.Unary(kernels.Tanh, by[3])
	}
	h := l.before1.Modulated(tp, x, by[0], nil)
	q, k, v := l.attention.QKV(tp, h, h)
	tq, tk := turn(q), turn(k)
	tp.Release(h, q, k)
	a := tp.Attention(tq, tk, v, autograd.Attend{Heads: l.attention.Heads})
	tp.Release(tq, tk, v)
	y := add(tp, l.after1.Apply(tp, l.attention.Out.Apply(tp, a, autograd.With{})), by[1], x)
	tp.Release(a)
	h = l.before2.Modulated(tp, y, by[2], nil)
	z := add(tp, l.after2.Apply(tp, l.mlp.Apply(tp, h, autograd.With{})), by[3], y)
	tp.Release(h, y)
	return z
}

// add is x + gate·y, and x + y without a gate.
func add(tp *autograd.Tape, y, gate, x *autograd.Value) *autograd.Value {
	defer tp.Release(y)
	if gate == nil {
		return tp.Add(x, y)
	}
	return tp.Gated(y, gate, x)
}

// Tokens of a picture and of a caption are sequences of a multiple of 32, filled up with a token that was
// learned and that all others see. A caption's tokens are at (1, 0, 0), (2, 0, 0), ..., through its filling;
// a picture's at (end of the caption + 1, row, column), and its filling at (0, 0, 0).

// multiple is the divisor of lengths.
const multiple = 32

// filled is the length of a sequence of n tokens.
func filled(n int) int { return (n + multiple - 1) / multiple * multiple }

// fill adds the token to x [1, n, Width] as often as is lacking.
func fill(tp *autograd.Tape, x *autograd.Value, token *autograd.Param) *autograd.Value {
	n, width := x.Dim(1), x.Dim(2)
	rest := filled(n) - n
	if rest == 0 {
		return x
	}
	one := tp.AddParam(tp.Upload("filling", make([]float32, width), 1, 1, width), token)
	return tp.Concat(1, x, tp.Gather(one, make([]int32, rest), 1, rest))
}

// captionPlaces are those of a caption's sequence.
func captionPlaces(words int) [][]float32 {
	places := make([][]float32, filled(words))
	for i := range places {
		places[i] = []float32{float32(1 + i), 0, 0}
	}
	return places
}

// picturePlaces are those of a picture of h x w tokens beside a caption.
func picturePlaces(h, w, words int) [][]float32 {
	places := make([][]float32, 0, filled(h*w))
	for y := range h {
		for x := range w {
			places = append(places, []float32{float32(1 + filled(words)), float32(y), float32(x)})
		}
	}
	for len(places) < cap(places) {
		places = append(places, []float32{0, 0, 0})
	}
	return places
}
