package rows

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// GroupNormBackward is ref.GroupNormBackward over all samples. Both passes over the pixels
// compute n = (x - mean)·rstd and d = DY·act'(before) anew, a few thousand at a time: the first
// takes their sums, as the forward takes its, the second writes DX.
func (e *Engine) GroupNormBackward(a *kernels.GroupNormBackward, par Parallel) {
	if e.set == nil || a.HW == 0 || a.C == 0 || a.Groups <= 0 || a.C%a.Groups != 0 || a.Act != kernels.Identity && a.Act != kernels.SiLU {
		ref.GroupNormBackward(a, 0, a.N)
		return
	}
	g := &groupGradient{pixels: pixels{e: e, par: par, n: a.HW, c: a.C, per: a.C / a.Groups}, a: a, many: max(1, longest/2/a.C)}
	w := e.begin()
	g.weight = append([]float32(nil), numbers(w.parameter(weightSlot, a.Weight, a.C, 1), a.C)...)
	bias := append([]float32(nil), numbers(w.parameter(biasSlot, a.Bias, a.C, 0), a.C)...)
	w.end(e)
	g.wideWeight, g.bias = g.repeated(g.weight), g.repeated(bias)
	mean, rstd, scale := make([]float32, a.C), make([]float32, a.C), make([]float32, a.C)
	for s := range a.N {
		for c := range mean {
			at := s*a.Groups + c/g.per
			mean[c], rstd[c] = a.Mean.F32()[at], a.Rstd.F32()[at]
			scale[c] = ref.Mul(rstd[c], g.weight[c])
		}
		g.mean, g.rstd, g.scale = g.repeated(mean), g.repeated(rstd), g.repeated(scale)
		g.sample(s)
	}
}

// groupGradient is one sample's gradient. What is known of channels is repeated for many pixels,
// so that no call is short.
type groupGradient struct {
	pixels
	a                                   *kernels.GroupNormBackward
	many                                int
	weight                              []float32
	wideWeight, bias, mean, rstd, scale operand
}

func (g *groupGradient) repeated(v []float32) operand {
	all := make([]float32, 0, g.many*g.c)
	for range g.many {
		all = append(all, v...)
	}
	return own(all)
}

// terms are n and d of count pixels from pixel p of sample s on.
func (g *groupGradient) terms(w *work, s, p, count int) (n, d operand) {
	at, m := (s*g.n+p)*g.c, count*g.c
	x, dy := w.row(rowSlot, m), from(g.a.DY, at)
	w.load(x, from(g.a.X, at))
	n, d = own(w.row(gradSlot, m)), own(w.row(shiftSlot, m))
	w.apply(subTimes, m, n, own(x), g.mean, g.rstd)
	if g.a.Act == kernels.Identity {
		w.load(w.row(shiftSlot, m), dy)
		return n, d
	}
	w.apply(group, m, own(x), own(x), g.mean, g.scale, g.bias)
	wide := w.row(scaleSlot, m)
	w.load(wide, dy)
	w.apply(gradSiLU, m, d, own(x), own(wide))
	return n, d
}

// runs calls f for pieces of many pixels that do not cross a block's end.
func (g *groupGradient) runs(f func(w *work, block, p, count int)) {
	g.each(func(w *work, lo, hi int) {
		for b := lo; b < hi; b++ {
			end := min((b+1)*ref.PixelBlock, g.n)
			for p := b * ref.PixelBlock; p < end; p += g.many {
				f(w, b, p, min(g.many, end-p))
			}
		}
	})
}

func (g *groupGradient) sample(s int) {
	blocks := (g.n + ref.PixelBlock - 1) / ref.PixelBlock
	parts1, parts2 := make([]float32, blocks*g.c), make([]float32, blocks*g.c)
	g.runs(func(w *work, b, p, count int) {
		n, d := g.terms(w, s, p, count)
		w.columns(columnSum, parts1[b*g.c:(b+1)*g.c], count, []operand{d}, []int{g.c})
		w.columns(columnDot, parts2[b*g.c:(b+1)*g.c], count, []operand{d, n}, []int{g.c, g.c})
	})
	s1, s2 := make([]float64, g.c), make([]float64, g.c)
	for b := range blocks {
		for c := range s1 {
			s1[c] += float64(parts1[b*g.c+c])
			s2[c] += float64(parts2[b*g.c+c])
		}
	}
	w := g.e.begin()
	w.addTo(g.a.DBias, rounded(s1))
	w.addTo(g.a.DWeight, rounded(s2))
	w.end(g.e)
	if g.a.DX.Empty() {
		return
	}
	m1, m2 := make([]float32, g.c), make([]float32, g.c)
	for group := range g.c / g.per {
		lo, hi := group*g.per, (group+1)*g.per
		t1, t2 := 0.0, 0.0
		for c := lo; c < hi; c++ {
			t1 += float64(float64(g.weight[c]) * s1[c])
			t2 += float64(float64(g.weight[c]) * s2[c])
		}
		count := float64(g.n * g.per)
		fill(m1[lo:hi], ref.Flush(float32(t1/count)))
		fill(m2[lo:hi], ref.Flush(float32(t2/count)))
	}
	wide1, wide2 := g.repeated(m1), g.repeated(m2)
	g.runs(func(w *work, _, p, count int) {
		n, d := g.terms(w, s, p, count)
		w.apply(groupGrad, count*g.c, from(g.a.DX, (s*g.n+p)*g.c), n, d, wide2, g.wideWeight, wide1, g.rstd)
	})
}

func rounded(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = ref.Flush(float32(v))
	}
	return y
}
