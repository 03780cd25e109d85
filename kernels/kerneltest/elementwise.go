package kerneltest

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

// functions are the functions of one number in float64, with their derivatives.
var functions = map[kernels.UnaryOp][2]func(x float64) float64{
	kernels.Identity: {func(x float64) float64 { return x }, func(float64) float64 { return 1 }},
	kernels.GELUTanh: {func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) }, nil},
	kernels.GELUErf: {func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) },
		func(x float64) float64 {
			return 0.5*math.Erfc(-x/math.Sqrt2) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		}},
	kernels.QuickGELU: {func(x float64) float64 { return x / (1 + math.Exp(-1.702*x)) }, nil},
	kernels.SiLU:      {func(x float64) float64 { return x / (1 + math.Exp(-x)) }, nil},
	kernels.ReLU:      {func(x float64) float64 { return math.Max(x, 0) }, nil},
	kernels.Sigmoid:   {func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, nil},
	kernels.Tanh:      {math.Tanh, func(x float64) float64 { t := math.Tanh(x); return 1 - t*t }},
	kernels.Exp:       {math.Exp, math.Exp},
	kernels.Square:    {func(x float64) float64 { return x * x }, func(x float64) float64 { return 2 * x }},
}

// derivative is given, or taken by central differences.
func derivative(op kernels.UnaryOp, x float64) float64 {
	f := functions[op]
	if f[1] != nil {
		return f[1](x)
	}
	const h = 1e-5
	return (f[0](x+h) - f[0](x-h)) / (2 * h)
}

func elementwise() []Case {
	var all []Case
	for op := kernels.Identity; op <= kernels.Square; op++ {
		for _, d := range floats {
			for _, n := range Sizes {
				all = append(all, Case{"Unary", fmt.Sprintf("%s %s %d", op, d, n), func(e *Env) {
					x, y, z, dx := e.Floats(d, n, 3), e.Junk(d, n), e.Junk(kernels.F32, n), e.Junk(d, n)
					dy := e.Floats(d, n, 1)
					e.B.Unary(&kernels.Unary{Op: op, X: x, Y: y})
					e.B.Unary(&kernels.Unary{Op: op, X: x, Y: z})
					e.B.UnaryBackward(&kernels.UnaryBackward{Op: op, X: x, DY: dy, DX: dx})
					e.Out("y", y)
					e.Out("y as f32", z)
					e.Out("dx", dx)
					var want, slope []float64
					g := e.Numbers(dy)
					for i, v := range e.Numbers(x) {
						want, slope = append(want, functions[op][0](v)), append(slope, g[i]*derivative(op, v))
					}
					e.Near("y", z, want, 2e-6, 2e-6)
					e.Near("dx", dx, slope, slack(d), slack(d))
					e.B.Unary(&kernels.Unary{Op: op, X: x, Y: x})
					e.Out("in place", x)
				}})
			}
			all = append(all, Case{"Unary", fmt.Sprintf("%s %s wild", op, d), func(e *Env) {
				x, y, dx := e.Wild(d, 999), e.Junk(d, 999), e.Junk(d, 999)
				e.B.Unary(&kernels.Unary{Op: op, X: x, Y: y})
				e.B.UnaryBackward(&kernels.UnaryBackward{Op: op, X: x, DY: e.Floats(d, 999, 1), DX: dx})
				e.Out("y", y)
				e.Out("dx", dx)
			}})
		}
	}
	for _, d := range floats {
		for op := kernels.Add; op <= kernels.Div; op++ {
			for _, n := range Sizes[1:] {
				all = append(all, Case{"Binary", fmt.Sprintf("op %d %s %d", op, d, n), func(e *Env) {
					x, y, z := e.Floats(d, 2*n, 1), e.Floats(d, n, 1), e.Junk(d, 2*n)
					e.B.Binary(&kernels.Binary{Op: op, X: x, Y: y, Z: z})
					e.Out("z", z)
					e.B.Binary(&kernels.Binary{Op: op, X: x, Y: x, Z: x})
					e.Out("in place", x)
				}})
			}
			all = append(all, Case{"Binary", fmt.Sprintf("op %d %s wild", op, d), func(e *Env) {
				z := e.Junk(d, 3000)
				e.B.Binary(&kernels.Binary{Op: op, X: e.Wild(d, 3000), Y: e.Wild(d, 3000), Z: z})
				e.Out("z", z)
			}})
		}
		for _, n := range Sizes {
			all = append(all, Case{"Axpby", fmt.Sprintf("%s %d", d, n), func(e *Env) {
				x, y, z := e.Floats(d, n, 1), e.Floats(d, n, 1), e.Junk(d, n)
				e.B.Axpby(&kernels.Axpby{A: 0.3, B: 1.7, X: x, Y: y})
				e.B.Axpby(&kernels.Axpby{A: 0.3, X: x, Y: z})
				e.Out("y", y)
				e.Out("written", z)
				f := e.Junk(d, n)
				e.B.Fill(f, 1.1)
				e.Out("filled", f)
			}})
		}
		for _, cols := range Sizes[1:] {
			name := fmt.Sprintf("%s 5x%d", d, cols)
			all = append(all, Case{"Modulate", name, func(e *Env) { modulate(e, d, cols) }},
				Case{"Gated", name, func(e *Env) { gate(e, d, cols) }},
				Case{"GLU", name, func(e *Env) { glu(e, d, cols) }})
		}
	}
	return all
}

