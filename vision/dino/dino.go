// Package dino is the vision transformers that DINO (Caron et al., 2021) and DINOv2 (Oquab et al., 2023) trained
// without labels, with the parameter names of the hub's folders (ViTModel, Dinov2Model): how alike the contents of
// two pictures are.
//
//	t, err := dino.Open("dino-vitb16", dino.Options{Device: device})
//	vectors, err := t.Images(ctx, pictures)
//
// A picture's vector is its class token after the last norm. Pictures are [B, H, W, 3], channels last.
package dino

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Config is config.json of a ViTModel or a Dinov2Model.
type Config struct {
	Kind     string  `json:"model_type"` // "vit" or "dinov2"
	Width    int     `json:"hidden_size"`
	Inner    int     `json:"intermediate_size"` // of a ViTModel
	Ratio    float64 `json:"mlp_ratio"`         // of a Dinov2Model: Inner over Width
	Layers   int     `json:"num_hidden_layers"`
	Heads    int     `json:"num_attention_heads"`
	Act      string  `json:"hidden_act"`
	Eps      float32 `json:"layer_norm_eps"`
	Side     int     `json:"image_size"` // of the pictures that positions were learnt for
	Patch    int     `json:"patch_size"`
	Channels int     `json:"num_channels"`
	Bias     bool    `json:"qkv_bias"`
	SwiGLU   bool    `json:"use_swiglu_ffn"` // of a Dinov2Model
	Smooth   bool    `json:"-"`              // positions are resized with anti-aliasing
}

// ReadConfig reads a folder's settings.
func ReadConfig(dir string) (Config, error) {
	kind, err := kindOf(dir)
	if err != nil {
		return Config{}, err
	}
	c := Config{Kind: kind, Width: 768, Inner: 3072, Ratio: 4, Layers: 12, Heads: 12, Act: "gelu", Eps: 1e-12, Side: 224, Patch: 16, Channels: 3, Bias: true}
	if kind == "dinov2" {
		c.Eps, c.Patch = 1e-6, 14
	}
	if err := hub.JSON(filepath.Join(dir, "config.json"), &c); err != nil {
		return c, err
	}
	c.Kind = kind
	return c, c.Check()
}

// kindOf tells a ViT from a DINOv2.
func kindOf(dir string) (string, error) {
	var said struct {
		Kind          string          `json:"model_type"`
		Architectures json.RawMessage `json:"architectures"`
	}
	if err := hub.Config(dir, &said, "ViTModel", "vit", "Dinov2Model", "dinov2"); err != nil {
		return "", err
	}
	if said.Kind == "dinov2" || said.Kind == "" && string(said.Architectures) == `["Dinov2Model"]` {
		return "dinov2", nil
	}
	return "vit", nil
}

var activations = map[string]kernels.UnaryOp{"gelu": kernels.GELUErf}

// Check reports settings out of range; of a DINOv2 it works Inner out.
func (c *Config) Check() error {
	var l hub.Limits
	l.Int("hidden_size", c.Width, 1, 1<<14)
	l.Int("num_hidden_layers", c.Layers, 1, 256)
	l.Int("num_attention_heads", c.Heads, 1, 256)
	l.Must(c.Width%max(c.Heads, 1) == 0, `"hidden_size" %d is not a multiple of num_attention_heads %d`, c.Width, c.Heads)
	l.Int("patch_size", c.Patch, 1, 256)
	l.Int("image_size", c.Side, c.Patch, 1<<13)
	l.Must(c.Channels == 3, `"num_channels" is %d; pictures have 3`, c.Channels)
	_, ok := activations[c.Act]
	l.Must(ok || c.SwiGLU, `"hidden_act" is %q; "gelu" is known`, c.Act)
	l.Must(c.Eps >= 0 && c.Eps < 1, `"layer_norm_eps" is %v`, c.Eps)
	if c.Kind == "dinov2" {
		l.Must(c.Ratio > 0 && c.Ratio <= 64, `"mlp_ratio" is %v; it must lie between 0 and 64`, c.Ratio)
		c.Inner = int(float64(c.Width) * min(max(c.Ratio, 0), 64))
		if c.SwiGLU { // so that the gated form has as many parameters, in multiples of 8
			c.Inner = (c.Inner*2/3 + 7) / 8 * 8
		}
	}
	l.Int("intermediate_size", c.Inner, 1, 1<<16)
	return l.Err()
}

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
	scale           [2]*autograd.Param // of the branches, nil without one
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
		x, err := resized(b.Rows(0, tokens), grid, side/c.Patch, w, c.Smooth)
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
	x := n.embedded(tp, pictures)
	for _, l := range n.layers {
		x = l.forward(tp, x)
	}
	return x
}

// Windows say how layers see a grid of patches.
type Windows struct {
	Side  int   // windows of a row, and of a column
	Apart []int // layers that see each window apart, from 0; others see the whole picture
	After []int // counts of layers before each map, rising
}

