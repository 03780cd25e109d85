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
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

func TestHopperProducts(t *testing.T) {
	r, _ := newHopper(t)
	if !r.HopperMultiplies() {
		t.Fatal(r)
	}
	for name, f := range map[string]func(r *rig){"near": testHopperProductsNear, "bits": testHopperProductBits, "pairs": testHopperPairs, "epilogue": testHopperEpilogue, "activations": testHopperActivations, "gates": testHopperGates, "elsewhere": testHopperProductsElsewhere} {
		t.Run(name, func(t *testing.T) { f(&rig{r.Backend, t, r.r}) })
	}
}

// testHopperProductsNear holds products by wgmma, small ones as well, near to ref, with each tile in turn.
func testHopperProductsNear(r *rig) {
	defer r.SetHopper("", 65, 2)
	tiles, i := cuda.HopperTiles(), 0
	kerneltest.RunNear(r.t, r.Backend, func(c kerneltest.Case) float64 {
		if c.Op != "Gemm" {
			return -1
		}
		r.SetHopper(tiles[i%len(tiles)], 1, 2)
		i++
		return kerneltest.TensorCores(c)
	})
}

// testHopperProductBits: a row's bits do not depend on how many rows there are, on its place, on the tile, on how many
// blocks share the tiles, nor on how operands lie and what their type is; and nothing beyond rows and columns is read.
func testHopperProductBits(r *rig) {
	r.t.Helper()
	testProductBits(r, 150, 280, 136) // ends inside tiles, slices and boxes
	if r.HopperAdapts() {
		testProductBits(r, 150, 40, 136)
	}
}

// testProductBits is testHopperProductBits for one shape.
func testProductBits(r *rig, m, n, k int) {
	r.t.Helper()
	processors := r.Device().Processors
	defer r.SetHopper("", 65, processors)
	for _, layout := range []kernels.Layout{kernels.NT, kernels.NN} {
		rows, cols := n, k
		if layout == kernels.NN {
			rows, cols = k, n
		}
		a, b := r.mat(kernels.BF16, m, k, 152, 8), r.mat(kernels.BF16, rows, cols, cols+16, 16)
		product := func(a, b kernels.Mat) []byte {
			c := r.zeros(kernels.F32, a.Rows*n)
			r.Gemm(&kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: a, B: b, C: kernels.NewMat(c, a.Rows, n)})
			return r.bytes(c)
		}
		want := product(a, b)
		if err := finite(want); err != nil {
			r.t.Fatalf("%s: %v", layout, err)
		}
		same := func(what string, from int, got []byte) {
			r.t.Helper()
			if !bytes.Equal(got, want[from*n*4:from*n*4+len(got)]) {
				r.t.Errorf("%s, %s: other bits", layout, what)
			}
		}
		for i, tile := range cuda.HopperTiles() {
			r.SetHopper(tile, 65, 1+i%3)
			same("tiles "+tile, 0, product(a, b))
			same("a row alone with tiles "+tile, 77, product(a.RowRange(77, 78), b))
		}
		r.SetHopper("", 65, processors)
		for _, rows := range [][2]int{{0, 1}, {149, 150}, {3, 70}, {20, 150}} {
			same(fmt.Sprintf("rows %v alone", rows), rows[0], product(a.RowRange(rows[0], rows[1]), b))
		}
		gathered := r.Gathered()
		product(a, b)
		if r.Gathered() != gathered {
			r.t.Errorf("%s: operands that a tensor map describes were gathered", layout)
		}
		for _, d := range []kernels.DType{kernels.BF16, kernels.F32} {
			same(fmt.Sprintf("%s, left moved", d), 0, product(r.moved(a, d), b))
			if n < 65 && d == kernels.F32 { // by mma.sync
				continue
			}
			same(fmt.Sprintf("%s, right moved", d), 0, product(a, r.moved(b, d)))
			r.SetMostGathered(1)
			same(fmt.Sprintf("%s, both moved, in pieces", d), 0, product(r.moved(a, d), r.moved(b, d)))
			r.SetMostGathered(256 << 20)
		}
	}
}

