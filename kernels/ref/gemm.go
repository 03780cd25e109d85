package ref

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Gemm: C = epilogue(op(A) · op(B)).
//
// Every output is one sum over ascending k, whatever surrounds it:
//
//	MathF32   v = +0; v = fma(a[k], b[k], v)
//	MathBF16  a and b rounded to bf16; v = +0; for each 32 of k: E = O = +0,
//	          E = fma(a[k], b[k], E) over its even k, O over its odd k; v = v + (E + O).
//	          K is padded with zeros to a multiple of 32.
//
// The second is that of AMX tiles (TDPBF16PS), in their order.
// Denormals are flushed at every step.
//
// With Segments (a weight gradient) every sample's product is such a sum of its own,
// times Alpha; they are added one after another, to C where Accumulate is set. So the
// number of samples in a call does not change the result of a series of calls.
//
// Gemm computes rows lo to hi-1 of C of a product without a pair.
func Gemm(a *kernels.Gemm, lo, hi int) {
	_, n, k := GemmShape(a)
	rows := hi - lo
	if rows <= 0 || n == 0 {
		return
	}
	product := productOf(a.Math)
	left := lines{a: a.A, across: a.Layout == kernels.TN, math: a.Math}.load(lo, rows, k)
	right := lines{a: bOperand(a), across: a.Layout != kernels.NT, math: a.Math}
	alpha := alphaOf(a)
	v := make([]float32, rows*n)
	if a.Accumulate && len(a.Segments) > 0 {
		for r := range rows {
			LoadRow(v[r*n:(r+1)*n], a.C, lo+r)
		}
	}
	for j := 0; j < n; j += 4 {
		cols := min(4, n-j)
		b := right.load(j, cols, k)
		for r := range rows {
			at := 0
			for s, length := range samples(a, k) {
				var sum [4]float32
				product(&sum, left[r].part(at, length), b, at, length)
				at += length
				for c := range cols {
					p := &v[r*n+j+c]
					switch x := Mul(alpha, sum[c]); {
					case s > 0 || a.Accumulate && len(a.Segments) > 0:
						*p = Add(*p, x)
					default:
						*p = x
					}
				}
			}
		}
	}
	for r := range rows {
		finish(a, lo+r, v[r*n:(r+1)*n])
	}
}

// finish is the epilogue of row m, whose products times Alpha are v.
func finish(a *kernels.Gemm, m int, v []float32) {
	row := make([]float32, len(v))
	if !a.Bias.Empty() {
		Load(row, a.Bias, 0)
		combine(Add, v, row)
	}
	if !a.Pre.Empty() {
		StoreRow(a.Pre, m, v)
	}
	activate(a.Act, v)
	if !a.Gate.Empty() {
		LoadRow(row, a.Gate, m/a.GateRows)
		combine(Mul, v, row)
	}
	if !a.Residual.Empty() {
		LoadRow(row, a.Residual, m)
		combine(Add, v, row)
	}
	if a.Accumulate && len(a.Segments) == 0 {
		LoadRow(row, a.C, m)
		combine(Add, v, row)
	}
	StoreRow(a.C, m, v)
}

func combine(f func(a, b float32) float32, v, w []float32) {
	for i := range v {
		v[i] = f(v[i], w[i])
	}
}

// samples are the lengths of the separate sums of k.
func samples(a *kernels.Gemm, k int) []int {
	if len(a.Segments) > 0 {
		return a.Segments
	}
	return []int{k}
}

func alphaOf(a *kernels.Gemm) float32 {
	if a.Alpha == 0 {
		return 1
	}
	return Flush(a.Alpha)
}

// line is a row of op(A) or a column of op(B), over k, and whether its numbers are
// tame: zero, or of an exponent between -40 and 40. Sums of products of tame numbers
// meet neither denormals nor overflow: each is a multiple of 2^-126 below 2^100.
type line struct {
	x    []float32
	tame bool
}

func newLine(x []float32) line {
	for _, v := range x {
		e := math.Float32bits(v) >> 23 & 0xff
		if v != 0 && e-(127-40) > 80 {
			return line{x, false}
		}
	}
	return line{x, true}
}

// roundAll rounds numbers to bf16.
func roundAll(x []float32) {
	for i, v := range x {
		x[i] = RoundBF16(v)
	}
}

func (l line) part(at, length int) line { return line{l.x[at : at+length], l.tame} }

// lines loads rows of a matrix, or columns where across is set.
type lines struct {
	a      kernels.Mat
	across bool
	math   kernels.Math
}

