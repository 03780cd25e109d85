package rtdetr

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/vision/detr"
)

// Card: HGNet-v2 (PP-HGNetV2 of PaddleClas, which has no paper) as transformers has it for D-FINE
// (modeling_hgnet_v2.py). A stem of five convolutions, one branch beside a pooling, and four stages of blocks: a block
// joins its input and the results of all its layers, and two convolutions of one pixel mix them. Light layers are a
// convolution of one pixel and one for each channel. Held to eyes.d_fine.

// HGNet is the part of "backbone_config" that an HGNet-v2 alone has.
type HGNet struct {
	Stem       []int  `json:"stem_channels"`
	StemStride []int  `json:"stem_strides"`
	In         []int  `json:"stage_in_channels"`
	Inside     []int  `json:"stage_mid_channels"`
	Out        []int  `json:"stage_out_channels"`
	Blocks     []int  `json:"stage_num_blocks"`
	Layers     []int  `json:"stage_numb_of_layers"`
	Halves     []bool `json:"stage_downsample"`
	Strides    []int  `json:"stage_downsample_strides"`
	Light      []bool `json:"stage_light_block"`
	Kernel     []int  `json:"stage_kernel_size"`
	Affine     bool   `json:"use_learnable_affine_block"`
}

func usualHGNet() HGNet {
	return HGNet{Stem: []int{3, 32, 48}, StemStride: []int{2, 1, 1, 2, 1}, In: []int{48, 128, 512, 1024}, Inside: []int{48, 96, 192, 384},
		Out: []int{128, 512, 1024, 2048}, Blocks: []int{1, 1, 3, 1}, Layers: []int{6, 6, 6, 6}, Halves: []bool{false, true, true, true},
		Strides: []int{2, 2, 2, 2}, Light: []bool{false, false, true, true}, Kernel: []int{3, 3, 5, 5}}
}

func (g *HGNet) check(l *hub.Limits) {
	l.Must(len(g.Stem) == 3 && g.Stem[0] == 3, `"stem_channels" %v are of 3 maps, the first of 3 colours`, g.Stem)
	l.Must(slices.Equal(g.StemStride, []int{2, 1, 1, 2, 1}), `"stem_strides" is %v; [2 1 1 2 1] is known`, g.StemStride)
	l.Must(slices.Equal(g.Halves, []bool{false, true, true, true}), `"stage_downsample" is %v; [false true true true] is known`, g.Halves)
	l.Must(slices.Equal(g.Strides, []int{2, 2, 2, 2}), `"stage_downsample_strides" is %v; [2 2 2 2] is known`, g.Strides)
	l.Must(len(g.Light) == 4, `"stage_light_block" %v is of 4 stages`, g.Light)
	for key, x := range map[string]struct {
		of     []int
		n      int
		lo, hi int
	}{"stem_channels": {g.Stem, 3, 2, 1 << 12}, "stage_in_channels": {g.In, 4, 1, 1 << 13}, "stage_mid_channels": {g.Inside, 4, 1, 1 << 13}, "stage_out_channels": {g.Out, 4, 2, 1 << 13},
		"stage_num_blocks": {g.Blocks, 4, 1, 256}, "stage_numb_of_layers": {g.Layers, 4, 1, 256}, "stage_kernel_size": {g.Kernel, 4, 1, 31}} {
		l.Must(len(x.of) == x.n, "%q has %d numbers; %d were expected", key, len(x.of), x.n)
		for _, v := range x.of {
			l.Int(key, v, x.lo, x.hi)
		}
	}
	for _, k := range g.Kernel {
		l.Must(k%2 == 1, `"stage_kernel_size" has %d; kernels of odd sides are known`, k)
	}
}

// hgnet is the backbone, whose batch norms are in its convolutions (detr.Folded).
type hgnet struct {
	stem   [5]*unit // 1, 2a, 2b, 3, 4
	stages []hgStage
	out    []int
}

type hgStage struct {
	halve  *detr.Depthwise // nil: the map keeps its size
	blocks []hgBlock
}

// hgBlock mixes the results of all its layers, and their input.
type hgBlock struct {
	layers   [][]*unit
	mix      [2]*unit
	residual bool
}

// unit is scale · relu(conv(x)) + shift.
type unit struct {
	conv  *nn.Conv
	deep  *detr.Depthwise // in place of conv
	plain bool            // no relu, scale and shift
	scale float32
	shift *autograd.Param // nil: no scale and shift
}

