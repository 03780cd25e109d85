//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// mat uploads normals as rows whose distance is more than their length; what lies between them, and before
// and behind, is NaN.
func (r *rig) mat(d kernels.DType, rows, cols, stride, skip int) kernels.Mat {
	x := make([]float32, skip+rows*stride+8)
	for i := range x {
		x[i] = float32(math.NaN())
		if at := i - skip; at >= 0 && at < rows*stride && at%stride < cols {
			x[i] = float32(r.r.NormFloat64())
		}
	}
	var raw []byte
	for _, v := range x {
		if d == kernels.BF16 {
			raw = binary.LittleEndian.AppendUint16(raw, ref.ToBF16(v))
		} else {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
	}
	all := kernels.Span{Buf: r.Alloc(len(x) * d.Size()), Len: len(x), DType: d}
	r.Upload(all, raw)
	return kernels.Mat{Span: all.Slice(skip, skip+rows*stride), Rows: rows, Cols: cols, Stride: stride}
}

// sameReadings computes with everything gathered, and then with every tile from operands as they lie:
// the same bits, and none of them NaN. gathers is how many operands cannot be read so.
func (r *rig) sameReadings(name string, pictures bool, gathers int, compute func() []byte) {
	r.t.Helper()
	defer r.SetReading(false, "")
	r.SetReading(true, "_128")
	want := compute()
	for i := 0; i+4 <= len(want); i += 4 {
		if v := math.Float32frombits(binary.LittleEndian.Uint32(want[i:])); v != v {
			r.t.Fatalf("%s: NaN came from outside an operand", name)
		}
	}
	for _, tile := range append(cuda.Tiles(pictures), "") {
		if tile != "" && r.Device().Shared < 160<<10 {
			continue // not every tile fits
		}
		before := r.Gathered()
		r.SetReading(false, tile)
		if !bytes.Equal(compute(), want) {
			r.t.Errorf("%s: tile %q has other bits than operands that were gathered", name, tile)
		}
		if n := r.Gathered() - before; n != gathers {
			r.t.Errorf("%s: %d operands gathered, want %d", name, n, gathers)
		}
	}
}

// TestReading: however the operands of a product lie and whatever their type, and with each tile, a result has the
// bits that it has from operands that were gathered first; nothing beyond rows and columns is read.
func TestReading(t *testing.T) {
	r := newRig(t)
	const m, n, k = 70, 76, 108 // ends inside tiles, slices and pieces
	for i, layout := range []kernels.Layout{kernels.NT, kernels.NN, kernels.TN} {
		for types := range 4 {
			a, b := kernels.DType(types&1), kernels.DType(types>>1)
			ar, ac, br, bc := m, k, n, k
			if layout != kernels.NT {
				br, bc = k, n
			}
			if layout == kernels.TN {
				ar, ac = k, m
			}
			left, right := r.mat(a, ar, ac, 120, 8), r.mat(b, br, bc, 112, 16)
			g := kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: left, B: right, Alpha: 0.75}
			r.sameReadings(fmt.Sprintf("%s of %s and %s", layout, a, b), false, 0, func() []byte {
				c := r.zeros(kernels.F32, m*n)
				g.C = kernels.NewMat(c, m, n)
				if layout == kernels.TN {
					r.Fill(c, 3)
					g.Segments, g.Accumulate = []int{0, 33, 0, 64, 11}, types%2 == 0
				}
				r.Gemm(&g)
				return r.bytes(c)
			})
			if i == types { // odd places cannot be read as they lie
				g.A = r.mat(a, ar, ac, 121, 3)
				r.sameReadings(fmt.Sprintf("%s, odd", layout), false, 1, func() []byte {
					c := r.zeros(kernels.F32, m*n)
					g.C = kernels.NewMat(c, m, n)
					r.Gemm(&g)
					return r.bytes(c)
				})
			}
		}
	}
}

// TestReadingPictures is TestReading for convolutions and their gradients.
func TestReadingPictures(t *testing.T) {
	r := newRig(t)
	same := func(in, out, kh, kw, stride, top, left int) kernels.ConvShape {
		return kernels.ConvShape{In: in, Out: out, KH: kh, KW: kw, Stride: stride, Top: top, Left: left, Bottom: kh - 1 - top, Right: kw - 1 - left}
	}
	for _, c := range []struct {
		s    kernels.ConvShape
		x, y kernels.DType
		// Operands gathered by the convolution, its gradient to the picture, and to the weight.
		gathers [3]int
	}{
		{same(16, 24, 3, 3, 1, 1, 1), kernels.BF16, kernels.BF16, [3]int{}},
		{same(40, 8, 3, 2, 1, 0, 1), kernels.F32, kernels.F32, [3]int{}},
		{same(8, 16, 3, 3, 2, 1, 1), kernels.BF16, kernels.F32, [3]int{}},
		{same(24, 8, 1, 1, 1, 0, 0), kernels.BF16, kernels.BF16, [3]int{}},
		{same(3, 8, 3, 3, 1, 1, 1), kernels.BF16, kernels.BF16, [3]int{2, 2, 1}},
		{same(8, 5, 3, 3, 1, 1, 1), kernels.BF16, kernels.BF16, [3]int{0, 2, 1}},
	} {
		const pictures, h, w = 2, 6, 7
		oh, ow := c.s.OutSize(h, w)
		x, dy := r.mat(c.x, 1, pictures*h*w*c.s.In, pictures*h*w*c.s.In, 8).Span, r.mat(c.y, 1, pictures*oh*ow*c.s.Out, pictures*oh*ow*c.s.Out, 8).Span
		weight := r.mat(c.y, 1, c.s.Out*c.s.KH*c.s.KW*c.s.In, c.s.Out*c.s.KH*c.s.KW*c.s.In, 8).Span
		f := kernels.Conv{Shape: c.s, Math: kernels.MathBF16, N: pictures, H: h, W: w, X: x, Weight: weight}
		for i, what := range []string{"forward", "input", "weight"} {
			r.sameReadings(fmt.Sprintf("%s of %+v", what, c.s), true, c.gathers[i], func() []byte {
				back := kernels.ConvBackward{Conv: f, DY: dy}
				switch i {
				case 0:
					f.Y = r.zeros(kernels.F32, pictures*oh*ow*c.s.Out)
					r.Conv(&f)
					return r.bytes(f.Y)
				case 1:
					back.DX = r.zeros(kernels.F32, x.Len)
					r.ConvBackward(&back)
					return r.bytes(back.DX)
				}
				back.DWeight = r.zeros(kernels.F32, weight.Len)
				r.ConvBackward(&back)
				return r.bytes(back.DWeight)
			})
		}
	}
}