// load is lines first to first+count-1, each k long.
func (l lines) load(first, count, k int) []line {
	out := make([]line, count)
	all := make([]float32, count*k)
	if l.across {
		row := make([]float32, count)
		for i := range k {
			Load(row, l.a.Span, i*l.a.Stride+first)
			for j, x := range row {
				all[j*k+i] = x
			}
		}
	}
	for j := range out {
		x := all[j*k : (j+1)*k]
		if !l.across {
			Load(x, l.a.Span, (first+j)*l.a.Stride)
		}
		if l.math == kernels.MathBF16 {
			roundAll(x)
		}
		out[j] = newLine(x)
	}
	return out
}

// productOf is the sum of a kind of arithmetic: of one row with up to four columns, over length of k from b's at on.
// It runs on from sum's content.
func productOf(m kernels.Math) func(sum *[4]float32, a line, b []line, at, length int) {
	if m == kernels.MathBF16 {
		return productBF16
	}
	return productF32
}

func productF32(sum *[4]float32, a line, b []line, at, length int) {
	for c := range b {
		x, y := a.x[:length], b[c].x[at:at+length]
		v := sum[c]
		if a.tame && b[c].tame {
			for i, xi := range x {
				// FMA without its branches for the ends of the range.
				s := float64(xi)*float64(y[i]) + float64(v)
				if math.Float64bits(s)&0x1fff_ffff == 0x1000_0000 {
					v = FMA(xi, y[i], v)
				} else {
					v = float32(s)
				}
			}
		} else {
			for i, xi := range x {
				v = FMA(xi, y[i], v)
			}
		}
		sum[c] = v
	}
}

func productBF16(sum *[4]float32, a line, b []line, at, length int) {
	for c := range b {
		x, y := a.x[:length], b[c].x[at:at+length]
		v := sum[c]
		for k := 0; k < length; k += 32 {
			end := min(k+32, length)
			var e, o float32
			if a.tame && b[c].tame {
				// A product of two bf16 is exact, so that it needs no rounding of its own.
				i := k
				for ; i+1 < end; i += 2 {
					e += float32(x[i] * y[i])
					o += float32(x[i+1] * y[i+1])
				}
				if i < end {
					e += float32(x[i] * y[i])
				}
				v += e + o
				continue
			}
			for i := k; i < end; i++ {
				if i&1 == 0 {
					e = FMA(x[i], y[i], e)
				} else {
					o = FMA(x[i], y[i], o)
				}
			}
			// The zeros that pad k: they turn -0 into +0.
			if end < k+32 {
				o = Add(o, 0)
			}
			if end < k+31 {
				e = Add(e, 0)
			}
			v = Add(v, Add(e, o))
		}
		sum[c] = v
	}
}

// GemmShape is the product's size: C[m,n], and k added up. It panics where operands
// do not fit together.
func GemmShape(a *kernels.Gemm) (m, n, k int) {
	b := a.B
	if w := a.W; w != nil {
		if a.Layout == kernels.TN || w.Math != a.Math {
			panic(fmt.Sprintf("kernels: Gemm %s in %s with a weight packed for %s", a.Layout, a.Math, w.Math))
		}
		b.Rows, b.Cols = w.N, w.K
	}
	m, k = a.A.Rows, a.A.Cols
	if a.Layout == kernels.TN {
		m, k = k, m
	}
	n, kb := b.Cols, b.Rows
	if a.Layout == kernels.NT {
		n, kb = kb, n
	}
	if kb != k || a.C.Rows != m || a.C.Cols != n {
		panic(fmt.Sprintf("kernels: Gemm %s of [%d,%d] and [%d,%d] into [%d,%d]",
			a.Layout, a.A.Rows, a.A.Cols, b.Rows, b.Cols, a.C.Rows, a.C.Cols))
	}
	if p := a.Pair; p != nil {
		low, bare := *a, a.Bias.Empty() && a.Pre.Empty() && a.Gate.Empty() && p.Pre.Empty()
		low.A, low.B, low.W, low.Pair = p.A, p.B, p.W, nil
		GemmShape(&low)
		switch {
		case a.Layout == kernels.TN, a.Layout == kernels.NN && !bare, a.Act != kernels.Identity, a.Accumulate:
			panic(fmt.Sprintf("kernels: Gemm %s with a pair and another epilogue than it has", a.Layout))
		case !p.Pre.Empty() && (p.Pre.Rows < m || p.Pre.Cols < n || p.Pre.DType != kernels.F32):
			panic(fmt.Sprintf("kernels: Gemm into [%d,%d]: the pair's Pre is %s [%d,%d]", m, n, p.Pre.DType, p.Pre.Rows, p.Pre.Cols))
		}
	}
	total := 0
	for _, s := range a.Segments {
		total += s
	}
	bare := a.Bias.Empty() && a.Pre.Empty() && a.Act == kernels.Identity && a.Gate.Empty() && a.Residual.Empty()
	switch {
	case len(a.Segments) > 0 && (a.Layout != kernels.TN || total != k || !bare):
		panic(fmt.Sprintf("kernels: Gemm: segments of %d rows in all for a %s product over %d, without epilogue: %t", total, a.Layout, k, bare))
	case !a.Bias.Empty() && a.Bias.Len < n, !a.Pre.Empty() && (a.Pre.Rows < m || a.Pre.Cols < n),
		!a.Residual.Empty() && (a.Residual.Rows < m || a.Residual.Cols < n),
		!a.Gate.Empty() && (a.GateRows <= 0 || a.Gate.Rows*a.GateRows < m || a.Gate.Cols < n):
		panic(fmt.Sprintf("kernels: Gemm into [%d,%d]: an operand of the epilogue is too small", m, n))
	case a.Accumulate && !a.C.Empty() && a.C.DType != kernels.F32:
		panic("kernels: Gemm adds to a C of " + a.C.DType.String())
	}
	return m, n, k
}

