package autograd

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Norms, fused with what follows them in transformers: y = (n·w + b)·(1 + scale) + shift
// with scale and shift from a sample's condition, and n·w + b then SiLU in U-Nets.
// Backward reads x and the saved mean and 1/deviation of each row or group.

// NormWith says which norm, and what follows it. Weight, Bias, Scale, Shift are optional.
type NormWith struct {
	Kind         kernels.NormKind
	Weight, Bias *Param
	Scale, Shift *Value // one row a sample
	Eps          float32
}

// Norm normalises every row of x.
func (tp *Tape) Norm(x *Value, o NormWith) *Value {
	y := tp.result("norm", tp.pool.New(tp.DType, x.Shape()...), x, o.Scale, o.Shift).needsParam(o.Weight, o.Bias)
	a := kernels.Norm{Kind: o.Kind, X: x.t.Mat(), Y: y.t.Mat(), Weight: o.Weight.span(), Bias: o.Bias.span(),
		Scale: mat(o.Scale), Shift: mat(o.Shift), Eps: o.Eps}
	for _, m := range []*Value{o.Scale, o.Shift} {
		if m != nil {
			a.RowsPerSample = rowsPer("Norm", x, m)
		}
	}
	n := tp.record(y)
	if n == nil {
		tp.be.Norm(&a)
		return y
	}
	rows := x.t.Rows()
	a.Rstd = n.hold(tp.pool.New(kernels.F32, rows)).Span()
	if o.Kind == kernels.LayerNorm {
		a.Mean = n.hold(tp.pool.New(kernels.F32, rows)).Span()
	}
	tp.be.Norm(&a)
	n.save(x.t)
	if o.Scale != nil {
		n.save(o.Scale.t)
	}
	samples := x.samples()
	n.back = func() {
		dx, dscale, dshift := tp.needed(x), tp.needed(o.Scale), tp.needed(o.Shift)
		b := kernels.NormBackward{Norm: a, DY: y.grad.Mat(), DX: matOf(dx),
			DWeight: tp.sumIf(o.Weight), DBias: tp.sumIf(o.Bias), DScale: matOf(dscale), DShift: matOf(dshift)}
		b.Shift = kernels.Mat{} // the forward's alone; its memory may be gone
		if b.DWeight.Empty() && b.DBias.Empty() || a.RowsPerSample > 0 {
			tp.be.NormBackward(&b)
		} else {
			tp.normSamples(b, samples)
		}
		tp.giveIf(x, dx)
		tp.giveIf(o.Scale, dscale)
		tp.giveIf(o.Shift, dshift)
	}
	return y
}

// normSamples is the backward of samples without modulation, which may be ragged.
func (tp *Tape) normSamples(b kernels.NormBackward, samples []int) {
	if len(samples) == 0 {
		return
	}
	equal := true
	for _, r := range samples {
		equal = equal && r == samples[0]
	}
	if equal {
		b.RowsPerSample = samples[0]
		tp.be.NormBackward(&b)
		return
	}
	all, at := b, 0
	for _, r := range samples {
		b.RowsPerSample = r
		b.X, b.Y, b.DY = all.X.RowRange(at, at+r), all.Y.RowRange(at, at+r), all.DY.RowRange(at, at+r)
		if !all.DX.Empty() {
			b.DX = all.DX.RowRange(at, at+r)
		}
		b.Rstd = all.Rstd.Slice(at, at+r)
		if !all.Mean.Empty() {
			b.Mean = all.Mean.Slice(at, at+r)
		}
		tp.be.NormBackward(&b)
		at += r
	}
}

// GroupNormWith says how channels are grouped and what follows.
type GroupNormWith struct {
	Groups       int
	Weight, Bias *Param
	Eps          float32
	Act          kernels.UnaryOp // Identity or SiLU
}

// GroupNorm normalises x [N, ..., C] over each sample's pixels and a group's channels.
func (tp *Tape) GroupNorm(x *Value, o GroupNormWith) *Value {
	c := x.Dim(-1)
	if o.Groups <= 0 || c%o.Groups != 0 || x.t.Rank() < 2 {
		panic(fmt.Sprintf("autograd: GroupNorm of %v in %d groups", x.t, o.Groups))
	}
	y := tp.result("group norm", tp.pool.New(tp.DType, x.Shape()...), x).needsParam(o.Weight, o.Bias)
	a := kernels.GroupNorm{X: x.t.Span(), Y: y.t.Span(), N: x.Dim(0), HW: x.t.Rows() / max(1, x.Dim(0)), C: c, Groups: o.Groups,
		Weight: o.Weight.span(), Bias: o.Bias.span(), Eps: o.Eps, Act: o.Act}
	n := tp.record(y)
	if n == nil {
		tp.be.GroupNorm(&a)
		return y
	}
	a.Mean = n.hold(tp.pool.New(kernels.F32, a.N, a.Groups)).Span()
	a.Rstd = n.hold(tp.pool.New(kernels.F32, a.N, a.Groups)).Span()
	tp.be.GroupNorm(&a)
	n.save(x.t)
	n.back = func() {
		dx := tp.needed(x)
		tp.be.GroupNormBackward(&kernels.GroupNormBackward{GroupNorm: a, DY: y.grad.Span(), DX: spanOf(dx),
			DWeight: tp.sumIf(o.Weight), DBias: tp.sumIf(o.Bias)})
		tp.giveIf(x, dx)
	}
	return y
}

func spanOf(t *tensor.Tensor) kernels.Span {
	if t == nil {
		return kernels.Span{}
	}
	return t.Span()
}

// sqrt of sizes only: exact on every machine (IEEE 754).
func sqrt(x float64) float64 { return math.Sqrt(x) }
