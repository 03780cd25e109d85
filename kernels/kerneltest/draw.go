package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/darkroom-rl/darkroom/kernels"
)

// drawCase is a Draw at one shape.
type drawCase struct {
	dtype      kernels.DType
	rows, cols int
	pad        int
	tied       bool // logits are multiples of 1/4, of which many are the same
	wild       bool
	given      bool
	greedy     bool
	banned     float64 // the share of tokens, and of those that were seen
	seen       float64
	settings   kernels.Draw
}

func (c drawCase) String() string {
	s := c.settings
	return fmt.Sprintf("%s %dx%d+%d tied=%t wild=%t given=%t greedy=%t banned=%g seen=%g t=%g k=%d p=%g min=%g",
		c.dtype, c.rows, c.cols, c.pad, c.tied, c.wild, c.given, c.greedy, c.banned, c.seen, s.Temperature, s.TopK, s.TopP, s.MinP)
}

// run draws, and holds a draw without filters to the formula in float64.
func (c drawCase) run(e *Env) {
	a := c.settings
	switch r := e.rand(); {
	case c.wild:
		a.X = e.WildMat(c.dtype, c.rows, c.cols, c.pad)
	case c.tied:
		x := make([]float32, c.rows*(c.cols+c.pad))
		for i := range x {
			x[i] = float32(math.Round(float64(bell(r))*8)) / 4
		}
		a.X = strided(e.Values(c.dtype, x), c.rows, c.cols, c.pad)
	default:
		a.X = e.Mat(c.dtype, c.rows, c.cols, c.pad, 4)
	}
	if c.banned > 0 {
		a.Banned = e.set(1, c.cols, c.banned)
	}
	if c.seen > 0 {
		a.Seen, a.Repetition = e.set(c.rows, c.cols, c.seen), 1.3
	}
	r := e.rand()
	uniform, given := make([]float32, c.rows), make([]int32, c.rows)
	for i := range uniform {
		uniform[i], given[i] = float32(r.Uint32()>>8)*0x1p-24, int32(r.IntN(c.cols+2))-1
	}
	uniform[0] = 0
	if !c.greedy {
		a.Uniform = e.Values(kernels.F64, uniform)
	}
	if c.given {
		a.Given = e.Ints(given)
	}
	a.Token, a.LogProb, a.Entropy = e.Junk(kernels.I32, c.rows), e.Junk(kernels.F32, c.rows), e.Junk(kernels.F32, c.rows)
	e.B.Draw(&a)
	e.Out("token", a.Token)
	e.Out("log-probability", a.LogProb)
	e.Out("entropy", a.Entropy)
	if c.wild || c.banned > 0 || c.seen > 0 || a.TopK > 0 || a.TopP > 0 || a.MinP > 0 {
		return
	}
	logits, tokens := e.Numbers(a.X.Span), e.Numbers(a.Token)
	inverse := 1.0
	if a.Temperature != 0 {
		inverse = 1 / float64(a.Temperature)
	}
	var logProbs, entropies []float64
	for row, token := range tokens {
		l, sum, h := logits[row*a.X.Stride:][:c.cols], 0.0, 0.0
		for _, v := range l {
			sum += math.Exp(v * inverse)
		}
		for _, v := range l {
			p := math.Exp(v*inverse) / sum
			h -= p * math.Log(p)
		}
		logProb := math.Inf(-1)
		if int(token) < c.cols {
			logProb = l[int(token)]*inverse - math.Log(sum)
		}
		logProbs, entropies = append(logProbs, logProb), append(entropies, h)
	}
	e.Near("log-probability", a.LogProb, logProbs, 1e-5, 0)
	e.Near("entropy", a.Entropy, entropies, 1e-5, 0)
}

// set is sets of some of n tokens, as bits. Bits past the last token are set as well: they mean nothing.
func (e *Env) set(rows, n int, share float64) kernels.Span {
	r, words := e.rand(), kernels.Words(n)
	all := make([]int32, rows*words)
	for row := range rows {
		for i := range words * 32 {
			if i >= n || r.Float64() < share {
				all[row*words+i/32] |= int32(uint32(1) << (i % 32))
			}
		}
	}
	return e.Ints(all)
}

func draws() []Case {
	var all []Case
	add := func(c drawCase) { all = append(all, Case{"Draw", c.String(), c.run}) }
	f := func(cols int, s kernels.Draw) drawCase {
		return drawCase{dtype: kernels.F32, rows: 3, cols: cols, pad: 1, settings: s}
	}
	add(f(33, kernels.Draw{}))
	tied := f(70, kernels.Draw{Temperature: 0.7, TopK: 20, TopP: 0.7, MinP: 0.05})
	tied.tied, tied.banned, tied.seen = true, 0.1, 0.2
	add(tied)
	for _, cols := range []int{1, 2, 7, 31, 64, 511, 512, 513, 1025, 2100} {
		for _, d := range floats {
			for _, s := range []kernels.Draw{{}, {Temperature: 0.6}, {TopK: 5}, {TopP: 0.9}, {MinP: 0.1}, {Temperature: 1.5, TopK: 40, TopP: 0.95, MinP: 0.02}} {
				c := f(cols, s)
				c.dtype, c.pad = d, 0
				if s.TopP > 0 || s.TopK > 0 {
					c.tied = cols%2 == 1
				}
				if s.MinP > 0 {
					c.banned, c.seen = 0.2, 0.3
				}
				add(c)
			}
		}
	}
	given := f(600, kernels.Draw{TopK: 300})
	given.given = true
	add(given)
	given.settings = kernels.Draw{Temperature: 2}
	add(given)
	greedy := f(600, kernels.Draw{TopP: 0.5})
	greedy.greedy, greedy.tied = true, true
	add(greedy)
	greedy.settings = kernels.Draw{Temperature: 0.25}
	add(greedy)
	for _, cols := range []int{1, 2, 40} {
		wild := f(cols, kernels.Draw{TopP: 0.9})
		wild.wild, wild.rows = true, 40
		add(wild)
		wild.settings, wild.banned, wild.seen = kernels.Draw{TopK: 2}, 0.5, 0.2
		add(wild)
	}
	long := f(20011, kernels.Draw{TopK: 3000, TopP: 0.97}) // bf16: many tie
	long.rows, long.dtype, long.banned, long.seen = 1, kernels.BF16, 0.01, 0.01
	add(long)
	none := f(50, kernels.Draw{})
	none.banned = 1
	add(none)
	return all
}

// drawDraw is a random Draw.
func drawDraw(r *rand.Rand) Case {
	c := drawCase{dtype: dtype(r), rows: 1 + r.IntN(3), cols: small(r, 1) * (1 + r.IntN(40)), pad: r.IntN(3),
		tied: r.IntN(2) == 0, wild: r.IntN(5) == 0, given: r.IntN(4) == 0, greedy: r.IntN(4) == 0}
	share := func() float64 { return max(0, r.Float64()-0.5) }
	c.banned, c.seen = share(), share()
	c.settings = kernels.Draw{Temperature: float32(r.IntN(5)) / 2, MinP: float32(share())}
	if r.IntN(2) == 0 {
		c.settings.TopK = r.IntN(c.cols + 2)
	}
	if r.IntN(2) == 0 {
		c.settings.TopP = 1 - math.Pow(r.Float64(), 3)
	}
	return Case{"Draw", "random " + c.String(), c.run}
}