// finite finds a NaN, or a number that cannot be.
func finite(raw []byte) error {
	for i := 0; i+4 <= len(raw); i += 4 {
		if v := math.Float32frombits(binary.LittleEndian.Uint32(raw[i:])); !(math.Abs(float64(v)) < 1e3) {
			return fmt.Errorf("element %d is %g: something outside an operand was read", i/4, v)
		}
	}
	return nil
}

// moved has the numbers of a matrix of bf16, as bf16 or fp32, at an odd place and distance.
func (r *rig) moved(x kernels.Mat, d kernels.DType) kernels.Mat {
	y := kernels.Mat{Rows: x.Rows, Cols: x.Cols, Stride: x.Cols | 1}
	y.Span = kernels.Span{Buf: r.Alloc((3 + y.Rows*y.Stride) * d.Size()), Off: 3, Len: y.Rows * y.Stride, DType: d}
	from, to := r.bytes(x.Span), make([]byte, y.Span.Len*d.Size())
	for i := range x.Rows {
		for j := range x.Cols {
			at, v := i*y.Stride+j, from[2*(i*x.Stride+j):][:2]
			if d == kernels.BF16 {
				copy(to[2*at:], v)
			} else {
				copy(to[4*at+2:], v)
			}
		}
	}
	r.Upload(y.Span, to)
	return y
}

// testHopperEpilogue: what follows the sums is what follows them by mma.sync, to the bit, whether or not its operands
// lie as pieces of four. (The double adds in one order for both.)
func testHopperEpilogue(r *rig) {
	defer r.SetHopper("", 65, 2)
	const m, k = 75, 72
	types := []kernels.DType{kernels.F32, kernels.BF16}
	i := 0
	for _, n := range []int{132, 133} {
		for _, d := range types {
			for _, with := range []string{"all", "bias", "gate", "sums"} {
				a, b := r.mat(kernels.BF16, m, k, k, 0), r.mat(kernels.BF16, n, k, k, 0)
				other := types[1-int(d)]
				bias, gate, residual := r.mat(other, 1, n, n, 0), r.mat(d, 3, n, n+4, 0), r.mat(other, m, n, n+8, 0)
				start, pre := r.mat(d, m, n, n, 0), r.zeros(other, m*n)
				tile := cuda.HopperTiles()[i%len(cuda.HopperTiles())]
				i++
				run := func(least int64) []byte {
					r.SetHopper(tile, least, 2)
					c := kernels.NewMat(r.zeros(d, m*n), m, n)
					r.Upload(c.Span, r.bytes(start.Span))
					r.Fill(pre, 0)
					g := &kernels.Gemm{Math: kernels.MathBF16, A: a, B: b, C: c, Alpha: -0.5}
					switch with {
					case "all":
						g.Bias, g.Pre, g.Act = bias.Span, kernels.NewMat(pre, m, n), kernels.GELUErf
						g.Gate, g.GateRows, g.Residual = gate, 30, residual
						g.Accumulate = d == kernels.F32
					case "bias":
						g.Bias = bias.Span
					case "gate":
						g.Gate, g.GateRows, g.Residual = gate, 25, residual
					case "sums":
						g.Accumulate = d == kernels.F32
					}
					r.Gemm(g)
					return append(r.bytes(c.Span), r.bytes(pre)...)
				}
				if !bytes.Equal(run(1), run(1<<40)) {
					r.t.Errorf("%d columns of %s with %s, tiles %s: other bits than by mma.sync", n, d, with, tile)
				}
			}
		}
	}
}

