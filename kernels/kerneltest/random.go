package kerneltest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Random is the i-th of a series of random cases: an operation of a family with assembly, at a
// small shape that no list has, on ordinary or on wild operands.
func Random(seed, i uint64) Case {
	r := rand.New(rand.NewPCG(seed, i))
	draw := drawn[r.IntN(len(drawn))]
	if family := beside[i%16]; family != "" {
		draw = ofFamily[family]
	}
	return named(draw(r), seed, i)
}

// RandomOf is the i-th of a series of random cases of one of Families.
func RandomOf(family string, seed, i uint64) Case {
	return named(ofFamily[family](rand.New(rand.NewPCG(seed, i))), seed, i)
}

func named(c Case, seed, i uint64) Case {
	c.Name = fmt.Sprintf("%s, %d of seed %d", c.Name, i, seed)
	return c
}

// Families are those with a series of their own.
func Families() []string { return slices.Sorted(maps.Keys(ofFamily)) }

var ofFamily = map[string]func(r *rand.Rand) Case{"draw": drawDraw, "unpack": drawUnpack, "pair": drawPair, "wide heads": drawWide}

// beside are families beside the list, by a case's number modulo 16, so that other numbers name the cases that they
// have always named.
var beside = [16]string{2: "wide heads", 5: "draw", 7: "pair", 11: "unpack"}

// Check compares a case's results with ref's, bit by bit, and looks at the guard bands.
func Check(c Case, b kernels.Backend, shift int) error {
	want, err := results(c, ref.Backend{}, shift, false)
	if err != nil {
		return fmt.Errorf("ref: %w", err)
	}
	got, err := results(c, b, shift, false)
	if err != nil {
		return err
	}
	return compare(got, want)
}

// small is a size: mostly below ten, seldom past thirty.
func small(r *rand.Rand, least int) int { return min(40, least+int(r.ExpFloat64()*5)) }

func dtype(r *rand.Rand) kernels.DType { return floats[r.IntN(2)] }

// drawn make a case each; products come up more often than their share.
var drawn = []func(r *rand.Rand) Case{
	drawProduct, drawProduct, drawProduct, drawAttention, drawRope, drawConv, drawNorm, drawElements, drawGated, drawSums,
}

func drawProduct(r *rand.Rand) Case {
	p := gemmCase{layout: kernels.Layout(r.IntN(3)), math: kernels.Math(r.IntN(2)),
		m: small(r, 0), n: small(r, 0), k: small(r, 0), a: dtype(r), b: dtype(r), c: dtype(r), wild: r.IntN(3) == 0, epilogue: r.IntN(2) == 0}
	if p.layout == kernels.TN && p.epilogue {
		p.c = kernels.F32
	}
	if p.packed = p.layout != kernels.TN && r.IntN(2) == 0; p.packed {
		p.b = floats[p.math]
	}
	return p.as("random")
}

func drawPair(r *rand.Rand) Case {
	p := pairCase{layout: kernels.Layout(r.IntN(2)), math: kernels.Math(r.IntN(2)), m: small(r, 0), n: small(r, 0), k: small(r, 0), r: small(r, 1),
		a: dtype(r), b: dtype(r), c: dtype(r), epilogue: r.IntN(2) == 0, packed: r.IntN(2) == 0}
	return p.as("random pair")
}

func drawAttention(r *rand.Rand) Case { return attentionOf(r, small(r, 1), small(r, 1)) }

// drawWide are heads as those of a decoder's pictures, of up to 600 dimensions.
func drawWide(r *rand.Rand) Case { return attentionOf(r, 40+r.IntN(560), 40+r.IntN(560)) }

func attentionOf(r *rand.Rand, d, dv int) Case {
	c := attentionCase{b: 1 + r.IntN(2), sq: small(r, 0), sk: small(r, 0), d: d, dv: dv,
		pad: r.IntN(4), causal: r.IntN(2) == 0, bias: r.IntN(3) == 0, loud: r.IntN(3) == 0, wild: r.IntN(4) == 0, math: kernels.Math(r.IntN(2)), dtype: dtype(r)}
	c.kh = 1 + r.IntN(2)
	c.h = c.kh * (1 + r.IntN(2))
	for range c.b * r.IntN(2) {
		c.lens = append(c.lens, int32(r.IntN(c.sk+1)))
	}
	name := fmt.Sprintf("random %+v", c)
	if c.wild || r.IntN(2) == 0 {
		return Case{"Attention", name, c.forward}
	}
	return Case{"AttentionBackward", name, c.backward}
}

