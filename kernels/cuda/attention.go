package cuda

import (
	"encoding/binary"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

type attentionArgs struct {
	q, k, v, o          heads
	dout, dq, dk, dv    heads
	lse, delta          uintptr
	lens, bias          uintptr
	biasB, biasH, biasQ int64
	slopes, dbias       uintptr
	scale, c            float32
	causal, parallel    int32
}

// Rows that a block of the exact kernels takes, and others at a time; src/attention.cu.
const (
	attentionOwn    = 16
	attentionOthers = 256
)

func (b *Backend) attentionOf(op string, a *kernels.Attention) *attentionArgs {
	q, k, v, o := a.Q, a.K, a.V, a.O
	if k.B != q.B || v.B != q.B || v.S != k.S || k.D != q.D || v.H != k.H || k.H == 0 || q.H%k.H != 0 ||
		o.B != q.B || o.S != q.S || o.H != q.H || o.D != v.D || len(a.KeyLens) != 0 && len(a.KeyLens) != q.B {
		panic(fmt.Sprintf("kernels: Attention of Q [%d,%d,%d,%d], K [%d,%d,%d,%d], V [%d,%d,%d,%d] into [%d,%d,%d,%d], %d lengths",
			q.B, q.S, q.H, q.D, k.B, k.S, k.H, k.D, v.B, v.S, v.H, v.D, o.B, o.S, o.H, o.D, len(a.KeyLens)))
	}
	p := &attentionArgs{q: headsOf(q), k: headsOf(k), v: headsOf(v), o: headsOf(o), lse: at(a.LSE), bias: at(a.Bias.Span),
		biasB: int64(a.Bias.SB), biasH: int64(a.Bias.SH), biasQ: int64(a.Bias.SQ), scale: a.Scale, c: ref.Mul(a.Scale, ref.Log2E), causal: flag(a.Causal)}
	if len(a.KeyLens) > 0 {
		lens := make([]byte, 0, 4*len(a.KeyLens))
		for _, n := range a.KeyLens {
			lens = binary.LittleEndian.AppendUint32(lens, uint32(n))
		}
		p.lens = b.small(op, lens)
	}
	return p
}

// exactKernel is the name of a kernel for a kind of arithmetic.
func exactKernel(name string, m kernels.Math) string {
	if m == kernels.MathBF16 {
		return name + "_bf16"
	}
	return name + "_f32"
}

// Attention computes every query.
func (b *Backend) Attention(a *kernels.Attention) {
	const op = "Attention"
	p := b.attentionOf(op, a)
	if b.onTensorCores(a) {
		defer b.giveBack(b.tensorHeads(op, source{&p.q, a.Q}, source{&p.k, a.K}, source{&p.v, a.V}))
		if b.onHopper(a) {
			b.hopperAttention(op, b.forwardOf(a), a, p)
			return
		}
		b.tensorAttention(op, "", a, a.Q.B*a.Q.H*ceil(a.Q.S, 64), 3*64, p)
		return
	}
	groups := a.Q.B * a.Q.H * ceil(a.Q.S, attentionOwn)
	shared := 4 * (attentionOwn*(a.Q.D+attentionOthers+a.V.D) + 3*attentionOwn)
	b.launch(op, exactKernel("attention", a.Math), [2]int{groups, 1}, 256, shared, p)
}

// AttentionBackward computes every gradient: a pass over queries (Delta, DQ), one over keys.
func (b *Backend) AttentionBackward(a *kernels.AttentionBackward) {
	const op = "AttentionBackward"
	p := b.attentionOf(op, &a.Attention)
	p.dout, p.dq, p.dk, p.dv, p.delta = headsOf(a.DO), headsOf(a.DQ), headsOf(a.DK), headsOf(a.DV), at(a.Delta)
	if !a.DBias.Empty() {
		slopes := b.scratch(op, 4*a.Q.B*a.Q.H*a.Q.S*a.K.S)
		defer b.giveBack(slopes)
		p.slopes, p.dbias = slopes[0], at(a.DBias)
	}
	b.launch(op, "attention_delta", [2]int{ceil(a.Q.S, 4) * a.Q.B * a.Q.H, 1}, 128, 0, p)
	if b.onTensorCores(&a.Attention) && a.DBias.Empty() {
		defer b.giveBack(b.tensorHeads(op, source{&p.q, a.Q}, source{&p.k, a.K}, source{&p.v, a.V}, source{&p.dout, a.DO}))
		if b.onHopper(&a.Attention) {
			b.hopperAttention(op, hopperQueries, &a.Attention, p)
			b.hopperAttention(op, b.keysOf(&a.Attention), &a.Attention, p)
			return
		}
		b.tensorAttention(op, "_queries", &a.Attention, a.Q.B*a.Q.H*ceil(a.Q.S, 64), 4*64, p)
		b.tensorAttention(op, "_keys", &a.Attention, a.K.B*a.K.H*ceil(a.K.S, 64), 3*64, p)
		return
	}
	shared := 4 * attentionOwn * (2*a.Q.D + a.V.D + attentionOthers)
	b.launch(op, exactKernel("attention_queries", a.Math), [2]int{a.Q.B * a.Q.H * ceil(a.Q.S, attentionOwn), 1}, 256, shared, p)
	shared = 4 * attentionOwn * (3*(a.K.D+a.V.D) + 2*attentionOthers)
	b.launch(op, exactKernel("attention_keys", a.Math), [2]int{a.K.B * a.K.H * ceil(a.K.S, attentionOwn), 1}, 256, shared, p)
	if p.dbias != 0 {
		p.parallel = biasPlaces(&a.Attention)
		threads := a.K.S
		for i, n := range []int{a.Q.B, a.Q.H, a.Q.S} {
			if p.parallel>>i&1 == 1 {
				threads *= n
			}
		}
		b.columns(op, "attention_bias", threads, 1, p)
	}
}

// biasPlaces says for batches, heads and queries (bits 0, 1, 2) whether each has places of its
// own in the bias. Strides that overlap give 0: everything is added by one thread a key.
func biasPlaces(a *kernels.Attention) int32 {
	s, reach := a.Bias, a.K.S
	places := int32(0)
	for _, axis := range []struct{ n, stride, bit int }{{a.Q.S, s.SQ, 4}, {a.Q.H, s.SH, 2}, {a.Q.B, s.SB, 1}} {
		switch {
		case axis.stride == 0 || axis.n <= 1:
		case axis.stride < reach:
			return 0
		default:
			places |= int32(axis.bit)
			reach = axis.stride * axis.n
		}
	}
	return places
}
