package cpu

import (
	"context"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/gemm"
)

// Dry is a Backend that computes nothing and has no memory: work that runs on it takes the time of its bookkeeping,
// and its memory is counted. Buffers have sizes alone; downloads leave their target as it was.
//
// Invariant (tests): the same work asks Dry and Backend for the same bytes.
type Dry struct {
	bare   bool
	apart  bool
	engine *gemm.Engine // knows how large packed weights are
	now    int
	peak   int

	operations float64
	until      context.Context // nil: none
}

var _ kernels.Repacker = (*Dry)(nil)

// NewDry counts for a Backend with these options.
func NewDry(o Options) *Dry {
	return &Dry{engine: gemm.NewMixed(o.Paths().Products, o.Paths().Convolutions, o.Threads)}
}

// NewBare is NewDry for models of which the settings are there, and maybe no weights.
func NewBare(o Options) *Dry {
	d := NewDry(o)
	d.bare = true
	return d
}

// Bare tells loaders that weights need not be there.
func (d *Dry) Bare() bool { return d.bare }

// Until bounds the work, which asks Over now and then.
func (d *Dry) Until(ctx context.Context) { d.until = ctx }

// Over is why the work shall end, nil while it may go on.
func (d *Dry) Over() error {
	if d.until == nil {
		return nil
	}
	return d.until.Err()
}

// Peak is the most bytes that were held since ResetPeak.
func (d *Dry) Peak() int { return d.peak }

// ResetPeak starts the peak anew from the memory held now.
func (d *Dry) ResetPeak() { d.peak = d.now }

// Name says that nothing is computed.
func (d *Dry) Name() string { return "cpu/dry" }

// ComputesNothing tells loaders that they need not read.
func (d *Dry) ComputesNothing() {}

// Alloc counts n bytes.
func (d *Dry) Alloc(n int) *kernels.Buffer {
	d.now += n
	d.peak = max(d.peak, d.now)
	return &kernels.Buffer{Bytes: n}
}

// Free takes them away.
func (d *Dry) Free(b *kernels.Buffer) {
	d.now -= b.Bytes
	b.Bytes = 0
}

// Pack counts a packed weight.
func (d *Dry) Pack(w kernels.Mat, m kernels.Math) *kernels.Packed { return d.PackIn(nil, w, m) }

// PackIn counts no memory that is there.
func (d *Dry) PackIn(memory *kernels.Buffer, w kernels.Mat, m kernels.Math) *kernels.Packed {
	if memory == nil {
		memory = d.Alloc(d.engine.PackedBytes(w.Rows, w.Cols, m))
	}
	return &kernels.Packed{Math: m, N: w.Rows, K: w.Cols, Buf: memory}
}

// PackCodes counts the packed weight. A device unpacks before it packs: the unpacked weight is counted for
// that time.
func (d *Dry) PackCodes(memory *kernels.Buffer, a *kernels.Unpack, m kernels.Math) *kernels.Packed {
	p := d.PackIn(memory, a.Dst, m)
	if d.apart {
		d.scratch(a.Dst.Rows * a.Dst.Cols * a.Dst.DType.Size())
	}
	return p
}

// Keeps reports whether a pool may keep the memory of packed weights for the next ones of their shape.
func (d *Dry) Keeps() bool { return !d.apart }

// Apart says whether work is counted for a device whose memory is not the host's.
func (d *Dry) Apart(apart bool) { d.apart = apart }

// PackConv counts a convolution's packed weight.
func (d *Dry) PackConv(_ kernels.Span, s kernels.ConvShape, m kernels.Math) *kernels.Packed {
	p := &kernels.Packed{Math: m, N: s.Out, K: s.KH * s.KW * s.In, Conv: s}
	p.Buf = d.Alloc(d.engine.ConvBytes(s, m))
	return p
}

// scratch counts an operation's memory for its own time.
func (d *Dry) scratch(n int) { d.peak = max(d.peak, d.now+n) }

// Gemm counts the panels of an operand that is packed on the way.
func (d *Dry) Gemm(a *kernels.Gemm) {
	if a.Pair != nil {
		d.scratch(d.engine.PairScratch(a))
		first, second := a.Apart(kernels.Mat{Rows: a.C.Rows, Cols: a.C.Cols})
		d.Gemm(first)
		d.Gemm(second)
		return
	}
	d.multiply(a)
	if a.W == nil {
		d.scratch(min(d.engine.PackedBytes(a.B.Rows, a.B.Cols, a.Math), gemm.MostScratch))
	} else if a.Layout != kernels.NT {
		d.scratch(min(a.W.Buf.Bytes, gemm.MostScratch))
	}
}

// Conv counts packed pictures, which are padded.
func (d *Dry) Conv(a *kernels.Conv) {
	s := a.Shape
	d.operations += windows(a)
	d.scratch(min(a.N*(a.H+s.Top+s.Bottom)*(a.W+s.Left+s.Right)*s.In*4, gemm.MostScratch))
}

