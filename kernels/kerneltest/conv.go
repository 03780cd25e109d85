package kerneltest

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// convCase is a geometry: pictures n x h x w, channels, window, stride and padding.
type convCase struct {
	name     string
	n, h, w  int
	shape    kernels.ConvShape
	residual bool
	act      kernels.UnaryOp
}

func square(in, out, k, stride, pad int) kernels.ConvShape {
	return kernels.ConvShape{In: in, Out: out, KH: k, KW: k, Stride: stride, Top: pad, Left: pad, Bottom: pad, Right: pad}
}

func convs() []Case {
	down := square(6, 5, 3, 2, 0)
	down.Bottom, down.Right = 1, 1 // as in a VAE's encoder
	shapes := []convCase{
		{"1x1", 2, 3, 5, square(7, 9, 1, 1, 0), false, kernels.Identity},
		{"3x3 of 1", 1, 1, 1, square(1, 1, 3, 1, 1), false, kernels.Identity},
		{"3x3 of 3", 2, 7, 5, square(3, 4, 3, 1, 1), true, kernels.SiLU},
		{"3x3 of 4", 1, 9, 33, square(4, 31, 3, 1, 1), false, kernels.Identity},
		{"3x3 of 16", 1, 6, 34, square(16, 16, 3, 1, 1), true, kernels.Identity},
		{"3x3 of 32", 3, 5, 7, square(32, 33, 3, 1, 1), false, kernels.SiLU},
		{"3x3 of 64", 1, 4, 40, square(64, 70, 3, 1, 1), true, kernels.Identity},
		{"down", 2, 8, 6, down, false, kernels.Identity},
		{"stride 2", 1, 9, 11, square(8, 12, 3, 2, 1), false, kernels.Identity},
		{"patches of 2", 2, 6, 8, square(5, 20, 2, 2, 0), false, kernels.Identity},
		{"patches of 8", 1, 16, 24, square(3, 40, 8, 8, 0), false, kernels.Identity},
		{"none", 0, 4, 4, square(3, 3, 3, 1, 1), false, kernels.Identity},
	}
	var all []Case
	for _, d := range floats {
		for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
			for _, c := range shapes {
				name := fmt.Sprintf("%s %s math %s", c.name, d, m)
				all = append(all, Case{"Conv", name, func(e *Env) { conv(e, c, d, m, 1e-4) }},
					Case{"ConvBackward", name, func(e *Env) { convBackward(e, c, d, m) }})
			}
			inPlace := convCase{"in place", 2, 5, 7, square(32, 40, 3, 1, 1), true, kernels.Identity}
			all = append(all, Case{"Conv", fmt.Sprintf("in place %s math %s", d, m), func(e *Env) { convInPlace(e, inPlace, d, m) }})
			wild := convCase{"wild", 1, 5, 5, square(3, 5, 3, 1, 1), false, kernels.Identity}
			all = append(all, Case{"Conv", fmt.Sprintf("wild %s math %s", d, m), func(e *Env) {
				a := newConv(e, wild, d, m)
				a.X = e.Wild(d, a.X.Len)
				e.B.Conv(&a)
				e.Out("y", a.Y)
			}})
		}
		all = append(all, Case{"Upsample", fmt.Sprintf("wild %s", d), func(e *Env) {
			x, y := e.Wild(d, 2*3*5), e.Junk(d, 2*3*5*4)
			e.B.Upsample(&kernels.Upsample{X: x, Y: y, N: 1, H: 2, W: 3, C: 5, Factor: 2})
			e.Out("y", y)
		}})
		for _, factor := range []int{1, 2, 3} {
			all = append(all, Case{"Upsample", fmt.Sprintf("%s by %d", d, factor), func(e *Env) {
				const n, h, w, c = 2, 3, 5, 33
				big := n * h * w * c * factor * factor
				x, y, dx := e.Floats(d, n*h*w*c, 1), e.Junk(d, big), e.Junk(d, n*h*w*c)
				e.B.Upsample(&kernels.Upsample{X: x, Y: y, N: n, H: h, W: w, C: c, Factor: factor})
				e.B.UpsampleBackward(&kernels.UpsampleBackward{DY: e.Floats(d, big, 1), DX: dx, N: n, H: h, W: w, C: c, Factor: factor})
				e.Out("y", y)
				e.Out("dx", dx)
			}})
		}
	}
	return all
}