// testHopperActivations: a product's activations are near Unary's, those by the special unit, and have its bits, all
// others; and a row's bits depend neither on the rows beside it, nor on the tile, nor on how results lie.
func testHopperActivations(r *rig) {
	defer r.SetHopper("", 65, r.Device().Processors)
	const m, n, k = 70, 136, 72
	a, b := r.mat(kernels.BF16, m, k, k, 0), r.mat(kernels.BF16, n, k, k, 0)
	for i, alpha := range []float32{1, 1e-3, 30, 1e-12, 1e18, 1e-38, 1e37} {
		for j, act := range []kernels.UnaryOp{kernels.GELUTanh, kernels.QuickGELU, kernels.SiLU, kernels.GELUErf, kernels.Sigmoid} {
			pre, want := r.zeros(kernels.F32, m*n), r.zeros(kernels.F32, m*n)
			bias := r.zeros(kernels.F32, n)
			if i%2 == 1 {
				r.Fill(bias, 80)
			}
			product := func(a kernels.Mat, stride int) []byte {
				r.SetHopper(cuda.HopperTiles()[(i+j+a.Rows+stride)%len(cuda.HopperTiles())], 65, 2)
				c := kernels.Mat{Span: r.zeros(kernels.F32, a.Rows*stride), Rows: a.Rows, Cols: n, Stride: stride}
				r.Gemm(&kernels.Gemm{Math: kernels.MathBF16, A: a, B: b, C: c, Pre: kernels.NewMat(pre.Slice(0, a.Rows*n), a.Rows, n), Alpha: alpha, Act: act, Bias: bias})
				return r.bytes(c.Span)
			}
			for _, row := range []int{33, 68} {
				apart := product(a.RowRange(row, row+1), n)
				if whole := product(a, n); !bytes.Equal(apart, whole[row*n*4:(row+1)*n*4]) {
					r.t.Errorf("%v of products times %g: row %d alone has other bits", act, alpha, row)
				}
			}
			got, odd := product(a, n), product(a, n+1)
			for row := range m {
				if !bytes.Equal(got[row*n*4:(row+1)*n*4], odd[row*(n+1)*4:][:n*4]) {
					r.t.Errorf("%v of products times %g: row %d has other bits where results lie elsewhere", act, alpha, row)
					break
				}
			}
			r.Unary(&kernels.Unary{Op: act, X: pre, Y: want})
			if at := farActivation(act, r.bytes(pre), got, r.bytes(want)); at != "" {
				r.t.Errorf("%v of products times %g: %s", act, alpha, at)
			}
			// Results of bf16 are the same, whether an activation follows in the epilogue or by itself.
			fused, apart := r.zeros(kernels.BF16, m*n), r.zeros(kernels.BF16, m*n)
			r.Gemm(&kernels.Gemm{Math: kernels.MathBF16, A: a, B: b, C: kernels.NewMat(fused, m, n), Alpha: alpha, Act: act, Bias: bias})
			r.Unary(&kernels.Unary{Op: act, X: pre, Y: apart})
			alone := halves(r.bytes(apart))
			for e, y := range halves(r.bytes(fused)) {
				if z := alone[e]; y != z && !(math.IsNaN(y) && math.IsNaN(z)) {
					r.t.Errorf("%v of products times %g: %g in the epilogue, %g by itself", act, alpha, y, z)
					break
				}
			}
		}
	}
}

// farActivation names an activation that is none of its argument's, "" where none is.
func farActivation(act kernels.UnaryOp, of, got, want []byte) string {
	number := func(raw []byte, i int) float64 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	near := act == kernels.GELUTanh || act == kernels.QuickGELU || act == kernels.SiLU
	for i := range len(got) / 4 {
		x, y, z := number(of, i), number(got, i), number(want, i)
		alike := math.Float64bits(y) == math.Float64bits(z) || math.IsNaN(y) && math.IsNaN(z)
		if !alike && !(near && math.Abs(y-z) <= math.Abs(x)*0x1p-20 && !math.IsInf(x, 0)) {
			return fmt.Sprintf("of %g is %g, Unary's %g", x, y, z)
		}
	}
	return ""
}

// halves are the numbers of bf16.
func halves(raw []byte) []float64 {
	all := make([]float64, len(raw)/2)
	for i := range all {
		all[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16))
	}
	return all
}

