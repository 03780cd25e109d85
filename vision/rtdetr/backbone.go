package rtdetr

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/vision/detr"
)

// Backbone is "backbone_config" of a ResNet with a deep stem (RTDetrResNet), or of an HGNet-v2.
type Backbone struct {
	HGNet
	Kind        string   `json:"model_type"`
	Stem        int      `json:"embedding_size"`
	Widths      []int    `json:"hidden_sizes"`
	Depths      []int    `json:"depths"`
	Layer       string   `json:"layer_type"`
	Act         string   `json:"hidden_act"`
	FirstHalves bool     `json:"downsample_in_first_stage"`
	EarlyStride bool     `json:"downsample_in_bottleneck"`
	Features    []string `json:"out_features"`
	Indices     []int    `json:"out_indices"`
}

func usualBackbone() Backbone {
	return Backbone{HGNet: usualHGNet(), Stem: 64, Widths: []int{256, 512, 1024, 2048}, Depths: []int{3, 4, 6, 3}, Layer: "bottleneck", Act: "relu", Indices: []int{2, 3, 4}}
}

func (b *Backbone) check(l *hub.Limits) {
	l.Must(b.Kind == "rt_detr_resnet" || b.Kind == "hgnet_v2", `"backbone_config" is of a %q; "rt_detr_resnet" and "hgnet_v2" are known`, b.Kind)
	l.Must(b.Act == "relu", `"hidden_act" is %q; "relu" is known`, b.Act)
	for _, s := range b.stages() {
		l.Must(s >= 1 && s <= 4, `"out_features" names stage %d of 4`, s)
	}
	if b.Kind == "hgnet_v2" {
		b.HGNet.check(l)
		return
	}
	l.Must(b.Layer == "basic" || b.Layer == "bottleneck", `"layer_type" is %q; "basic" and "bottleneck" are known`, b.Layer)
	l.Int("embedding_size", b.Stem, 2, 1<<12)
	l.Must(len(b.Depths) == len(b.Widths) && len(b.Widths) == 4, `"hidden_sizes" %v and "depths" %v are of 4 stages`, b.Widths, b.Depths)
	for i := range min(len(b.Depths), len(b.Widths)) {
		l.Int("depths", b.Depths[i], 1, 256)
		l.Int("hidden_sizes", b.Widths[i], 4, 1<<13)
	}
}

// stages are the numbers of the stages whose maps are read, from 1.
func (b *Backbone) stages() []int {
	if len(b.Indices) > 0 {
		return b.Indices
	}
	var all []int
	for _, f := range b.Features {
		n := 0
		if _, err := fmt.Sscanf(f, "stage%d", &n); err != nil {
			return []int{0}
		}
		all = append(all, n)
	}
	return all
}

// Channels are the widths of the maps.
func (b *Backbone) Channels() (all []int) {
	widths := b.Widths
	if b.Kind == "hgnet_v2" {
		widths = b.Out
	}
	for _, s := range b.stages() {
		if s >= 1 && s <= len(widths) {
			all = append(all, widths[s-1])
		}
	}
	return all
}

// resnet is the backbone, whose batch norms are in its convolutions (detr.Folded).
type resnet struct {
	stem   []*nn.Conv
	stages [][]*residual
	out    []int
}

// residual is relu(convolutions(x) + shortcut(x)).
type residual struct {
	convs    []*nn.Conv
	shortcut *nn.Conv // nil: x itself
	halve    bool     // x is pooled first
}

func newResNet(p *nn.Params, b Backbone) *resnet {
	p.Ignore(".*\\.num_batches_tracked")
	r := &resnet{out: b.stages()}
	in := 3
	for i, out := range []int{b.Stem / 2, b.Stem / 2, b.Stem} {
		s := 1
		if i == 0 {
			s = 2
		}
		r.stem = append(r.stem, p.Conv(fmt.Sprintf("embedder.embedder.%d.convolution", i), nn.Square(in, out, 3, s, 1), true))
		in = out
	}
	for i, width := range b.Widths {
		s := 2
		if i == 0 && !b.FirstHalves {
			s = 1
		}
		var stage []*residual
		for k := range b.Depths[i] {
			at := p.Sub(fmt.Sprintf("encoder.stages.%d.layers.%d", i, k))
			if k == 0 {
				stage = append(stage, newResidual(at, b, in, width, s, true))
			} else {
				stage = append(stage, newResidual(at, b, width, width, 1, false))
			}
		}
		r.stages, in = append(r.stages, stage), width
	}
	return r
}

func newResidual(p *nn.Params, b Backbone, in, out, stride int, first bool) *residual {
	conv := func(i, in, out, kernel, stride int) *nn.Conv {
		return p.Conv(fmt.Sprintf("layer.%d.convolution", i), nn.Square(in, out, kernel, stride, kernel/2), true)
	}
	r := &residual{}
	if b.Layer == "basic" {
		r.convs = []*nn.Conv{conv(0, in, out, 3, stride), conv(1, out, out, 3, 1)}
		switch {
		case !first:
		case in != out:
			r.halve, r.shortcut = true, p.Conv("shortcut.1.convolution", nn.Square(in, out, 1, 1, 0), true)
		default:
			r.shortcut = p.Conv("shortcut.convolution", nn.Square(in, out, 1, stride, 0), true)
		}
		return r
	}
	early, late := 1, stride
	if b.EarlyStride {
		early, late = stride, 1
	}
	narrow := out / 4
	r.convs = []*nn.Conv{conv(0, in, narrow, 1, early), conv(1, narrow, narrow, 3, late), conv(2, narrow, out, 1, 1)}
	switch {
	case stride == 2:
		r.halve, r.shortcut = true, p.Conv("shortcut.1.convolution", nn.Square(in, out, 1, 1, 0), true)
	case in != out:
		r.shortcut = p.Conv("shortcut.convolution", nn.Square(in, out, 1, stride, 0), true)
	}
	return r
}

func (r *residual) forward(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	past := x
	if r.halve {
		past = detr.MeanPool(tp, past)
	}
	if r.shortcut != nil {
		past = r.shortcut.Apply(tp, past, nil)
	}
	for i, c := range r.convs {
		if i == len(r.convs)-1 {
			return tp.Unary(kernels.ReLU, c.Apply(tp, x, past))
		}
		x = tp.Unary(kernels.ReLU, c.Apply(tp, x, nil))
	}
	return x
}

func (r *resnet) forward(tp *autograd.Tape, x *autograd.Value) (maps []*autograd.Value) {
	for _, c := range r.stem {
		x = tp.Unary(kernels.ReLU, c.Apply(tp, x, nil))
	}
	x = detr.MaxPool(tp, x, 3, 2, 1)
	for i, stage := range r.stages {
		for _, l := range stage {
			x = l.forward(tp, x)
		}
		if slices.Contains(r.out, i+1) {
			maps = append(maps, x)
		}
	}
	return maps
}