func newConv(e *Env, c convCase, d kernels.DType, m kernels.Math) kernels.Conv {
	s := c.shape
	oh, ow := s.OutSize(c.h, c.w)
	a := kernels.Conv{Shape: s, Math: m, N: c.n, H: c.h, W: c.w, X: e.Floats(d, c.n*c.h*c.w*s.In, 1), Y: e.Junk(d, c.n*oh*ow*s.Out),
		Weight: e.Floats(d, s.Out*s.KH*s.KW*s.In, 0.3), Act: c.act}
	if c.residual {
		a.Bias, a.Residual = e.Floats(kernels.F32, s.Out, 1), e.Floats(d, a.Y.Len, 1)
	}
	return a
}

func conv(e *Env, c convCase, d kernels.DType, m kernels.Math, tol float64) {
	a := newConv(e, c, d, m)
	e.B.Conv(&a)
	e.Out("y", a.Y)
	p := a
	p.Packed, p.Y = e.B.PackConv(a.Weight, a.Shape, m), e.Junk(d, a.Y.Len)
	e.B.Conv(&p)
	e.Out("y of a packed weight", p.Y)
	e.B.Free(p.Packed.Buf)
	if m == kernels.MathF32 && !c.residual && c.act == kernels.Identity {
		e.Near("y", a.Y, naiveConv(e, &a), tol+slack(d)*4, slack(d))
	}
}

// convInPlace has Y in the place of the residual, as sums over the frames of a kernel grow.
func convInPlace(e *Env, c convCase, d kernels.DType, m kernels.Math) {
	a := newConv(e, c, d, m)
	b := a
	b.Y = b.Residual
	e.B.Conv(&a)
	e.Out("y", a.Y)
	e.B.Conv(&b)
	e.Out("y in the place of the residual", b.Y)
}

// naiveConv is the formula in float64.
func naiveConv(e *Env, a *kernels.Conv) []float64 {
	s := a.Shape
	x, w := e.Numbers(a.X), e.Numbers(a.Weight)
	oh, ow := s.OutSize(a.H, a.W)
	var y []float64
	for n := range a.N {
		for i := range oh * ow {
			for o := range s.Out {
				sum := 0.0
				for t := range s.KH * s.KW {
					r, q := i/ow*s.Stride-s.Top+t/s.KW, i%ow*s.Stride-s.Left+t%s.KW
					if r < 0 || q < 0 || r >= a.H || q >= a.W {
						continue
					}
					for ci := range s.In {
						sum += x[((n*a.H+r)*a.W+q)*s.In+ci] * w[(o*s.KH*s.KW+t)*s.In+ci]
					}
				}
				y = append(y, sum)
			}
		}
	}
	return y
}

// convBackward also checks that the gradients are those of the forward: the product is
// linear, so <dy, conv(x, w)> = <dx, x> = <dw, w>.
func convBackward(e *Env, c convCase, d kernels.DType, m kernels.Math) {
	c.residual, c.act = false, kernels.Identity
	f := newConv(e, c, d, m)
	s := c.shape
	a := kernels.ConvBackward{Conv: f, DY: e.Floats(d, f.Y.Len, 1), DX: e.Junk(d, f.X.Len),
		DWeight: e.Zeros(kernels.F32, f.Weight.Len), DBias: e.Floats(kernels.F32, s.Out, 1)}
	e.B.ConvBackward(&a)
	e.Out("dx", a.DX)
	e.Out("dweight", a.DWeight)
	e.Out("dbias", a.DBias)
	frozen := kernels.ConvBackward{Conv: f, DY: a.DY, DX: e.Junk(d, f.X.Len)}
	frozen.Packed, frozen.Weight = e.B.PackConv(f.Weight, s, m), kernels.Span{}
	e.B.ConvBackward(&frozen)
	e.Out("dx of a packed weight", frozen.DX)
	e.B.Free(frozen.Packed.Buf)
	if m == kernels.MathF32 && d == kernels.F32 {
		inner := func(x, y []float64) (sum float64) {
			for i, v := range x {
				sum += v * y[i]
			}
			return sum
		}
		want := inner(e.Numbers(a.DY), naiveConv(e, &f))
		near := func(name string, got float64) {
			e.nears = append(e.nears, func() error {
				if d := got - want; d > 1e-3 || d < -1e-3 {
					return fmt.Errorf("%s: %g, the forward's product is %g", name, got, want)
				}
				return nil
			})
		}
		near("<dx, x>", inner(e.Numbers(a.DX), e.Numbers(a.X)))
		near("<dweight, w>", inner(e.Numbers(a.DWeight), e.Numbers(a.Weight)))
	}
}