// Maps are states after layers, each after the last norm, [B, grid, grid, Width]. Each window has a class token.
func (n *Network) Maps(tp *autograd.Tape, pictures *autograd.Value, s Windows) (maps []*autograd.Value) {
	b, grid, w := pictures.Dim(0), n.side/n.Patch, n.Width
	each, all := grid/s.Side, s.Side*s.Side
	tokens := 1 + each*each
	var rows []int32 // of the tokens of windows
	back := make([]int32, b*grid*grid)
	for i := range b * all {
		first := i / all * (1 + grid*grid)
		rows = append(rows, int32(first))
		for k := range each * each {
			at := (i%all/s.Side*each+k/each)*grid + i%s.Side*each + k%each
			back[i/all*grid*grid+at] = int32(len(rows))
			rows = append(rows, int32(first+1+at))
		}
	}
	x := tp.Gather(tp.Reshape(n.embedded(tp, pictures), b*(1+grid*grid), w), rows, b*all, tokens)
	for i := 0; ; i++ {
		if slices.Contains(s.After, i) {
			maps = append(maps, tp.Gather(tp.Reshape(n.last.Apply(tp, x), b*all*tokens, w), back, b, grid, grid))
		}
		if len(maps) == len(s.After) || i == len(n.layers) {
			return maps
		}
		if slices.Contains(s.Apart, i) {
			x = n.layers[i].forward(tp, x)
		} else {
			x = tp.Reshape(n.layers[i].forward(tp, tp.Reshape(x, b, all*tokens, w)), b*all, tokens, w)
		}
	}
}

// embedded are all tokens before the first layer.
func (n *Network) embedded(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	b := pictures.Dim(0)
	grid := n.patch.Apply(tp, pictures, nil)
	patches := tp.Reshape(grid, b, grid.Dim(1)*grid.Dim(2), n.Width)
	class := tp.AddParam(tp.Upload("class token", make([]float32, b*n.Width), b, 1, n.Width), n.class)
	return tp.AddParam(tp.Concat(1, class, patches), n.positions)
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

// resized are positions [1 + from², width] for a grid of to x to: the class token's stays, the
// others are resized as a picture (bicubic, of DINOv2 without anti-aliasing), as transformers does.
func resized(x []float32, from, to, width int, smooth bool) ([]float32, error) {
	if from == to {
		return x, nil
	}
	z, err := vision.NewRealResize(from, from, to, to, vision.Bicubic, smooth)
	if err != nil {
		return nil, err
	}
	grid := make([]float64, from*from*width)
	for i := range grid {
		grid[i] = float64(x[width+i])
	}
	out := append([]float32(nil), x[:width]...)
	for _, v := range z.Forward(grid, width) {
		out = append(out, float32(v))
	}
	return out, nil
}

// Options say how a folder is opened.
type Options struct {
	Device *features.Device
	Batch  int // pictures at once; 0: 8
	// Prepare is the pipeline for pictures of bytes, by the size that positions were learnt
	// for; nil: as the folder says, or squeezed into that size.
	Prepare func(size int) vision.Preprocess
	// Patches: a picture's vector is those of all its patches, in a row. Pictures are squeezed,
	// so that no part is cut off.
	Patches bool
}

// Tower is a folder's network in memory. It may be asked from any goroutine.
type Tower struct {
	features.Tower
	Grid   int // patches a side
	params *nn.Params
}

// Open reads the folder of a ViTModel or a Dinov2Model.
func Open(dir string, o Options) (*Tower, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	t := &Tower{}
	if o.Prepare != nil {
		t.Prepare = o.Prepare(c.Side)
	} else if t.Prepare, err = features.ReadProcessor(dir, vision.DINO(c.Side)); err != nil {
		return nil, err
	}
	side := t.Prepare.Size
	if side < 1 || side%c.Patch != 0 || c.Side%c.Patch != 0 {
		return nil, fmt.Errorf("%s: pictures of %d x %d and positions for %d x %d: both must be multiples of the patch, %d", dir, side, side, c.Side, c.Side, c.Patch)
	}
	if side > features.MostSide || side/c.Patch > mostGrid {
		return nil, fmt.Errorf("%s: pictures of %d x %d in patches of %d; at most %d x %d and %d patches a side are read", dir, side, side, c.Patch, features.MostSide, features.MostSide, mostGrid)
	}
	if o.Patches {
		t.Prepare.Fit = vision.Stretch
	}
	t.Soft = t.Prepare
	t.Soft.Centring = vision.HalfToEven
	set, err := quant.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	var n *Network
	t.Device, t.Batch, t.Width = o.Device, o.Batch, c.Width
	if t.params, err = o.Device.Load(set, func(p *nn.Params) { n = New(p, c, side) }); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	t.Forward, t.Grid = n.Forward, side/c.Patch
	if o.Patches {
		t.Forward, t.Width = n.Patches, t.Grid*t.Grid*c.Width
	}
	return t, nil
}

// mostGrid is how many patches a side has at most.
const mostGrid = 256

// Close gives the memory back.
func (t *Tower) Close() { t.Free(t.params) }