// testHopperGates: activations with a gate, GLU and their gradients are near the exact kernels', which results of fp32
// have, and have the same bits whether or not operands lie as pieces of eight.
func testHopperGates(r *rig) {
	const m, n = 9, 40
	for _, act := range []kernels.UnaryOp{kernels.GELUTanh, kernels.QuickGELU, kernels.SiLU} {
		x, gate, dy := r.mat(kernels.BF16, m, n, n, 0), r.mat(kernels.F32, m, n, n, 0), r.mat(kernels.BF16, m, n, n, 0)
		r.Axpby(&kernels.Axpby{X: gate.Span, Y: gate.Span, A: 3})
		for what, f := range map[string]func(x, gate, dy kernels.Mat, to kernels.Mat){
			"Unary": func(_, gate, _, to kernels.Mat) { r.Unary(&kernels.Unary{Op: act, X: gate.Span, Y: to.Span}) },
			"UnaryBackward": func(_, gate, dy, to kernels.Mat) {
				r.UnaryBackward(&kernels.UnaryBackward{Op: act, X: gate.Span, DY: dy.Span, DX: to.Span})
			},
			"GLU": func(x, gate, _, to kernels.Mat) { r.GLU(&kernels.GLU{Act: act, X: x, Gate: gate, Y: to}) },
			"GLUBackward's DX": func(x, gate, dy, to kernels.Mat) {
				r.GLUBackward(&kernels.GLUBackward{GLU: kernels.GLU{Act: act, X: x, Gate: gate}, DY: dy, DX: to})
			},
			"GLUBackward's DGate": func(x, gate, dy, to kernels.Mat) {
				r.GLUBackward(&kernels.GLUBackward{GLU: kernels.GLU{Act: act, X: x, Gate: gate}, DY: dy, DGate: to})
			},
		} {
			run := func(d kernels.DType, off int) []byte {
				to := kernels.NewMat(r.zeros(d, m*n+8).Slice(off, off+m*n), m, n)
				f(x, gate, dy, to)
				return r.bytes(to.Span)
			}
			exact, near := run(kernels.F32, 0), run(kernels.BF16, 0)
			if !bytes.Equal(run(kernels.BF16, 1), near) {
				r.t.Errorf("%s of %v: other bits where results lie elsewhere", what, act)
			}
			for i, y := range halves(near) {
				want := float64(math.Float32frombits(binary.LittleEndian.Uint32(exact[4*i:])))
				if math.Abs(y-want) > math.Abs(want)*0x1p-8+0x1p-17 {
					r.t.Errorf("%s of %v: element %d is %g, by the exact kernel %g", what, act, i, y, want)
					break
				}
			}
		}
	}
}

// testHopperProductsElsewhere: products of few columns by factors of fp32, or of few terms, and convolutions stay with
// mma.sync.
func testHopperProductsElsewhere(r *rig) {
	run := func(layout kernels.Layout, m, n, k int, d kernels.DType) int {
		a, b := r.mat(kernels.BF16, m, k, k, 0), r.mat(d, n, k, k, 0)
		if layout != kernels.NT {
			b = r.mat(d, k, n, n, 0)
		}
		if layout == kernels.TN {
			a = r.mat(kernels.BF16, k, m, m, 0)
		}
		before := r.HopperProducts()
		r.Gemm(&kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: a, B: b, C: kernels.NewMat(r.zeros(kernels.F32, m*n), m, n)})
		return r.HopperProducts() - before
	}
	for _, c := range []struct {
		layout      kernels.Layout
		m, n, k, by int
		d           kernels.DType
	}{{kernels.NT, 1, 72, 80, 1, kernels.BF16}, {kernels.NN, 33, 80, 72, 1, kernels.BF16}, {kernels.TN, 72, 80, 72, 1, kernels.BF16},
		{kernels.NT, 80, 64, 80, 1, kernels.BF16}, {kernels.NN, 33, 16, 72, 1, kernels.BF16}, {kernels.NT, 80, 15, 80, 0, kernels.BF16},
		{kernels.NT, 80, 64, 80, 0, kernels.F32}, {kernels.NT, 80, 80, 64, 0, kernels.BF16}, {kernels.NN, 80, 80, 16, 0, kernels.BF16}} {
		if got := run(c.layout, c.m, c.n, c.k, c.d); got != c.by {
			r.t.Errorf("%+v: %d launches by wgmma", c, got)
		}
	}
}

