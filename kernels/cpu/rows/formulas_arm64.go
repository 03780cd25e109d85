//go:build arm64 && !noasm

package rows

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// The kernels' formulas in ref's arithmetic, an element at a time: what is computed again
// where a kernel flushed a result (watched_arm64.go).

// numbersOf are an element's operands, and the job's numbers.
type numbersOf struct {
	x [7]float32
	s *[8]float32
}

// formula is the element of dst, or what a sum adds to its lane (lane, where it has one).
type formula func(n *numbersOf, lane float32) float32

// formulaOf is the formula of a kernel that multiplies or divides. The others have none: what
// they flush is exact.
func formulaOf(k kernel) formula {
	switch {
	case k >= actIdentity && k <= actSquare && k != actIdentity && k != actReLU:
		op := kernels.UnaryOp(k - actIdentity)
		return func(n *numbersOf, _ float32) float32 { return ref.Activate(op, n.x[0]) }
	case k >= gradIdentity && k <= gradSquare && k != gradIdentity && k != gradReLU:
		op := kernels.UnaryOp(k - gradIdentity)
		return func(n *numbersOf, _ float32) float32 { return ref.Mul(ref.ActivateGrad(op, n.x[0]), n.x[1]) }
	}
	return formulas[k]
}

var formulas = map[kernel]formula{
	mul:      func(n *numbersOf, _ float32) float32 { return ref.Mul(n.x[0], n.x[1]) },
	div:      func(n *numbersOf, _ float32) float32 { return ref.Div(n.x[0], n.x[1]) },
	times:    func(n *numbersOf, _ float32) float32 { return ref.Mul(n.x[0], n.s[0]) },
	addTimes: func(n *numbersOf, _ float32) float32 { return ref.FMA(n.s[0], n.x[0], n.x[1]) },
	axpby:    func(n *numbersOf, _ float32) float32 { return ref.FMA(n.s[1], n.x[1], ref.Mul(n.s[0], n.x[0])) },
	modulate: func(n *numbersOf, _ float32) float32 { return ref.FMA(n.x[0], ref.Add(1, n.x[1]), n.x[2]) },
	fma:      func(n *numbersOf, _ float32) float32 { return ref.FMA(n.x[0], n.x[1], n.x[2]) },

	normAlone: func(n *numbersOf, _ float32) float32 { return n.unit() },
	norm:      func(n *numbersOf, _ float32) float32 { return n.normalised() },
	normTwice: func(n *numbersOf, _ float32) float32 { return ref.FMA(n.normalised(), n.x[3], n.x[4]) },
	normGrad: func(n *numbersOf, _ float32) float32 {
		return ref.Mul(ref.FMA(-n.x[0], n.s[1], ref.Sub(n.x[1], n.s[0])), n.s[2])
	},
	softmaxGrad: func(n *numbersOf, _ float32) float32 { return ref.Mul(n.x[0], ref.Sub(n.x[1], n.s[0])) },
	expSum:      func(n *numbersOf, _ float32) float32 { return ref.Exp(ref.Sub(n.x[0], n.s[0])) },
	expTimes:    func(n *numbersOf, _ float32) float32 { return ref.Mul(ref.Exp(ref.Sub(n.x[0], n.s[0])), n.s[1]) },

	dot:       func(n *numbersOf, lane float32) float32 { return ref.FMA(n.x[0], n.x[1], lane) },
	columnDot: func(n *numbersOf, lane float32) float32 { return ref.FMA(n.x[0], n.x[1], lane) },
	squares: func(n *numbersOf, lane float32) float32 {
		d := ref.Sub(n.x[0], n.s[0])
		return ref.FMA(d, d, lane)
	},
	columnMoments: func(n *numbersOf, lane float32) float32 {
		d := ref.Sub(n.x[0], n.x[1])
		return ref.FMA(d, d, lane)
	},

	momentum: func(n *numbersOf, _ float32) float32 {
		return ref.FMA(n.s[1], ref.Sub(ref.Mul(n.x[0], n.s[0]), n.x[1]), ref.Flush(n.x[1]))
	},
	variance: func(n *numbersOf, _ float32) float32 {
		g := ref.Mul(n.x[0], n.s[0])
		return ref.FMA(n.s[2], ref.Mul(g, g), ref.Mul(n.s[3], n.x[1]))
	},
	descend: func(n *numbersOf, _ float32) float32 {
		return ref.Sub(ref.Mul(n.x[0], n.s[7]), ref.Div(ref.Mul(n.s[6], n.x[1]), ref.FMA(ref.Sqrt(n.x[2]), n.s[4], n.s[5])))
	},

	group:     func(n *numbersOf, _ float32) float32 { return n.channel(1) },
	groupSiLU: func(n *numbersOf, _ float32) float32 { return ref.Activate(kernels.SiLU, n.channel(1)) },
	groupGrad: func(n *numbersOf, _ float32) float32 {
		return ref.Mul(ref.FMA(-n.x[0], n.x[2], ref.Sub(ref.Mul(n.x[1], n.x[3]), n.x[4])), n.x[5])
	},
	groupSlope: func(n *numbersOf, _ float32) float32 {
		return ref.Mul(ref.ActivateGrad(kernels.SiLU, n.channel(2)), n.x[1])
	},
	groupUnit: func(n *numbersOf, _ float32) float32 { return ref.Mul(ref.Sub(n.x[0], n.x[1]), n.x[2]) },
}

func (n *numbersOf) unit() float32 { return ref.Mul(ref.Sub(n.x[0], n.s[0]), n.s[1]) }

func (n *numbersOf) normalised() float32 { return ref.FMA(n.unit(), n.x[1], n.x[2]) }

// channel is fma(x - mean, w, b), whose numbers are operands from i on.
func (n *numbersOf) channel(i int) float32 {
	return ref.FMA(ref.Sub(n.x[0], n.x[i]), n.x[i+1], n.x[i+2])
}
