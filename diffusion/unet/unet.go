// Package unet is the U-Net of Stable Diffusion 1, 2 and XL (UNet2DConditionModel), with
// diffusers' parameter names.
//
// Start with Model.Forward; a level has resnets and transformers that attend to text. Latents are pictures [B, H, W,
// C], channels last; time counts in steps of the schedule, from 0 to 999.
package unet

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/resnet"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of a UNet2DConditionModel.
type Config struct {
	In        int      `json:"in_channels"`
	Out       int      `json:"out_channels"`
	Channels  []int    `json:"block_out_channels"`
	Layers    int      `json:"layers_per_block"`
	Groups    int      `json:"norm_num_groups"`
	Eps       float32  `json:"norm_eps"`
	Context   int      `json:"cross_attention_dim"`
	Heads     perLvl   `json:"attention_head_dim"` // the number of heads, whatever it is called
	NumHeads  perLvl   `json:"num_attention_heads"`
	Depths    perLvl   `json:"transformer_layers_per_block"`
	Down      []string `json:"down_block_types"`
	Up        []string `json:"up_block_types"`
	Mid       string   `json:"mid_block_type"`
	CosFirst  bool     `json:"flip_sin_to_cos"`
	FreqShift float32  `json:"freq_shift"`
	Act       string   `json:"act_fn"`
	Added     string   `json:"addition_embed_type"` // "text_time" (SDXL) or null
	AddedTime int      `json:"addition_time_embed_dim"`
	AddedIn   int      `json:"projection_class_embeddings_input_dim"`
	Scaled    string   `json:"resnet_time_scale_shift"` // "default"
	Linear    bool     `json:"use_linear_projection"`   // how transformers' proj_in and proj_out lie on the disk
}

// perLvl is a number for every level, or one for all.
type perLvl []int

func (p *perLvl) UnmarshalJSON(b []byte) error {
	var one int
	if json.Unmarshal(b, &one) == nil {
		if string(b) != "null" {
			*p = perLvl{one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]int)(p))
}

func (p perLvl) at(i int) int {
	if len(p) == 1 {
		return p[0]
	}
	return p[i]
}

// TimeWidth is the length of the time's embedding.
func (c Config) TimeWidth() int { return 4 * c.Channels[0] }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{In: 4, Out: 4, Channels: []int{320, 640, 1280, 1280}, Layers: 2, Groups: 32, Eps: 1e-5, Context: 1280, Heads: perLvl{8}, Depths: perLvl{1},
		Down: []string{cross, cross, cross, plain}, Up: []string{plainUp, crossUp, crossUp, crossUp}, CosFirst: true, Act: "silu", Scaled: "default", Mid: crossMid}
	if err := hub.Config(dir, &c, "UNet2DConditionModel"); err != nil {
		return c, err
	}
	no := []string{"false"}
	if err := hub.Only(filepath.Join(dir, "config.json"), map[string][]string{
		"attention_type": {`"default"`}, "center_input_sample": no, "class_embed_type": nil, "class_embeddings_concat": no, "conv_in_kernel": {"3"}, "conv_out_kernel": {"3"},
		"cross_attention_norm": nil, "downsample_padding": {"1"}, "dual_cross_attention": no, "encoder_hid_dim": nil, "encoder_hid_dim_type": nil, "mid_block_only_cross_attention": no,
		"mid_block_scale_factor": {"1"}, "num_class_embeds": nil, "only_cross_attention": no, "resnet_out_scale_factor": {"1"}, "resnet_skip_time_act": no,
		"reverse_transformer_layers_per_block": nil, "time_cond_proj_dim": nil, "time_embedding_act_fn": nil, "time_embedding_dim": nil, "time_embedding_type": {`"positional"`}, "timestep_post_act": nil,
	}); err != nil {
		return c, err
	}
	if len(c.NumHeads) > 0 {
		c.Heads = c.NumHeads
	}
	return c, c.check()
}

// The kinds of levels.
const (
	cross, plain     = "CrossAttnDownBlock2D", "DownBlock2D"
	crossUp, plainUp = "CrossAttnUpBlock2D", "UpBlock2D"
	crossMid         = "UNetMidBlock2DCrossAttn"
)

