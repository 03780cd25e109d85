package unet

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/resnet"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

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

// New asks p for the network's parameters; p.Check says what was wrong with them.
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
	Pooled        *autograd.Value // [B, ...], where the network is told more (SDXL)
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
