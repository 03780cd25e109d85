package ref

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Activations, all made of Exp and one division.
//
//	sigmoid(z)  1 / (1 + e^-z)
//	GELUTanh    x·sigmoid(2u), 2u = x·(geluA + geluB·x²): tanh written as a sigmoid
//	GELUErf     x·Φ(x), Φ from erfc: t·exp(-z² + c(t)), t = 1/(1 + z/2), z = |x|/√2
//	            (Numerical Recipes' erfcc, relative error 1.2e-7)
//	Tanh        1 - 2/(1 + e^2x): absolute error 1e-7, so few digits near zero
//
// A product x·sigmoid(z) is one division, x / (1 + e^-z).

// Constants of the two GELUs.
const (
	geluA     = float32(1.5957691216) // 2·sqrt(2/π)
	geluB     = float32(0.0713548162) // 0.044715 of it
	quickK    = float32(1.702)
	rootHalf  = float32(0.70710678119)
	rootTwoPi = float32(0.39894228040) // 1/sqrt(2π)
)

// erfcC are the coefficients of c, from the highest power.
var erfcC = [10]float32{0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223}

// Activate is op of one number.
func Activate(op kernels.UnaryOp, x float32) float32 {
	x = Flush(x)
	switch op {
	case kernels.Identity:
		return x
	case kernels.GELUTanh:
		return gated(x, geluArgument(x))
	case kernels.GELUErf:
		return Mul(x, normalCDF(x))
	case kernels.QuickGELU:
		return gated(x, Mul(x, quickK))
	case kernels.SiLU:
		return gated(x, x)
	case kernels.ReLU:
		return Max(0, x)
	case kernels.Sigmoid:
		return gated(1, x)
	case kernels.Tanh:
		return Sub(1, Div(2, Add(1, Exp(Mul(x, 2)))))
	case kernels.Exp:
		return Exp(x)
	case kernels.Square:
		return Mul(x, x)
	}
	panic(fmt.Sprintf("ref: unknown function %d", op))
}

// ActivateGrad is the derivative of op at x.
func ActivateGrad(op kernels.UnaryOp, x float32) float32 {
	x = Flush(x)
	switch op {
	case kernels.Identity:
		return 1
	case kernels.GELUTanh:
		return gatedGrad(x, geluArgument(x), FMA(Mul(x, x), 3*geluB, geluA))
	case kernels.GELUErf:
		return FMA(Mul(x, rootTwoPi), Exp(Mul(Mul(x, -0.5), x)), normalCDF(x))
	case kernels.QuickGELU:
		return gatedGrad(x, Mul(x, quickK), quickK)
	case kernels.SiLU:
		return gatedGrad(x, x, 1)
	case kernels.ReLU:
		if x > 0 {
			return 1
		}
		return 0
	case kernels.Sigmoid:
		s := gated(1, x)
		return Mul(s, Sub(1, s))
	case kernels.Tanh:
		t := Activate(op, x)
		return FMA(-t, t, 1)
	case kernels.Exp:
		return Exp(x)
	case kernels.Square:
		return Mul(2, x)
	}
	panic(fmt.Sprintf("ref: unknown function %d", op))
}

// gated is x·sigmoid(z).
func gated(x, z float32) float32 { return Div(x, Add(1, Exp(-z))) }

// gatedGrad is the derivative of x·sigmoid(z(x)): s + (x·z')·(s·(1-s)).
func gatedGrad(x, z, dz float32) float32 {
	s := gated(1, z)
	return FMA(Mul(x, dz), Mul(s, Sub(1, s)), s)
}

func geluArgument(x float32) float32 { return Mul(x, FMA(Mul(x, x), geluB, geluA)) }

// normalCDF is Φ(x).
func normalCDF(x float32) float32 {
	z := Mul(math.Float32frombits(math.Float32bits(x)&0x7fff_ffff), rootHalf)
	t := Div(1, FMA(z, 0.5, 1))
	c := erfcC[0]
	for _, k := range erfcC[1:] {
		c = FMA(c, t, k)
	}
	half := Mul(Mul(t, 0.5), Exp(FMA(-z, z, c)))
	if x > 0 {
		return Sub(1, half)
	}
	return half
}

// activate applies an activation to a row.
func activate(op kernels.UnaryOp, v []float32) {
	if op == kernels.Identity {
		return
	}
	for i, x := range v {
		v[i] = Activate(op, x)
	}
}
