package vlm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func drawnNumbers(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(scale * r.NormFloat64())
	}
	return x
}

// ruleCase is a stretch longer than a stride, with two heads of values for each of keys.
func ruleCase() (deltaRule, deltaInput, deltaWeights, int) {
	r, n := rand.New(rand.NewPCG(1, 2)), stride+7
	rule := deltaRule{keyHeads: 2, valueHeads: 4, key: 3, value: 2}
	return rule, deltaInput{drawnNumbers(r, n*rule.qkv(), 1), drawnNumbers(r, n*4, 1), drawnNumbers(r, n*4, 1)},
		deltaWeights{drawnNumbers(r, 4, 0.3), drawnNumbers(r, 4, 1)}, n
}

// TestDeltaInParts: a stretch that is read in parts leaves the bits of the whole.
func TestDeltaInParts(t *testing.T) {
	rule, in, w, n := ruleCase()
	whole, parts := make([]float32, n*8), make([]float32, n*8)
	a, b := make([]float32, rule.state()), make([]float32, rule.state())
	rule.forward(in, w, a, whole)
	for first := 0; first < n; {
		size := min(1+first, n-first)
		rule.forward(rule.part(in, first, size), w, b, parts[first*8:])
		first += size
	}
	if !slices.Equal(a, b) || !slices.Equal(whole, parts) {
		t.Error("a stretch in parts is another")
	}
}

// TestDeltaGradient: gradients of every input and weight are those of central differences.
func TestDeltaGradient(t *testing.T) {
	rule, in, w, n := ruleCase()
	dy := drawnNumbers(rand.New(rand.NewPCG(3, 4)), n*8, 1)
	loss := func() (sum float64) {
		out := make([]float32, n*8)
		rule.forward(in, w, make([]float32, rule.state()), out)
		for i, y := range out {
			sum += float64(y) * float64(dy[i])
		}
		return sum
	}
	g := rule.backward(in, w, dy)
	for name, pair := range map[string][2][]float32{"qkv": {in.qkv, g.qkv}, "a": {in.a, g.a}, "b": {in.b, g.deltaInput.b},
		"A": {w.decay, g.decay}, "bias": {w.bias, g.deltaWeights.bias}} {
		x, grad := pair[0], pair[1]
		for i := 0; i < len(x); i += 1 + len(x)/40 {
			const h = 2e-3
			old := x[i]
			x[i] = old + h
			up := loss()
			x[i] = old - h
			down := loss()
			x[i] = old
			if want := (up - down) / (2 * h); math.Abs(want-float64(grad[i])) > 2e-2*(1+math.Abs(want)) {
				t.Errorf("%s[%d]: the gradient is %g, differences say %g", name, i, grad[i], want)
			}
		}
	}
}