func (c Config) check() error {
	var l hub.Limits
	n := len(c.Channels)
	l.Int("in_channels", c.In, 1, 1024)
	l.Int("out_channels", c.Out, 1, 1024)
	l.Int("layers_per_block", c.Layers, 1, 64)
	l.Int("norm_num_groups", c.Groups, 1, 1024)
	l.Float("norm_eps", float64(c.Eps), 0, 1)
	l.Float("freq_shift", float64(c.FreqShift), -1000, 1000)
	l.Int("cross_attention_dim", c.Context, 1, 1<<16)
	l.Must(n >= 1 && n <= 8, `"block_out_channels" lists %d levels; 1 to 8 are possible`, n)
	l.Must(len(c.Down) == n && len(c.Up) == n, `"down_block_types", "up_block_types" and "block_out_channels" list %d, %d and %d levels`, len(c.Down), len(c.Up), n)
	for key, p := range map[string]perLvl{"attention_head_dim": c.Heads, "transformer_layers_per_block": c.Depths} {
		l.Must(len(p) == 1 || len(p) == n, `%q has %d numbers for %d levels`, key, len(p), n)
		for _, x := range p {
			l.Int(key, x, 1, 1024)
		}
	}
	for i, ch := range c.Channels {
		l.Int("block_out_channels", ch, 1, 1<<14)
		l.Must(c.Groups < 1 || ch%c.Groups == 0, `"block_out_channels": %d is not a multiple of norm_num_groups %d`, ch, c.Groups)
		if len(c.Heads) == 1 || i < len(c.Heads) {
			l.Must(c.Heads.at(i) < 1 || ch%c.Heads.at(i) == 0, `"block_out_channels": %d is not a multiple of %d heads`, ch, c.Heads.at(i))
		}
	}
	for _, t := range append(append([]string{c.Mid}, c.Down...), c.Up...) {
		l.Must(t == cross || t == plain || t == crossUp || t == plainUp || t == crossMid, `blocks of type %q are not known`, t)
	}
	l.Must(c.Act == "silu", `"act_fn" is %q; "silu" is known`, c.Act)
	l.Must(c.Scaled == "default", `"resnet_time_scale_shift" is %q; "default" is known`, c.Scaled)
	l.Must(c.Added == "" || c.Added == "text_time", `"addition_embed_type" is %q; "text_time" and null are known`, c.Added)
	if c.Added != "" {
		l.Int("addition_time_embed_dim", c.AddedTime, 2, 1<<14)
		l.Int("projection_class_embeddings_input_dim", c.AddedIn, 1, 1<<16)
	}
	return l.Err()
}

// Model is the network: latents and text in, noise (or velocity) at every latent pixel out.
type Model struct {
	Config
	in, out       *nn.Conv
	time, added   *nn.MLP // added: of pooled text and sizes (SDXL), or nil
	down, up      []*level
	first, second *resnet.Block // of the middle
	middle        *transformer
	norm          *nn.GroupNorm
}

// New asks p for the network's parameters; p.Check reports problems with them.
func New(p *nn.Params, c Config) *Model {
	embedder := func(name string, in int) *nn.MLP {
		return &nn.MLP{Up: p.Linear(name+".linear_1", in, c.TimeWidth(), true), Down: p.Linear(name+".linear_2", c.TimeWidth(), c.TimeWidth(), true), Act: kernels.SiLU}
	}
	m := &Model{Config: c, in: p.Conv("conv_in", nn.Square(c.In, c.Channels[0], 3, 1, 1), true), time: embedder("time_embedding", c.Channels[0])}
	if c.Added != "" {
		m.added = embedder("add_embedding", c.AddedIn)
	}
	last := len(c.Channels) - 1
	for i := range c.Channels {
		m.down = append(m.down, newDown(p.At("down_blocks", i), c, i))
	}
	mid, deep := p.Sub("mid_block"), c.Channels[last]
	m.first = resnet.New(mid.At("resnets", 0), deep, deep, c.TimeWidth(), c.Groups, c.Eps)
	m.middle = newTransformer(mid.At("attentions", 0), c, deep, c.Heads.at(last), c.Depths.at(last))
	m.second = resnet.New(mid.At("resnets", 1), deep, deep, c.TimeWidth(), c.Groups, c.Eps)
	for i := range c.Channels {
		m.up = append(m.up, newUp(p.At("up_blocks", i), c, last-i))
	}
	m.norm = p.GroupNorm("conv_norm_out", c.Channels[0], c.Groups, c.Eps)
	m.out = p.Conv("conv_out", nn.Square(c.Channels[0], c.Out, 3, 1, 1), true)
	return m
}