func newHGNet(p *nn.Params, b Backbone) *hgnet {
	p.Ignore(".*\\.num_batches_tracked")
	g := &hgnet{out: b.stages()}
	in, mid, last := b.HGNet.Stem[0], b.HGNet.Stem[1], b.HGNet.Stem[2]
	before := func(in, out int) kernels.ConvShape { // padded below and on the right
		return kernels.ConvShape{In: in, Out: out, KH: 2, KW: 2, Stride: 1, Bottom: 1, Right: 1}
	}
	e := p.Sub("embedder")
	g.stem = [5]*unit{newUnit(e.Sub("stem1"), nn.Square(in, mid, 3, 2, 1), b.Affine), newUnit(e.Sub("stem2a"), before(mid, mid/2), b.Affine), newUnit(e.Sub("stem2b"), before(mid/2, mid), b.Affine),
		newUnit(e.Sub("stem3"), nn.Square(2*mid, mid, 3, 2, 1), b.Affine), newUnit(e.Sub("stem4"), nn.Square(mid, last, 1, 1, 0), b.Affine)}
	for i, in := range b.In {
		at, s := p.At("encoder.stages", i), hgStage{}
		if b.Halves[i] {
			s.halve = detr.NewDepthwise(at, "downsample.convolution", in, 3, 2)
		}
		for k := range b.Blocks[i] {
			s.blocks = append(s.blocks, newHGBlock(at.At("blocks", k), b.HGNet, i, in, k > 0))
			in = b.Out[i]
		}
		g.stages = append(g.stages, s)
	}
	return g
}

func newHGBlock(p *nn.Params, g HGNet, stage, in int, residual bool) hgBlock {
	inside, out, kernel := g.Inside[stage], g.Out[stage], g.Kernel[stage]
	b, width := hgBlock{residual: residual}, in
	for i := range g.Layers[stage] {
		at := p.At("layers", i)
		if g.Light[stage] {
			first := &unit{conv: at.Conv("conv1.convolution", nn.Square(width, inside, 1, 1, 0), true), plain: true}
			second := affine(at.Sub("conv2"), &unit{deep: detr.NewDepthwise(at, "conv2.convolution", inside, kernel, 1)}, inside, g.Affine)
			b.layers = append(b.layers, []*unit{first, second})
		} else {
			b.layers = append(b.layers, []*unit{newUnit(at, nn.Square(width, inside, kernel, 1, kernel/2), g.Affine)})
		}
		width = inside
	}
	all := in + g.Layers[stage]*inside
	b.mix = [2]*unit{newUnit(p.Sub("aggregation.0"), nn.Square(all, out/2, 1, 1, 0), g.Affine), newUnit(p.Sub("aggregation.1"), nn.Square(out/2, out, 1, 1, 0), g.Affine)}
	return b
}

func newUnit(p *nn.Params, s kernels.ConvShape, affined bool) *unit {
	return affine(p, &unit{conv: p.Conv("convolution", s, true)}, s.Out, affined)
}

// affine gives a unit its scale and shift.
func affine(p *nn.Params, u *unit, channels int, affined bool) *unit {
	if affined {
		u.scale = number(p, "lab.scale", 1)
		u.shift = p.Constant("lab.bias", slices.Repeat([]float32{number(p, "lab.bias", 0)}, channels), channels)
	}
	return u
}

// number is a stored one that is not trained.
func number(p *nn.Params, name string, usual float32) float32 {
	b := p.Buffer(name, func() []float32 { return []float32{usual} }, 1)
	if b == nil { // p has the error
		return usual
	}
	return b.Rows(0, 1)[0]
}

func (u *unit) apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	if u.deep != nil {
		x = u.deep.Apply(tp, x)
	} else {
		x = u.conv.Apply(tp, x, nil)
	}
	if u.plain {
		return x
	}
	x = tp.Unary(kernels.ReLU, x)
	if u.shift != nil {
		x = tp.AddParam(tp.Scale(x, u.scale), u.shift)
	}
	return x
}

func (b hgBlock) apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	all, y := []*autograd.Value{x}, x
	for _, layer := range b.layers {
		for _, u := range layer {
			y = u.apply(tp, y)
		}
		all = append(all, y)
	}
	y = b.mix[1].apply(tp, b.mix[0].apply(tp, tp.Concat(3, all...)))
	if b.residual {
		y = tp.Add(y, x)
	}
	return y
}

func (g *hgnet) forward(tp *autograd.Tape, x *autograd.Value) (maps []*autograd.Value) {
	x = g.stem[0].apply(tp, x)
	branch := g.stem[2].apply(tp, g.stem[1].apply(tp, x))
	x = tp.Concat(3, detr.MaxPool(tp, padded(tp, x), 2, 1, 0), branch)
	x = g.stem[4].apply(tp, g.stem[3].apply(tp, x))
	for i, s := range g.stages {
		if s.halve != nil {
			x = s.halve.Apply(tp, x)
		}
		for _, b := range s.blocks {
			x = b.apply(tp, x)
		}
		if slices.Contains(g.out, i+1) {
			maps = append(maps, x)
		}
	}
	return maps
}

// padded is a map with zeros below and on the right.
func padded(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	n, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	x = tp.Concat(1, x, tp.Upload("zeros", make([]float32, n*w*c), n, 1, w, c))
	return tp.Concat(2, x, tp.Upload("zeros", make([]float32, n*(h+1)*c), n, h+1, 1, c))
}
