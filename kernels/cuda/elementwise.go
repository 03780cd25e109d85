package cuda

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

type unaryArgs struct {
	x, dy, y vec
	n        int64
	op       int32
	_        int32
}

// Unary computes every element.
func (b *Backend) Unary(a *kernels.Unary) {
	b.floats("Unary", a.X, a.Y)
	b.elements("Unary", b.activation("unary", a.Op, a.Y), a.X.Len, &unaryArgs{x: vecOf(a.X), y: vecOf(a.Y), n: int64(a.X.Len), op: int32(a.Op)})
}

// activation is the kernel of an activation, or of its gradient. Where products by wgmma have activations near ref's
// (src/hopper_activation.h), results of bf16 have them as well, so that an activation has the bits of the epilogue's.
func (b *Backend) activation(kernel string, op kernels.UnaryOp, results ...kernels.Span) string {
	gate := op == kernels.GELUTanh || op == kernels.QuickGELU || op == kernels.SiLU
	for _, s := range results {
		gate = gate && (s.Empty() || s.DType == kernels.BF16)
	}
	if gate && b.hopper.products.use {
		return "hopper_" + kernel
	}
	return kernel
}

// UnaryBackward computes every element.
func (b *Backend) UnaryBackward(a *kernels.UnaryBackward) {
	b.floats("UnaryBackward", a.X, a.DY, a.DX)
	b.elements("UnaryBackward", b.activation("unary_backward", a.Op, a.DX), a.X.Len, &unaryArgs{x: vecOf(a.X), dy: vecOf(a.DY), y: vecOf(a.DX), n: int64(a.X.Len), op: int32(a.Op)})
}

type binaryArgs struct {
	x, y, z vec
	n       int64
	op      int32
	_       int32
}

// Binary computes every element.
func (b *Backend) Binary(a *kernels.Binary) {
	b.floats("Binary", a.X, a.Y, a.Z)
	if a.X.Len > 0 && (a.Y.Len == 0 || a.X.Len%a.Y.Len != 0) {
		panic(fmt.Sprintf("kernels: Binary of %d and %d elements", a.X.Len, a.Y.Len))
	}
	b.elements("Binary", "binary", a.X.Len, &binaryArgs{x: vecOf(a.X), y: vecOf(a.Y), z: vecOf(a.Z), n: int64(a.X.Len), op: int32(a.Op)})
}

type axpbyArgs struct {
	x, y   vec
	n      int64
	ca, cb float32
}

// Axpby computes every element.
func (b *Backend) Axpby(a *kernels.Axpby) {
	b.floats("Axpby", a.X, a.Y)
	b.elements("Axpby", "axpby", a.X.Len, &axpbyArgs{x: vecOf(a.X), y: vecOf(a.Y), n: int64(a.X.Len), ca: a.A, cb: a.B})
}

type fillArgs struct {
	y     vec
	value float32
	_     int32
}

// Fill sets every element.
func (b *Backend) Fill(s kernels.Span, v float32) {
	b.floats("Fill", s)
	b.elements("Fill", "fill", s.Len, &fillArgs{y: vecOf(s), value: v})
}

type adamwArgs struct {
	p, g, m, v                                           uintptr
	n                                                    int64
	scale, c1, c2, beta2, keep, step, rootScale, epsilon float32
}

// AdamW updates every element.
func (b *Backend) AdamW(a *kernels.AdamW) {
	c1, c2 := a.New()
	b.elements("AdamW", "adamw", a.P.Len, &adamwArgs{p: at(a.P), g: at(a.Grad), m: at(a.M), v: at(a.V), n: int64(a.P.Len),
		scale: a.GradScale, c1: c1, c2: c2, beta2: float32(a.Beta2), keep: ref.Sub(1, ref.Mul(a.Rate, a.Decay)), step: a.Step, rootScale: a.RootScale, epsilon: a.Eps})
}

type normalArgs struct {
	y                  vec
	key, stream, start uint64
}

// Normal draws normals.
func (b *Backend) Normal(a *kernels.Normal) {
	b.floats("Normal", a.Y)
	b.elements("Normal", "normal", a.Y.Len, &normalArgs{y: vecOf(a.Y), key: a.Key, stream: a.Stream, start: a.Start})
}

type upsampleArgs struct {
	x, y                            uintptr
	n, h, w, c                      int64
	factor, xKind, yKind, moveBytes int32
}

// Upsample repeats pixels.
func (b *Backend) Upsample(a *kernels.Upsample) {
	args := &upsampleArgs{x: at(a.X), y: at(a.Y), n: int64(a.N), h: int64(a.H), w: int64(a.W), c: int64(a.C),
		factor: int32(a.Factor), xKind: int32(a.X.DType), yKind: int32(a.Y.DType)}
	if a.X.DType == a.Y.DType {
		args.moveBytes = int32(a.X.DType.Size())
		if n := piece / int(args.moveBytes); a.C%n == 0 && args.x%piece == 0 && args.y%piece == 0 {
			args.c, args.moveBytes = args.c/int64(n), piece
		}
	}
	b.elements("Upsample", "upsample", a.N*a.H*a.W*int(args.c)*a.Factor*a.Factor, args)
}

// UpsampleBackward adds the gradients of a pixel's copies.
func (b *Backend) UpsampleBackward(a *kernels.UpsampleBackward) {
	b.floats("UpsampleBackward", a.DY, a.DX)
	b.elements("UpsampleBackward", "upsample_backward", a.N*a.H*a.W*a.C, &upsampleArgs{x: at(a.DX), y: at(a.DY), n: int64(a.N), h: int64(a.H), w: int64(a.W), c: int64(a.C),
		factor: int32(a.Factor), xKind: int32(a.DX.DType), yKind: int32(a.DY.DType)})
}