// Inputs of the network, one sample a row of the first axis.
type Inputs struct {
	Latents, Text *autograd.Value // [B, H, W, In], [B, S, Context]
	Time          []float32
	Pooled        *autograd.Value // [B, ...], where the network has a pooled input (SDXL)
	Sizes         [][]float32     // and six numbers a sample: original height, width, crop top, left, target height, width
}

// Forward is the network's output at latents, as F32 [B, H, W, Out].
func (m *Model) Forward(tp *autograd.Tape, in Inputs) *autograd.Value {
	if side := 1 << (len(m.Channels) - 1); in.Latents.Dim(1)%side != 0 || in.Latents.Dim(2)%side != 0 {
		panic(fmt.Sprintf("unet: latents of %d x %d: sides must be multiples of %d", in.Latents.Dim(1), in.Latents.Dim(2), side))
	}
	time := m.condition(tp, in)
	x := m.in.Apply(tp, in.Latents, nil)
	stack := []*autograd.Value{x}
	for _, l := range m.down {
		x = l.down(tp, x, time, in.Text, &stack)
	}
	x = m.first.Apply(tp, x, time)
	x = m.middle.apply(tp, x, in.Text)
	x = m.second.Apply(tp, x, time)
	for _, l := range m.up {
		x = l.ascend(tp, x, time, in.Text, &stack)
	}
	return m.out.ApplyWide(tp, m.norm.Apply(tp, x, kernels.SiLU))
}

// condition is silu(time + pooled text and sizes), which all residual blocks read.
func (m *Model) condition(tp *autograd.Tape, in Inputs) *autograd.Value {
	waves := nn.Timestep{Dim: m.Channels[0], CosFirst: m.CosFirst, Shift: m.FreqShift}.Embed(in.Time)
	t := m.time.Apply(tp, tp.Upload("time", waves, len(in.Time), m.Channels[0]), autograd.With{})
	if m.added != nil {
		var sizes []float32
		for _, s := range in.Sizes {
			sizes = append(sizes, nn.Timestep{Dim: m.AddedTime, CosFirst: m.CosFirst, Shift: m.FreqShift}.Embed(s)...)
		}
		all := tp.Concat(1, in.Pooled, tp.Upload("sizes", sizes, len(in.Sizes), len(sizes)/len(in.Sizes)))
		t = m.added.Apply(tp, all, autograd.With{Residual: t})
	}
	return tp.Unary(kernels.SiLU, t)
}

// A level is residual blocks, each followed by a transformer where the level attends to text, and a convolution that
// halves or doubles the picture. On the way up every block reads, beside its input, the outputs of the way down on
// the stack.
type level struct {
	blocks       []*resnet.Block
	transformers []*transformer // none where the level does not attend
	resize       *nn.Conv       // nil at the last level
}

func newDown(p *nn.Params, c Config, i int) *level {
	in, out := c.Channels[max(i-1, 0)], c.Channels[i]
	l := &level{}
	for j := range c.Layers {
		l.blocks = append(l.blocks, resnet.New(p.At("resnets", j), in, out, c.TimeWidth(), c.Groups, c.Eps))
		l.attend(p, c, c.Down[i] == cross, i, j)
		in = out
	}
	if i < len(c.Channels)-1 {
		l.resize = p.Conv("downsamplers.0.conv", nn.Square(out, out, 3, 2, 1), true)
	}
	return l
}

// newUp is the level opposite level i of the way down.
func newUp(p *nn.Params, c Config, i int) *level {
	last := len(c.Channels) - 1
	below, out, skip := c.Channels[min(i+1, last)], c.Channels[i], c.Channels[max(i-1, 0)]
	l := &level{}
	for j := range c.Layers + 1 {
		in, beside := out, out
		if j == 0 {
			in = below
		}
		if j == c.Layers {
			beside = skip
		}
		l.blocks = append(l.blocks, resnet.New(p.At("resnets", j), in+beside, out, c.TimeWidth(), c.Groups, c.Eps))
		l.attend(p, c, c.Up[last-i] == crossUp, i, j)
	}
	if i > 0 {
		l.resize = resnet.Up(p, out)
	}
	return l
}

