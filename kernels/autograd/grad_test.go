package autograd

import (
	"fmt"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// env plays a small program over numbers that can be nudged one at a time: Var and Param
// take the next run of numbers in the order of their calls.
type env struct {
	*Tape
	pool    *tensor.Pool
	numbers *[][]float32
	next    int
	vars    []*Value
	params  []*Param
	grads   []func() []float32 // of each run of numbers
	scale   float32
}

func (e *env) draw(shape []int) []float32 {
	n := 1
	for _, d := range shape {
		n *= d
	}
	if e.next == len(*e.numbers) {
		x := make([]float32, n)
		rng.New(77).Step(e.next).Normal(x, 0)
		for i := range x {
			x[i] *= e.scale
		}
		*e.numbers = append(*e.numbers, x)
	}
	e.next++
	return (*e.numbers)[e.next-1]
}

// Var is a variable of random numbers.
func (e *env) Var(shape ...int) *Value {
	t := e.pool.FromF32(e.DType, e.draw(shape), shape...)
	v := e.Variable(t)
	t.Free()
	e.vars = append(e.vars, v)
	e.grads = append(e.grads, func() []float32 { return v.Grad().F32() })
	return v
}

// Param is a trained parameter of random numbers.
func (e *env) Param(shape ...int) *Param {
	p := NewParam(fmt.Sprintf("parameter %d", e.next), e.pool.FromF32(kernels.F32, e.draw(shape), shape...), true)
	e.params = append(e.params, p)
	e.grads = append(e.grads, func() []float32 { return p.Grad().F32() })
	return p
}

// ConvParam is a trained weight of a convolution.
func (e *env) ConvParam(s kernels.ConvShape) *Param {
	p := e.Param(s.Out, s.KH, s.KW, s.In)
	p.Conv = s
	return p
}

// fixed is an f32 input.
func (e *env) fixed(x []float32, shape ...int) *Value {
	t := e.pool.FromF32(kernels.F32, x, shape...)
	defer t.Free()
	return e.Input(t)
}

type program func(e *env) *Value

var f32 = Options{Train: true}

// play runs a program; the result is weighed with fixed constants and added up.
func play(f program, numbers *[][]float32, o Options) (*env, float64, Seed) {
	pool := tensor.NewPool(ref.Backend{})
	pool.Poison = true
	e := &env{Tape: New(pool, o), pool: pool, numbers: numbers, scale: 1}
	y := f(e)
	c := make([]float32, y.t.Len())
	rng.New(5).Normal(c, 0)
	v, seed := Dot(y, c)
	return e, v, seed
}

// check holds the gradients of a program to finite differences, of the sum that
// Richardson's extrapolation gives from steps h and 2h.
func check(t *testing.T, name string, f program) {
	t.Helper()
	var numbers [][]float32
	e, _, seed := play(f, &numbers, f32)
	e.Backward(seed)
	var got [][]float32
	for _, g := range e.grads {
		got = append(got, g())
	}
	e.Reset()
	for _, p := range e.params {
		p.Free()
	}
	for _, v := range e.vars {
		if v.grad != nil {
			t.Errorf("%s: a gradient outlived Reset", name)
		}
	}
	if s := e.pool.Stats(); s.Live != 0 {
		t.Errorf("%s: %d tensors were not freed", name, s.Live)
	}
	at := func(x *float32, h float32) float64 {
		old := *x
		*x += h
		e, v, _ := play(f, &numbers, Options{})
		_ = e
		*x = old
		return v
	}
	const h = 1.0 / 32
	for k := range numbers {
		most := 0.0
		for _, g := range got[k] {
			most = math.Max(most, math.Abs(float64(g)))
		}
		for i := range numbers[k] {
			x := &numbers[k][i]
			want := (8*(at(x, h)-at(x, -h)) - (at(x, 2*h) - at(x, -2*h))) / (12 * h)
			if d := math.Abs(want - float64(got[k][i])); !(d <= 5e-4*(1+most)) {
				t.Errorf("%s: operand %d, element %d: gradient %v, finite differences give %v", name, k, i, got[k][i], want)
				break
			}
		}
	}
	bf16(t, name, f, numbers, got)
}

// bf16 runs the program with bf16 activations and holds its gradients to those of f32.
func bf16(t *testing.T, name string, f program, numbers [][]float32, want [][]float32) {
	t.Helper()
	e, _, seed := play(f, &numbers, Options{Train: true, DType: kernels.BF16, Math: kernels.MathBF16})
	e.Backward(seed)
	for k, g := range e.grads {
		var diff, norm float64
		for i, v := range g() {
			d := float64(v - want[k][i])
			diff += d * d
			norm += float64(want[k][i]) * float64(want[k][i])
		}
		if !(math.Sqrt(diff) <= 0.04*math.Sqrt(norm)+1e-3) {
			t.Errorf("%s: operand %d: the bf16 gradient is off by %.1f%%", name, k, 100*math.Sqrt(diff/norm))
		}
	}
}

func TestLinearGradients(t *testing.T) {
	check(t, "plain", func(e *env) *Value { return e.Linear(e.Var(2, 3, 4), e.Param(5, 4), With{}) })
	check(t, "bias", func(e *env) *Value { return e.Linear(e.Var(3, 4), e.Param(5, 4), With{Bias: e.Param(5), Alpha: 0.5}) })
	for _, act := range []kernels.UnaryOp{kernels.GELUTanh, kernels.GELUErf, kernels.QuickGELU, kernels.SiLU, kernels.Tanh, kernels.Sigmoid} {
		check(t, act.String(), func(e *env) *Value {
			return e.Linear(e.Var(2, 2, 4), e.Param(3, 4), With{Bias: e.Param(3), Act: act})
		})
	}
	check(t, "everything", func(e *env) *Value {
		return e.Linear(e.Var(2, 3, 4), e.Param(5, 4), With{Bias: e.Param(5), Act: kernels.SiLU, Gate: e.Var(2, 5), Residual: e.Var(2, 3, 5), Alpha: 2})
	})
	check(t, "residual of itself", func(e *env) *Value {
		x := e.Var(2, 3, 4)
		return e.Linear(x, e.Param(4, 4), With{Residual: x})
	})
	check(t, "one weight twice", func(e *env) *Value {
		w := e.Param(4, 4)
		return e.Linear(e.Linear(e.Var(2, 4), w, With{}), w, With{Act: kernels.SiLU})
	})
	check(t, "ragged", func(e *env) *Value {
		x := e.Ragged(e.Var(6, 4), []int{1, 3, 2})
		h := e.Norm(x, NormWith{Weight: e.Param(4), Bias: e.Param(4), Eps: 1e-5})
		return e.Linear(h, e.Param(3, 4), With{Bias: e.Param(3)})
	})
}

func TestProductsGradients(t *testing.T) {
	check(t, "products", func(e *env) *Value { return e.Products(e.Var(2, 3, 4), e.Var(2, 5, 4)) })
	check(t, "products of one", func(e *env) *Value {
		x := e.Var(2, 3, 4)
		return e.Products(x, x)
	})
}

func TestAttentionGradients(t *testing.T) {
	for name, o := range map[string]Attend{
		"plain":   {Heads: 2},
		"causal":  {Heads: 2, Causal: true, Scale: 0.4},
		"lengths": {Heads: 2, KeyLens: []int32{3, 2}},
		"grouped": {Heads: 4, KVHeads: 2},
	} {
		kv := o.KVHeads
		if kv == 0 {
			kv = o.Heads
		}
		check(t, name, func(e *env) *Value {
			return e.Attention(e.Var(2, 3, o.Heads*4), e.Var(2, 3, kv*4), e.Var(2, 3, kv*4), o)
		})
	}
	check(t, "bias", func(e *env) *Value {
		bias := e.fixed([]float32{0, 1, -1, 2, 0.5, 0.1}, 1, 1, 2, 3)
		return e.Attention(e.Var(2, 2, 4), e.Var(2, 3, 4), e.Var(2, 3, 4), Attend{Heads: 1, Bias: bias})
	})
	check(t, "trained bias", func(e *env) *Value {
		return e.Attention(e.Var(2, 2, 8), e.Var(2, 3, 8), e.Var(2, 3, 8), Attend{Heads: 2,
			Bias: e.Permute(e.EmbeddingWide(e.Param(3, 2), []int32{0, 1, 2, 2, 0, 1}, 1, 2, 3), 0, 3, 1, 2)})
	})
	for _, kind := range []kernels.RopeKind{kernels.RopeInterleaved, kernels.RopeHalves} {
		check(t, fmt.Sprint("rope ", kind), func(e *env) *Value {
			cos := e.fixed([]float32{1, 1, .5, .8, .1, .6}, 3, 2)
			sin := e.fixed([]float32{0, 0, .9, .6, .99, .8}, 3, 2)
			return e.Rope(e.Var(2, 3, 8), 2, cos, sin, kind)
		})
	}
}

func TestNormGradients(t *testing.T) {
	for _, kind := range []kernels.NormKind{kernels.LayerNorm, kernels.RMSNorm} {
		check(t, fmt.Sprint("norm ", kind), func(e *env) *Value { return e.Norm(e.Var(2, 3, 6), NormWith{Kind: kind, Eps: 1e-2}) })
		check(t, fmt.Sprint("weighted norm ", kind), func(e *env) *Value {
			return e.Norm(e.Var(2, 3, 6), NormWith{Kind: kind, Weight: e.Param(6), Bias: e.Param(6), Eps: 1e-2})
		})
		check(t, fmt.Sprint("modulated norm ", kind), func(e *env) *Value {
			m := e.Chunk(e.Var(2, 12), 2)
			return e.Norm(e.Var(2, 3, 6), NormWith{Kind: kind, Weight: e.Param(6), Scale: m[0], Shift: m[1], Eps: 1e-2})
		})
		check(t, fmt.Sprint("norm of heads ", kind), func(e *env) *Value {
			x := e.Reshape(e.Var(2, 3, 8), 2, 3, 2, 4)
			return e.Reshape(e.Norm(x, NormWith{Kind: kind, Weight: e.Param(4), Eps: 1e-2}), 2, 3, 8)
		})
	}
	for _, act := range []kernels.UnaryOp{kernels.Identity, kernels.SiLU} {
		check(t, "group norm "+act.String(), func(e *env) *Value {
			return e.GroupNorm(e.Var(2, 2, 3, 4), GroupNormWith{Groups: 2, Weight: e.Param(4), Bias: e.Param(4), Eps: 1e-2, Act: act})
		})
	}
}

func TestElementwiseGradients(t *testing.T) {
	for op := kernels.Identity; op <= kernels.Square; op++ {
		if op != kernels.ReLU { // its kink is not for finite differences
			check(t, op.String(), func(e *env) *Value { return e.Unary(op, e.Var(2, 5)) })
		}
	}
	for op := kernels.Add; op <= kernels.Mul; op++ {
		check(t, fmt.Sprint("binary ", op), func(e *env) *Value { return e.Binary(op, e.Var(2, 5), e.Var(2, 5)) })
	}
	check(t, "div", func(e *env) *Value { return e.Div(e.Var(2, 5), e.Unary(kernels.Exp, e.Var(2, 5))) })
	check(t, "scale", func(e *env) *Value { return e.Scale(e.Var(2, 5), -3) })
	check(t, "a value used three times", func(e *env) *Value {
		x := e.Var(2, 5)
		return e.Add(e.Mul(x, x), e.Add(x, x))
	})
	check(t, "modulate", func(e *env) *Value { return e.Modulate(e.Var(2, 3, 4), e.Var(2, 4), e.Var(2, 4)) })
	check(t, "add to samples", func(e *env) *Value { return e.AddSample(e.Var(2, 3, 4), e.Var(2, 4)) })
	check(t, "gated", func(e *env) *Value {
		m := e.Chunk(e.Var(2, 8), 2)
		return e.Gated(e.Var(2, 3, 4), m[1], e.Var(2, 3, 4))
	})
	check(t, "geglu", func(e *env) *Value {
		h := e.Chunk(e.Var(2, 3, 8), 2)
		return e.GLU(kernels.GELUErf, h[0], h[1])
	})
	check(t, "positions", func(e *env) *Value { return e.AddParam(e.Var(2, 3, 4), e.Param(3, 4)) })
	check(t, "dropout", func(e *env) *Value {
		e.Keys = []rng.Key{rng.New(1), rng.New(2)}
		x := e.Var(2, 3, 4)
		train := e.Train
		e.Train = true // the differences see it too
		defer func() { e.Train = train }()
		return e.Dropout(x, 0.3, "here")
	})
	check(t, "softmax", func(e *env) *Value { return e.Softmax(e.Var(3, 5)) })
	check(t, "log-probabilities", func(e *env) *Value { return e.LogProbs(e.Var(3, 5), []int32{2, -1, 4}, 0.8) })
	check(t, "log-probabilities of tokens", func(e *env) *Value {
		return e.TokenLogProbs(e.Var(2, 3, 4), e.Param(5, 4), []int32{2, -1, 4, 0, 1, 3}, 0.8)
	})
}

func TestPictureGradients(t *testing.T) {
	same := kernels.ConvShape{In: 2, Out: 3, KH: 3, KW: 3, Stride: 1, Top: 1, Left: 1, Bottom: 1, Right: 1}
	check(t, "conv", func(e *env) *Value {
		return e.Conv(e.Var(2, 3, 2, 2), e.ConvParam(same), ConvWith{Bias: e.Param(3), Residual: e.Var(2, 3, 2, 3)})
	})
	down := kernels.ConvShape{In: 2, Out: 2, KH: 3, KW: 3, Stride: 2, Bottom: 1, Right: 1}
	check(t, "conv down", func(e *env) *Value { return e.Conv(e.Var(2, 4, 4, 2), e.ConvParam(down), ConvWith{}) })
	check(t, "upsample", func(e *env) *Value { return e.Upsample(e.Var(2, 2, 1, 3), 2) })
}

func TestShapeGradients(t *testing.T) {
	check(t, "embedding", func(e *env) *Value { return e.Embedding(e.Param(5, 3), []int32{4, 0, 4, 1}, 2, 2) })
	check(t, "gather", func(e *env) *Value { return e.Gather(e.Var(2, 3, 2), []int32{2, 3}) })
	check(t, "concat of tokens", func(e *env) *Value { return e.Concat(1, e.Var(2, 1, 3), e.Var(2, 2, 3)) })
	check(t, "concat of channels", func(e *env) *Value { return e.Concat(2, e.Var(2, 2, 3), e.Var(2, 2, 1)) })
	check(t, "split", func(e *env) *Value {
		p := e.Split(e.Var(2, 5, 2), 1, 2, 1, 2)
		return e.Mul(p[0], e.Unary(kernels.Square, p[2])) // p[1] gets no gradient
	})
	check(t, "chunk", func(e *env) *Value { return e.Linear(e.Chunk(e.Var(2, 6), 3)[1], e.Param(3, 2), With{}) })
	check(t, "patches", func(e *env) *Value {
		x := e.Permute(e.Reshape(e.Var(2, 4, 4, 3), 4, 2, 2, 2, 3), 0, 2, 1, 3, 4)
		y := e.Norm(e.Reshape(x, 2, 4, 12), NormWith{Scale: e.Var(2, 12), Eps: 1e-2})
		if s := e.Reshape(x, 8, 12).samples(); len(s) != 2 || s[0] != 4 {
			panic(fmt.Sprint("samples of patches: ", s))
		}
		return e.Linear(y, e.Param(2, 12), With{})
	})
	check(t, "permute", func(e *env) *Value {
		return e.Mul(e.Permute(e.Var(2, 3, 2, 4), 0, 2, 3, 1), e.Var(2, 2, 4, 3))
	})
}
