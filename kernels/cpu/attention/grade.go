package attention

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// grading is what happens between the products of the backward: P and dS of
// ref.AttentionBackward from scores and from dO·V, for 32 queries at once.
type grading struct {
	s, g         unsafe.Pointer // [keys][32] fp32: scores, and dO·V
	p, d         unsafe.Pointer // rows of P and dS as a product's A; s and g unless those are lined
	panel        unsafe.Pointer // dS as a panel
	rowBytes     int            // of p and d
	keys         int
	c, scale     float32
	shift, delta [queries]float32 // -LSE, or -Inf where no key is seen

	// Path NEON's alone.
	width int // bytes of a row of scores that are wanted: 64 or 128
	//lint:ignore U1000 assembly for arm64 writes it
	flushed int // other than 0: a result was (package neon)
}

// run is the pass in plain Go, for rows that are fp32.
func (g *grading) run(m kernels.Math) {
	g.grade(m)
	if m == kernels.MathBF16 {
		panelGo(g.panel, floats(g.g, g.keys*queries))
	}
}

// grade leaves P and dS where scores and dO·V were.
func (g *grading) grade(m kernels.Math) {
	exp2, round := ref.Exp2, func(x float32) float32 { return x }
	if m == kernels.MathBF16 {
		exp2, round = ref.Exp2Short, ref.RoundBF16
	}
	s, d := floats(g.s, g.keys*queries), floats(g.g, g.keys*queries)
	for i, x := range s {
		q := i % queries
		p := exp2(ref.FMA(x, g.c, g.shift[q]))
		s[i] = round(p)
		d[i] = round(ref.Mul(ref.Mul(p, ref.Sub(d[i], g.delta[q])), g.scale))
	}
}