func modulate(e *Env, d kernels.DType, cols int) {
	a := kernels.Modulate{X: e.Mat(d, 5, cols, 1, 1), Y: e.JunkMat(d, 5, cols, 0), Scale: e.Mat(d, 3, cols, 0, 1), Shift: e.Mat(d, 3, cols, 2, 1), RowsPerSample: 2}
	e.B.Modulate(&a)
	e.Out("y", a.Y.Span)
	b := kernels.ModulateBackward{Modulate: a, DY: e.Mat(d, 5, cols, 0, 1), DX: e.JunkMat(d, 5, cols, 1), DScale: e.JunkMat(d, 3, cols, 0), DShift: e.JunkMat(d, 3, cols, 0)}
	e.B.ModulateBackward(&b)
	e.Out("dx", b.DX.Span)
	e.Out("dscale", b.DScale.Span)
	e.Out("dshift", b.DShift.Span)
}

func gate(e *Env, d kernels.DType, cols int) {
	a := kernels.Gated{X: e.Mat(d, 5, cols, 1, 1), Residual: e.Mat(d, 5, cols, 2, 1), Y: e.JunkMat(d, 5, cols, 0), Gate: e.Mat(d, 3, cols, 0, 1), RowsPerSample: 2}
	e.B.Gated(&a)
	e.Out("y", a.Y.Span)
	b := kernels.GatedBackward{Gated: a, DY: e.Mat(d, 5, cols, 0, 1), DX: e.JunkMat(d, 5, cols, 1), DGate: e.JunkMat(d, 3, cols, 0)}
	e.B.GatedBackward(&b)
	e.Out("dx", b.DX.Span)
	e.Out("dgate", b.DGate.Span)
}

func glu(e *Env, d kernels.DType, cols int) {
	for _, act := range []kernels.UnaryOp{kernels.GELUErf, kernels.SiLU, kernels.GELUTanh} {
		wide := e.Mat(d, 5, 2*cols, 1, 1)
		a := kernels.GLU{Act: act, X: wide.ColRange(0, cols), Gate: wide.ColRange(cols, 2*cols), Y: e.JunkMat(d, 5, cols, 0)}
		e.B.GLU(&a)
		e.Out("y", a.Y.Span)
		grads := e.JunkMat(d, 5, 2*cols, 1)
		e.B.GLUBackward(&kernels.GLUBackward{GLU: a, DY: e.Mat(d, 5, cols, 0, 1), DX: grads.ColRange(0, cols), DGate: grads.ColRange(cols, 2*cols)})
		e.Out("gradients", grads.Span)
	}
}
