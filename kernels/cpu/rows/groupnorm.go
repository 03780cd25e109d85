package rows

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// GroupNorm is ref.GroupNorm over all samples. Sums of blocks of pixels are taken by
// many goroutines and added by one, in their order; then pixels are written by many.
func (e *Engine) GroupNorm(a *kernels.GroupNorm, par Parallel) {
	if e.set == nil || a.HW == 0 || a.C == 0 || a.Groups <= 0 || a.C%a.Groups != 0 {
		par(a.N, func(n int) { ref.GroupNorm(a, n, n+1) })
		return
	}
	w := e.begin()
	weight := append([]float32(nil), numbers(w.parameter(weightSlot, a.Weight, a.C, 1), a.C)...)
	bias := append([]float32(nil), numbers(w.parameter(biasSlot, a.Bias, a.C, 0), a.C)...)
	w.end(e)
	g := &pixels{e: e, par: par, n: a.HW, c: a.C, per: a.C / a.Groups}
	mean, scale := make([]float32, a.C), make([]float32, a.C)
	for n := range a.N {
		x := from(a.X, n*a.HW*a.C)
		for group, t := range g.groups(g.sums(columnSum, x, operand{}, 0)) {
			fill(mean[group*g.per:(group+1)*g.per], float32(t))
			if !a.Mean.Empty() {
				a.Mean.F32()[n*a.Groups+group] = float32(t)
			}
		}
		for group, t := range g.groups(g.sums(columnSquares, x, own(mean), 0)) {
			rstd := ref.Div(1, ref.Sqrt(ref.Add(float32(t), a.Eps)))
			for c := group * g.per; c < (group+1)*g.per; c++ {
				scale[c] = ref.Mul(rstd, weight[c])
			}
			if !a.Rstd.Empty() {
				a.Rstd.F32()[n*a.Groups+group] = rstd
			}
		}
		k := group
		if a.Act == kernels.SiLU {
			k = groupSiLU
		}
		g.write(k, x, from(a.Y, n*a.HW*a.C), mean, scale, bias)
		if a.Act != kernels.SiLU && a.Act != kernels.Identity {
			panic("kernels: GroupNorm with " + a.Act.String())
		}
	}
}

func fill(dst []float32, x float32) {
	for i := range dst {
		dst[i] = x
	}
}

// pixels is one sample: n pixels of c channels, in groups of per.
type pixels struct {
	e         *Engine
	par       Parallel
	n, c, per int
}

// each calls f for runs of blocks of pixels, about pieceBytes of fp32 each.
func (g *pixels) each(f func(w *work, lo, hi int)) {
	blocks := (g.n + ref.PixelBlock - 1) / ref.PixelBlock
	many := max(1, (1<<15)/(g.c*ref.PixelBlock))
	g.par((blocks+many-1)/many, func(i int) {
		w := g.e.begin()
		defer w.end(g.e)
		f(w, i*many, min((i+1)*many, blocks))
	})
}

// sums are the channels' sums over the pixels: kernel k over each block, in fp32, and
// the blocks in float64, in order. y is k's second operand: with a stride of 0, a
// number for each channel.
func (g *pixels) sums(k kernel, x, y operand, stride int) []float64 {
	blocks := (g.n + ref.PixelBlock - 1) / ref.PixelBlock
	parts := make([]float32, blocks*g.c)
	g.each(func(w *work, lo, hi int) {
		for b := lo; b < hi; b++ {
			p := b * ref.PixelBlock
			src := []operand{x.at(p * g.c), y}
			if y.p == nil {
				src = src[:1]
			} else {
				src[1] = y.at(p * stride)
			}
			w.columns(k, parts[b*g.c:(b+1)*g.c], min(ref.PixelBlock, g.n-p), src, []int{g.c, stride})
		}
	})
	total := make([]float64, g.c)
	for b := range blocks {
		for c, v := range parts[b*g.c : (b+1)*g.c] {
			total[c] += float64(v)
		}
	}
	return total
}

// groups are the groups' means: of their channels, in order.
func (g *pixels) groups(channel []float64) []float64 {
	out := make([]float64, g.c/g.per)
	for i := range out {
		t := 0.0
		for _, v := range channel[i*g.per : (i+1)*g.per] {
			t += v
		}
		out[i] = t / float64(g.n*g.per)
	}
	return out
}

// write runs an element-wise kernel over all pixels, whose further operands are
// numbers for each channel; these are repeated, so that no call is short.
func (g *pixels) write(k kernel, x, y operand, channel ...[]float32) {
	repeat := max(1, 512/g.c)
	var wide [4]operand
	for i, v := range channel {
		all := make([]float32, 0, repeat*g.c)
		for range repeat {
			all = append(all, v...)
		}
		wide[i+1] = own(all)
	}
	g.each(func(w *work, lo, hi int) {
		src := wide
		for p := lo * ref.PixelBlock; p < min(hi*ref.PixelBlock, g.n); p += repeat {
			n := min(repeat, min(hi*ref.PixelBlock, g.n)-p) * g.c
			src[0] = x.at(p * g.c)
			w.pixel(k, n, y.at(p*g.c), src[:len(channel)+1])
		}
	})
}

// pixel is a call whose first operand has a type and the others are fp32.
func (w *work) pixel(k kernel, n int, y operand, src []operand) {
	if f := w.kernel(k, src[0].d, y.d); f != nil {
		w.call(f, n, y, src, 0)
		return
	}
	src[0] = w.widened(wideSlot, src[0], n)
	to := y
	if y.d != kernels.F32 {
		to = own(w.row(wideSlot+1, n))
	}
	w.call(w.kernel(k, kernels.F32, kernels.F32), n, to, src, 0)
	if y.d != kernels.F32 {
		w.store(y, to, n)
	}
}