// ConvBackward counts the gradient's windows; on a device, all that such a call may hold.
func (d *Dry) ConvBackward(a *kernels.ConvBackward) {
	if d.apart {
		d.scratch(gemm.MostScratch)
	} else {
		d.scratch(d.engine.BackwardScratch(a))
	}
	for _, of := range []kernels.Span{a.DX, a.DWeight} { // as many for each gradient
		if !of.Empty() {
			d.operations += windows(&a.Conv)
		}
	}
}

// The rest holds nothing, or so little that it does not count.

func (*Dry) Upload(kernels.Span, []byte)                                {}
func (*Dry) Download([]byte, kernels.Span)                              {}
func (*Dry) Sync()                                                      {}
func (*Dry) Unpack(*kernels.Unpack)                                     {}
func (*Dry) Rope(*kernels.Rope)                                         {}
func (*Dry) Norm(*kernels.Norm)                                         {}
func (*Dry) NormBackward(*kernels.NormBackward)                         {}
func (*Dry) GroupNorm(*kernels.GroupNorm)                               {}
func (*Dry) GroupNormBackward(*kernels.GroupNormBackward)               {}
func (*Dry) Softmax(*kernels.Softmax)                                   {}
func (*Dry) SoftmaxBackward(*kernels.SoftmaxBackward)                   {}
func (*Dry) LogSoftmaxGather(*kernels.LogSoftmaxGather)                 {}
func (*Dry) LogSoftmaxGatherBackward(*kernels.LogSoftmaxGatherBackward) {}
func (*Dry) Draw(*kernels.Draw)                                         {}
func (*Dry) Embedding(*kernels.Embedding)                               {}
func (*Dry) EmbeddingBackward(*kernels.EmbeddingBackward)               {}
func (*Dry) Upsample(*kernels.Upsample)                                 {}
func (*Dry) UpsampleBackward(*kernels.UpsampleBackward)                 {}
func (*Dry) Unary(*kernels.Unary)                                       {}
func (*Dry) UnaryBackward(*kernels.UnaryBackward)                       {}
func (*Dry) Binary(*kernels.Binary)                                     {}
func (*Dry) Axpby(*kernels.Axpby)                                       {}
func (*Dry) Modulate(*kernels.Modulate)                                 {}
func (*Dry) ModulateBackward(*kernels.ModulateBackward)                 {}
func (*Dry) Gated(*kernels.Gated)                                       {}
func (*Dry) GatedBackward(*kernels.GatedBackward)                       {}
func (*Dry) GLU(*kernels.GLU)                                           {}
func (*Dry) GLUBackward(*kernels.GLUBackward)                           {}
func (*Dry) Fill(kernels.Span, float32)                                 {}
func (*Dry) Copy(*kernels.Copy)                                         {}
func (*Dry) SumRows(*kernels.SumRows)                                   {}
func (*Dry) Reduce(*kernels.Reduce)                                     {}
func (*Dry) Normal(*kernels.Normal)                                     {}
func (*Dry) Row(*kernels.Row)                                           {}
func (*Dry) AdamW(*kernels.AdamW)                                       {}

// Operations of products and attention that Dry was asked for: two a multiply-add, of attention those of the scores
// that are seen. A network's other operations are not counted.

// Operations are all of them so far.
func (d *Dry) Operations() float64 { return d.operations }

// multiply counts a product without a pair, with either operand turned.
func (d *Dry) multiply(a *kernels.Gemm) {
	k := a.A.Cols
	if a.Layout == kernels.TN {
		k = a.A.Rows
	}
	d.operations += 2 * float64(a.C.Rows) * float64(a.C.Cols) * float64(k)
}

// windows are the operations of a convolution: the product of its windows.
func windows(a *kernels.Conv) float64 {
	oh, ow := a.Shape.OutSize(a.H, a.W)
	return 2 * float64(a.N*oh*ow) * float64(a.Shape.Out) * float64(a.Shape.KH*a.Shape.KW*a.Shape.In)
}

// Attention has two products, its backward five.
func (d *Dry) Attention(a *kernels.Attention) { d.operations += 2 * scores(a) }

// AttentionBackward counts them.
func (d *Dry) AttentionBackward(a *kernels.AttentionBackward) {
	d.operations += 5 * scores(&a.Attention)
}

// scores are the operations of one product of attention.
func scores(a *kernels.Attention) float64 {
	seen := float64(a.Q.S) * float64(a.K.S)
	if a.Causal {
		seen = float64(a.Q.S) * (float64(a.K.S) - float64(a.Q.S-1)/2)
	}
	return 2 * float64(a.Q.B*a.Q.H*a.Q.D) * seen
}