// FormRows marks a weight packed as it was: its rows, in the type of its arithmetic.
const FormRows = 0

// bOperand is the second operand as a matrix.
func bOperand(a *kernels.Gemm) kernels.Mat {
	if a.W == nil {
		return a.B
	}
	return PackedRows(a.W)
}

// PackedRows is the matrix [N,K] inside a weight of FormRows.
func PackedRows(w *kernels.Packed) kernels.Mat {
	if w.Form != FormRows {
		panic(fmt.Sprintf("ref: a weight packed in form %d, which another backend reads", w.Form))
	}
	return kernels.NewMat(kernels.Span{Buf: w.Buf, Len: w.N * w.K, DType: packedType(w.Math)}, w.N, w.K)
}

func packedType(m kernels.Math) kernels.DType {
	if m == kernels.MathBF16 {
		return kernels.BF16
	}
	return kernels.F32
}

// Pack copies rows lo to hi-1 of w into a weight of FormRows.
func Pack(dst *kernels.Packed, w kernels.Mat, lo, hi int) { PackPart(dst, w.RowRange(lo, hi), lo) }

// PackPart copies the rows of part into rows from on of a weight of FormRows.
func PackPart(dst *kernels.Packed, part kernels.Mat, from int) {
	row, to := make([]float32, part.Cols), PackedRows(dst)
	for r := range part.Rows {
		LoadRow(row, part, r)
		StoreRow(to, from+r, row)
	}
}

// Pack keeps the weight's rows.
func (b Backend) Pack(w kernels.Mat, m kernels.Math) *kernels.Packed { return b.PackIn(nil, w, m) }

// PackIn is Pack in memory of its size.
func (b Backend) PackIn(memory *kernels.Buffer, w kernels.Mat, m kernels.Math) *kernels.Packed {
	if memory == nil {
		memory = b.Alloc(w.Rows * w.Cols * packedType(m).Size())
	}
	p := &kernels.Packed{Math: m, N: w.Rows, K: w.Cols, Form: FormRows, Buf: memory}
	Pack(p, w, 0, w.Rows)
	return p
}

// PackCodes unpacks the matrix in full, and packs it.
func (b Backend) PackCodes(memory *kernels.Buffer, a *kernels.Unpack, m kernels.Math) *kernels.Packed {
	n, in := a.Dst.Rows*a.Dst.Cols, *a
	in.Dst = kernels.NewMat(kernels.Span{Buf: b.Alloc(n * a.Dst.DType.Size()), Len: n, DType: a.Dst.DType}, a.Dst.Rows, a.Dst.Cols)
	b.Unpack(&in)
	return b.PackIn(memory, in.Dst, m)
}

// Gemm computes every row.
func (b Backend) Gemm(a *kernels.Gemm) {
	m, n, _ := GemmShape(a)
	if a.Pair == nil {
		Gemm(a, 0, m)
		return
	}
	u := b.Alloc(4 * m * n)
	defer b.Free(u)
	first, second := a.Apart(kernels.NewMat(kernels.Span{Buf: u, Len: m * n, DType: kernels.F32}, m, n))
	Gemm(first, 0, m)
	Gemm(second, 0, m)
}