func (l *level) attend(p *nn.Params, c Config, cross bool, i, j int) {
	if cross {
		l.transformers = append(l.transformers, newTransformer(p.At("attentions", j), c, c.Channels[i], c.Heads.at(i), c.Depths.at(i)))
	}
}

// block is block j and its transformer.
func (l *level) block(tp *autograd.Tape, j int, x, time, text *autograd.Value) *autograd.Value {
	x = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		return []*autograd.Value{l.blocks[j].Apply(tp, in[0], in[1])}
	}, x, time)[0]
	if l.transformers != nil {
		x = l.transformers[j].apply(tp, x, text)
	}
	return x
}

// down computes the level, and leaves the inputs of the way up on the stack.
func (l *level) down(tp *autograd.Tape, x, time, text *autograd.Value, stack *[]*autograd.Value) *autograd.Value {
	for j := range l.blocks {
		x = l.block(tp, j, x, time, text)
		*stack = append(*stack, x)
	}
	if l.resize != nil {
		x = l.resize.Apply(tp, x, nil)
		*stack = append(*stack, x)
	}
	return x
}

// ascend computes a level of the way up.
func (l *level) ascend(tp *autograd.Tape, x, time, text *autograd.Value, stack *[]*autograd.Value) *autograd.Value {
	for j := range l.blocks {
		top := len(*stack) - 1
		beside := tp.Concat(3, x, (*stack)[top])
		tp.Release(x, (*stack)[top])
		*stack = (*stack)[:top]
		x = l.block(tp, j, beside, time, text)
		tp.Release(beside)
	}
	if l.resize != nil {
		y := resnet.Double(tp, l.resize, x)
		tp.Release(x)
		x = y
	}
	return x
}

// A picture attends to itself and to text (Transformer2DModel): with tokens t = in(norm(x)),
// layers t += attn1(norm1(t)), t += attn2(norm2(t), text), t += geglu(norm3(t)), then
// x + out(t).
type transformer struct {
	norm    *nn.GroupNorm
	in, out *nn.Linear // without use_linear_projection the disk has them as convolutions of 1x1
	layers  []*layer
}

type layer struct {
	norm1, norm2, norm3 *nn.Norm
	own, text           *nn.Attention
	mlp                 *nn.GatedMLP
}

func newTransformer(p *nn.Params, c Config, width, heads, depth int) *transformer {
	project := p.Pointwise
	if c.Linear {
		project = p.Linear
	}
	t := &transformer{norm: p.GroupNorm("norm", width, c.Groups, 1e-6), in: project("proj_in", width, width, true)}
	for i := range depth {
		b := p.At("transformer_blocks", i)
		t.layers = append(t.layers, &layer{
			norm1: b.LayerNorm("norm1", width, 1e-5), norm2: b.LayerNorm("norm2", width, 1e-5), norm3: b.LayerNorm("norm3", width, 1e-5),
			own: b.Attention("attn1", width, width, heads, width/heads, false), text: b.Attention("attn2", width, c.Context, heads, width/heads, false),
			mlp: &nn.GatedMLP{Up: b.Linear("ff.net.0.proj", width, 8*width, true), Down: b.Linear("ff.net.2", 4*width, width, true), Act: kernels.GELUErf}})
	}
	t.out = project("proj_out", width, width, true)
	return t
}

func (t *transformer) apply(tp *autograd.Tape, x, text *autograd.Value) *autograd.Value {
	b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	n := t.norm.Apply(tp, x, kernels.Identity)
	y := t.in.Apply(tp, tp.Reshape(n, b, h*w, c), autograd.With{})
	for _, l := range t.layers {
		y = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			return []*autograd.Value{l.apply(tp, in[0], in[1])}
		}, y, text)[0]
	}
	z := t.out.Apply(tp, y, autograd.With{Residual: tp.Reshape(x, b, h*w, c)})
	return tp.Reshape(z, b, h, w, c)
}

func (l *layer) apply(tp *autograd.Tape, x, text *autograd.Value) *autograd.Value {
	h := l.norm1.Apply(tp, x)
	y := l.own.Apply(tp, h, h, autograd.Attend{}, autograd.With{Residual: x})
	g := l.norm2.Apply(tp, y)
	z := l.text.Apply(tp, g, text, autograd.Attend{}, autograd.With{Residual: y})
	f := l.norm3.Apply(tp, z)
	out := l.mlp.Apply(tp, f, autograd.With{Residual: z})
	tp.Release(h, y, g, z, f)
	return out
}