// TestLittleShared: where a block may have as little shared memory as on devices of 8.6 to 12.0, what does not
// fit is gathered, with the same bits.
func TestLittleShared(t *testing.T) {
	r := newRig(t)
	s := kernels.ConvShape{In: 8, Out: 8, KH: 3, KW: 3, Stride: 1, Top: 1, Left: 1, Bottom: 1, Right: 1}
	const n = 5 * 5 * 8
	f := kernels.Conv{Shape: s, Math: kernels.MathBF16, N: 1, H: 5, W: 5, X: r.mat(kernels.F32, 1, n, n, 0).Span, Weight: r.mat(kernels.F32, 1, 9*64, 9*64, 0).Span}
	dy := r.mat(kernels.F32, 1, n, n, 0).Span
	r.SetShared(99 << 10)
	for i, gathers := range []int{1, 2, 1} {
		r.sameReadings(fmt.Sprintf("product %d of a convolution", i), true, gathers, func() []byte {
			back, y := kernels.ConvBackward{Conv: f, DY: dy}, r.zeros(kernels.F32, n)
			switch i {
			case 0:
				f.Y = y
				r.Conv(&f)
				return r.bytes(y)
			case 1:
				back.DX = y
			case 2:
				y = r.zeros(kernels.F32, 9*64)
				back.DWeight = y
			}
			r.ConvBackward(&back)
			return r.bytes(y)
		})
	}
}

// TestManySamples: more samples than go with a launch have the bits of few at a time.
func TestManySamples(t *testing.T) {
	r := newRig(t)
	const m, n, each, samples = 16, 24, 5, 40
	a, b := r.mat(kernels.BF16, samples*each, m, m, 0), r.mat(kernels.F32, samples*each, n, n, 0)
	gradient := func(at int) []byte {
		c := r.zeros(kernels.F32, m*n)
		for from := 0; from < samples; from += at {
			g := kernels.Gemm{Layout: kernels.TN, Math: kernels.MathBF16, A: a.RowRange(from*each, (from+at)*each), B: b.RowRange(from*each, (from+at)*each),
				C: kernels.NewMat(c, m, n), Accumulate: true}
			for range at {
				g.Segments = append(g.Segments, each)
			}
			r.Gemm(&g)
		}
		return r.bytes(c)
	}
	if !bytes.Equal(gradient(samples), gradient(10)) {
		t.Error("the sum depends on how the samples' starts are passed")
	}
}

// TestPairs: an epilogue that is written two elements at a time has the bits of one that is written by
// elements, of which any odd number or place makes one.
func TestPairs(t *testing.T) {
	r := newRig(t)
	const m, n, k = 35, 38, 40
	a, b := r.mat(kernels.BF16, m, k, k, 0), r.mat(kernels.BF16, n, k, k, 0)
	types := []kernels.DType{kernels.F32, kernels.BF16}
	for i, d := range types {
		bias, gate, residual := r.mat(types[1-i], 1, n, n, 0), r.mat(d, 3, n, n, 0), r.mat(types[1-i], m, n, n, 0)
		run := func(skip int) (all []byte) {
			// The same numbers beside each other, or an odd number of elements further on.
			move := func(x kernels.Mat) kernels.Mat {
				y := kernels.Mat{Span: kernels.Span{Buf: r.Alloc((skip + x.Rows*x.Stride) * x.DType.Size()), Off: skip, Len: x.Rows * x.Stride, DType: x.DType}, Rows: x.Rows, Cols: x.Cols, Stride: x.Stride}
				r.Upload(y.Span, r.bytes(x.Span))
				return y
			}
			out := func(d kernels.DType) kernels.Mat { return move(kernels.NewMat(r.zeros(d, m*n), m, n)) }
			g := &kernels.Gemm{Math: kernels.MathBF16, A: a, B: b, C: out(d), Pre: out(types[1-i]), Bias: bias.Span, Gate: move(gate), GateRows: 16, Residual: residual,
				Act: kernels.SiLU, Alpha: -0.5}
			r.Gemm(g)
			if d == kernels.F32 {
				g.Accumulate = true
				r.Gemm(g)
			}
			return append(r.bytes(g.C.Span), r.bytes(g.Pre.Span)...)
		}
		if !bytes.Equal(run(0), run(1)) {
			t.Errorf("results of %s: pairs have other bits than elements", d)
		}
	}
}
