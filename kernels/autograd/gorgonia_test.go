package autograd

import (
	"math"
	"testing"

	g "gorgonia.org/gorgonia"
	gt "gorgonia.org/tensor"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Gorgonia knows nothing of this engine: the same graph, in float64, must give the same
// values and gradients.

// theirGraph builds a graph over the numbers that env drew, in the same order.
type theirGraph struct {
	*g.ExprGraph
	numbers [][]float32
	nodes   g.Nodes
}

func (b *theirGraph) in(shape ...int) *g.Node {
	x := make([]float64, len(b.numbers[len(b.nodes)]))
	for i, v := range b.numbers[len(b.nodes)] {
		x[i] = float64(v)
	}
	n := g.NodeFromAny(b.ExprGraph, gt.New(gt.WithShape(shape...), gt.WithBacking(x)), g.WithName(string(rune('a'+len(b.nodes)))))
	b.nodes = append(b.nodes, n)
	return n
}

func must(n *g.Node, err error) *g.Node { return g.Must(n, err) }

func oracle(t *testing.T, name string, ours program, theirs func(b *theirGraph) *g.Node) {
	t.Helper()
	var numbers [][]float32
	e, _, seed := play(ours, &numbers, f32)
	got := seed.Of.F32()
	e.Backward(seed)

	b := &theirGraph{ExprGraph: g.NewGraph(), numbers: numbers}
	y := theirs(b)
	weights := make([]float32, len(got))
	rng.New(5).Normal(weights, 0)
	c := make([]float64, len(weights))
	for i, v := range weights {
		c[i] = float64(v)
	}
	constant := g.NodeFromAny(b.ExprGraph, gt.New(gt.WithShape(y.Shape()...), gt.WithBacking(c)), g.WithName("weights"))
	cost := must(g.Sum(must(g.HadamardProd(y, constant))))
	var want g.Value
	g.Read(y, &want)
	if _, err := g.Grad(cost, b.nodes...); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	vm := g.NewTapeMachine(b.ExprGraph, g.BindDualValues(b.nodes...))
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	compare(t, name+": values", got, want)
	for k, n := range b.nodes {
		d, err := n.Grad()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compare(t, name+": gradient of "+n.Name(), e.grads[k](), d)
	}
}

func compare(t *testing.T, what string, got []float32, want g.Value) {
	t.Helper()
	x := want.Data().([]float64)
	if len(x) != len(got) {
		t.Fatalf("%s: %d numbers, theirs %d", what, len(got), len(x))
	}
	for i, v := range x {
		if !(math.Abs(v-float64(got[i])) <= 1e-5*(1+math.Abs(v))) {
			t.Errorf("%s: element %d is %v, theirs %v", what, i, got[i], v)
		}
	}
}

func TestAgainstGorgonia(t *testing.T) {
	oracle(t, "two layers", func(e *env) *Value {
		h := e.Linear(e.Var(3, 4), e.Param(5, 4), With{Bias: e.Param(5), Act: kernels.Tanh})
		return e.Linear(h, e.Param(2, 5), With{})
	}, func(b *theirGraph) *g.Node {
		x, w, bias, last := b.in(3, 4), b.in(5, 4), b.in(1, 5), b.in(2, 5)
		h := must(g.Tanh(must(g.BroadcastAdd(must(g.Mul(x, must(g.Transpose(w)))), bias, nil, []byte{0}))))
		return must(g.Mul(h, must(g.Transpose(last))))
	})
	for op, f := range map[kernels.UnaryOp]func(*g.Node) (*g.Node, error){
		kernels.Sigmoid: g.Sigmoid, kernels.Tanh: g.Tanh, kernels.Exp: g.Exp, kernels.Square: g.Square, kernels.ReLU: g.Rectify,
		kernels.SiLU: func(x *g.Node) (*g.Node, error) { return g.HadamardProd(x, must(g.Sigmoid(x))) },
		kernels.QuickGELU: func(x *g.Node) (*g.Node, error) {
			return g.HadamardProd(x, must(g.Sigmoid(must(g.Mul(x, g.NewConstant(1.702))))))
		},
	} {
		oracle(t, op.String(), func(e *env) *Value { return e.Unary(op, e.Var(3, 5)) }, func(b *theirGraph) *g.Node { return must(f(b.in(3, 5))) })
	}
	for op, f := range map[kernels.BinaryOp]func(a, b *g.Node) (*g.Node, error){
		kernels.Sub: func(a, b *g.Node) (*g.Node, error) { return g.Sub(a, b) },
		kernels.Add: func(a, b *g.Node) (*g.Node, error) { return g.Add(a, b) },
		kernels.Mul: func(a, b *g.Node) (*g.Node, error) { return g.HadamardProd(a, b) },
		kernels.Div: func(a, b *g.Node) (*g.Node, error) { return g.HadamardDiv(a, b) },
	} {
		oracle(t, "binary", func(e *env) *Value { return e.Binary(op, e.Var(3, 5), e.Unary(kernels.Exp, e.Var(3, 5))) },
			func(b *theirGraph) *g.Node { return must(f(b.in(3, 5), must(g.Exp(b.in(3, 5))))) })
	}
	oracle(t, "softmax", func(e *env) *Value { return e.Softmax(e.Var(3, 5)) },
		func(b *theirGraph) *g.Node { return must(g.SoftMax(b.in(3, 5))) })
	oracle(t, "convolution", func(e *env) *Value {
		s := kernels.ConvShape{In: 1, Out: 3, KH: 3, KW: 3, Stride: 1, Top: 1, Left: 1, Bottom: 1, Right: 1}
		return e.Permute(e.Conv(e.Var(2, 5, 4, 1), e.ConvParam(s), ConvWith{}), 0, 3, 1, 2)
	}, func(b *theirGraph) *g.Node {
		return must(g.Conv2d(b.in(2, 1, 5, 4), b.in(3, 1, 3, 3), gt.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	})
	oracle(t, "attention", func(e *env) *Value {
		return e.Attention(e.Var(1, 3, 4), e.Var(1, 5, 4), e.Var(1, 5, 4), Attend{Heads: 1})
	}, func(b *theirGraph) *g.Node {
		q, k, v := b.in(3, 4), b.in(5, 4), b.in(5, 4)
		s := must(g.Mul(must(g.Mul(q, must(g.Transpose(k)))), g.NewConstant(0.5)))
		return must(g.Mul(must(g.SoftMax(s)), v))
	})
	oracle(t, "layer norm", func(e *env) *Value { return e.Norm(e.Var(1, 6), NormWith{}) }, func(b *theirGraph) *g.Node {
		x := b.in(6)
		d := must(g.Sub(x, must(g.Mean(x))))
		return must(g.HadamardDiv(d, must(g.Sqrt(must(g.Mean(must(g.Square(d))))))))
	})
	oracle(t, "RMS norm", func(e *env) *Value { return e.Norm(e.Var(1, 6), NormWith{Kind: kernels.RMSNorm}) }, func(b *theirGraph) *g.Node {
		x := b.in(6)
		return must(g.HadamardDiv(x, must(g.Sqrt(must(g.Mean(must(g.Square(x))))))))
	})
}