func drawRope(r *rand.Rand) Case {
	c := ropeCase{kind: kernels.RopeKind(r.IntN(2)), dtype: dtype(r), dim: 2 * small(r, 1),
		b: 1 + r.IntN(2), s: small(r, 1), h: 1 + r.IntN(3), pad: r.IntN(4), inverse: r.IntN(2) == 0, each: r.IntN(2) == 0, wild: r.IntN(3) == 0}
	return Case{"Rope", fmt.Sprintf("random %+v", c), c.run}
}

func drawConv(r *rand.Rand) Case {
	s := kernels.ConvShape{In: 1 + r.IntN(9), Out: 1 + r.IntN(9),
		KH: 1 + r.IntN(3), KW: 1 + r.IntN(3), Stride: 1 + r.IntN(2)}
	s.Top, s.Left, s.Bottom, s.Right = r.IntN(s.KH), r.IntN(s.KW), r.IntN(s.KH), r.IntN(s.KW)
	if r.IntN(8) == 0 {
		s.In = 32 // rows of packed pictures
	}
	act := []kernels.UnaryOp{kernels.Identity, kernels.SiLU}[r.IntN(2)]
	c := convCase{"random", 1, s.KH + r.IntN(5), s.KW + r.IntN(5), s, r.IntN(2) == 0, act}
	d, m := dtype(r), kernels.Math(r.IntN(2))
	name := fmt.Sprintf("random %+v %s %s", c, d, m)
	if c.act == kernels.Identity && !c.residual && r.IntN(2) == 0 {
		return Case{"ConvBackward", name, func(e *Env) { convBackward(e, c, d, m) }}
	}
	return Case{"Conv", name, func(e *Env) { conv(e, c, d, m, 1) }}
}

func drawNorm(r *rand.Rand) Case {
	d, kind, cols := dtype(r), kernels.NormKind(r.IntN(2)), 3*small(r, 1)
	name := fmt.Sprintf("random %s kind %d of %d", d, kind, cols)
	if r.IntN(2) == 0 {
		return Case{"Norm", name, func(e *Env) { fullNorm(e, d, kind, cols) }}
	}
	return Case{"NormBackward", name, func(e *Env) { normBackward(e, d, kind, cols) }}
}

func drawElements(r *rand.Rand) Case {
	d, n, op, wild := dtype(r), 4*small(r, 1)-r.IntN(4), kernels.UnaryOp(r.IntN(int(kernels.Square)+1)), r.IntN(2) == 0
	return Case{"Unary", fmt.Sprintf("random %s %s of %d", op, d, n), func(e *Env) {
		fill := func() kernels.Span {
			if wild {
				return e.Wild(d, n)
			}
			return e.Floats(d, n, 3)
		}
		x, y, dx, z := fill(), e.Junk(d, n), e.Junk(d, n), e.Junk(d, n)
		e.B.Unary(&kernels.Unary{Op: op, X: x, Y: y})
		e.B.UnaryBackward(&kernels.UnaryBackward{Op: op, X: x, DY: fill(), DX: dx})
		e.B.Binary(&kernels.Binary{Op: kernels.BinaryOp(op % 4), X: x, Y: fill(), Z: z})
		e.Out("y", y)
		e.Out("dx", dx)
		e.Out("z", z)
		e.B.Binary(&kernels.Binary{Op: kernels.Mul, X: x, Y: fill(), Z: x})
		e.Out("in place", x)
	}}
}

func drawGated(r *rand.Rand) Case {
	d, cols := dtype(r), 2*small(r, 1)
	f := []func(*Env, kernels.DType, int){modulate, gate, glu}[r.IntN(3)]
	return Case{"Gated", fmt.Sprintf("random %s of %d", d, cols), func(e *Env) { f(e, d, cols) }}
}

func drawSums(r *rand.Rand) Case {
	d, rows, cols, wild := dtype(r), small(r, 1), 3*small(r, 1)-r.IntN(3), r.IntN(3) == 0
	return Case{"Softmax", fmt.Sprintf("random %s %dx%d", d, rows, cols), func(e *Env) {
		x := e.Mat(d, rows, cols, 1, 3)
		if wild {
			x = e.WildMat(d, rows, cols, 1)
		}
		y, dx, sum := e.JunkMat(d, rows, cols, 0), e.JunkMat(d, rows, cols, 2), e.Floats(kernels.F32, cols, 1)
		e.B.Softmax(&kernels.Softmax{X: x, Y: y})
		e.B.SoftmaxBackward(&kernels.SoftmaxBackward{Y: y, DY: x, DX: dx})
		e.B.SumRows(&kernels.SumRows{X: x, Out: sum, Accumulate: true})
		e.Out("y", y.Span)
		e.Out("dx", dx.Span)
		e.Out("sum", sum)
	}}
}