// testHopperPairs: a pair goes into its product's sum in one launch; a row's bits do not depend on batch, place, tile
// nor on how the factors lie; a pair of zeros changes no bit; what the gate multiplies is where the backward reads it.
func testHopperPairs(r *rig) {
	r.t.Helper()
	processors := r.Device().Processors
	defer r.SetHopper("", 65, processors)
	const m, n, k = 150, 280, 136
	for i, rank := range []int{1, 4, 16, 64, 72, 128} {
		layout := []kernels.Layout{kernels.NT, kernels.NN}[i%2]
		side := func(d kernels.DType, rows, cols int) kernels.Mat {
			if layout == kernels.NN {
				rows, cols = cols, rows
			}
			return r.mat(d, rows, cols, (cols+15)/8*8, 8)
		}
		a, b := r.mat(kernels.BF16, m, k, 152, 8), side(kernels.BF16, n, k)
		h, factor := r.mat(kernels.BF16, m, rank, (rank+15)/8*8, 8), side(kernels.BF16, n, rank)
		gate, residual, bias := r.mat(kernels.BF16, 3, n, n, 0), r.mat(kernels.BF16, m, n, n, 0), r.mat(kernels.F32, 1, n, n, 0)
		product := func(from, rows int, h, factor kernels.Mat, more bool) []byte {
			c := r.zeros(kernels.F32, rows*n)
			g := &kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: a.RowRange(from, from+rows), B: b, C: kernels.NewMat(c, rows, n), Alpha: 0.5}
			if h.Rows > 0 {
				g.Pair = &kernels.Pair{A: h.RowRange(from, from+rows), B: factor, Alpha: 0.375}
			}
			if more {
				g.Residual = residual.RowRange(from, from+rows)
				if layout == kernels.NT {
					g.Gate, g.GateRows, g.Bias = gate, m, bias.Span
				}
			}
			r.Gemm(g)
			return r.bytes(c)
		}
		for _, more := range []bool{false, true} {
			before, launches, gathered := r.Traffic().Launches, r.HopperProducts(), r.Gathered()
			want := product(0, m, h, factor, more)
			// One launch fills C.
			if n := r.Traffic().Launches - before; n != 2 || r.HopperProducts()-launches != 1 || r.Gathered() != gathered {
				r.t.Errorf("%s, rank %d: %d launches, %d products, %d operands gathered", layout, rank, n-1, r.HopperProducts()-launches, r.Gathered()-gathered)
			}
			if err := finite(want); err != nil {
				r.t.Fatalf("%s, rank %d: %v", layout, rank, err)
			}
			same := func(what string, from int, got []byte) {
				r.t.Helper()
				if !bytes.Equal(got, want[from*n*4:from*n*4+len(got)]) {
					r.t.Errorf("%s, rank %d, %s: other bits", layout, rank, what)
				}
			}
			for i, tile := range cuda.HopperTiles() {
				r.SetHopper(tile, 65, 1+i%3)
				same("tiles "+tile, 0, product(0, m, h, factor, more))
				same("a row alone with tiles "+tile, 77, product(77, 1, h, factor, more))
			}
			r.SetHopper("", 65, processors)
			same("some rows", 20, product(20, 131-20, h, factor, more))
			for _, d := range []kernels.DType{kernels.BF16, kernels.F32} {
				same(fmt.Sprintf("factors moved, %s", d), 0, product(0, m, r.moved(h, d), r.moved(factor, d), more))
			}
			r.SetMostGathered(1)
			same("factors moved, in pieces", 0, product(0, m, r.moved(h, kernels.BF16), factor, more))
			r.SetMostGathered(256 << 20)
			zeros := r.mat(kernels.BF16, factor.Rows, factor.Cols, factor.Cols, 0)
			r.Fill(zeros.Span, 0)
			if !bytes.Equal(product(0, m, h, zeros, more), product(0, m, kernels.Mat{}, zeros, more)) {
				r.t.Errorf("%s, rank %d: a pair of zeros changes a bit", layout, rank)
			}
		}
	}
}
