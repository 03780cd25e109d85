package ref

import "github.com/darkroom-rl/darkroom/kernels"

// GroupNorm over NHWC, for samples lo to hi-1.
//
// A channel's sums are taken over blocks of 64 pixels: fp32 from +0, one pixel after
// another, and the blocks' sums are added in float64, in order; a group adds its
// channels in order, in float64. The mean comes from one such sum, the variance from
// a second over (x - mean)², each square fused into its sum:
//
//	mean = sum / count, var = sum / count (float64, rounded once); rstd = 1/sqrt(var + eps)
//	Y = act(fma(x - mean, rstd·w, b)); without Weight w = 1, without Bias b = 0
func GroupNorm(a *kernels.GroupNorm, lo, hi int) {
	g := newGroups(a)
	for n := lo; n < hi; n++ {
		for group := range a.Groups {
			g.statistics(n, group)
		}
		row := make([]float32, a.C)
		for p := range a.HW {
			Load(row, a.X, (n*a.HW+p)*a.C)
			for c, x := range row {
				row[c] = Activate(a.Act, g.before(c, x))
			}
			Store(a.Y, (n*a.HW+p)*a.C, row)
		}
		if !a.Mean.Empty() {
			copy(a.Mean.F32()[n*a.Groups:], g.mean)
		}
		if !a.Rstd.Empty() {
			copy(a.Rstd.F32()[n*a.Groups:], g.rstd)
		}
	}
}

// PixelBlock is the number of pixels whose terms are added in fp32.
const PixelBlock = 64

type groups struct {
	a            *kernels.GroupNorm
	weight, bias []float32
	mean, rstd   []float32 // by group
	per          int       // channels in a group
}

func newGroups(a *kernels.GroupNorm) *groups {
	if a.Groups <= 0 || a.C%a.Groups != 0 {
		panic("kernels: GroupNorm: the channels do not divide into the groups")
	}
	return &groups{a: a, weight: loadAll(a.Weight, a.C), bias: loadAll(a.Bias, a.C), mean: make([]float32, a.Groups),
		rstd: make([]float32, a.Groups), per: a.C / a.Groups}
}

// channelSum adds term(x) over the pixels of channel c of sample n.
func channelSum(hw int, term func(p int, acc float32) float32) float64 {
	total := 0.0
	for p := 0; p < hw; p += PixelBlock {
		acc := float32(0)
		for q := p; q < min(p+PixelBlock, hw); q++ {
			acc = term(q, acc)
		}
		total += float64(acc)
	}
	return total
}

func (g *groups) statistics(n, group int) {
	a := g.a
	one := make([]float32, 1)
	at := func(p, c int) float32 {
		Load(one, a.X, (n*a.HW+p)*a.C+c)
		return one[0]
	}
	over := func(term func(x, acc float32) float32) float64 {
		total := 0.0
		for c := group * g.per; c < (group+1)*g.per; c++ {
			total += channelSum(a.HW, func(p int, acc float32) float32 { return term(at(p, c), acc) })
		}
		return total / float64(a.HW*g.per)
	}
	mean := float32(over(func(x, acc float32) float32 { return Add(acc, x) }))
	variance := float32(over(func(x, acc float32) float32 { d := Sub(x, mean); return FMA(d, d, acc) }))
	g.mean[group], g.rstd[group] = mean, Div(1, Sqrt(Add(variance, a.Eps)))
}

// weightOf is rstd·w of a channel.
func (g *groups) weightOf(c int) float32 {
	r := g.rstd[c/g.per]
	if g.weight != nil {
		r = Mul(r, g.weight[c])
	}
	return r
}

// before is the value before the activation.
func (g *groups) before(c int, x float32) float32 {
	b := float32(0)
	if g.bias != nil {
		b = g.bias[c]
	}
	return FMA(Sub(x, g.mean[c/g.per]), g.weightOf(c), b)
}

// GroupNorm normalises every sample.
func (Backend) GroupNorm(a *kernels.GroupNorm) { GroupNorm(a, 0, a.N) }

// GroupNormBackward is the gradients of samples lo to hi-1, which must be called in
// order. With n = (x - mean)·rstd and d = DY·act'(before), sums over pixels as above:
//
//	s1[c] = sum of d;  s2[c] = sum of d·n (fused);  DBias += s1, DWeight += s2, rounded to fp32
//	m1 = sum over the group of w[c]·s1[c] / count, m2 the same of s2 (float64, then fp32)
//	DX = fma(-n, m2, d·w - m1)·rstd
func GroupNormBackward(a *kernels.GroupNormBackward, lo, hi int) {
	g := newGroups(&a.GroupNorm)
	x, dy := make([]float32, a.C), make([]float32, a.C)
	for s := lo; s < hi; s++ {
		copy(g.mean, a.Mean.F32()[s*a.Groups:])
		copy(g.rstd, a.Rstd.F32()[s*a.Groups:])
		d := func(c int) float32 {
			if a.Act == kernels.Identity {
				return dy[c]
			}
			return Mul(dy[c], ActivateGrad(a.Act, g.before(c, x[c])))
		}
		n := func(c int) float32 { return Mul(Sub(x[c], g.mean[c/g.per]), g.rstd[c/g.per]) }
		s1, s2 := make([]float64, a.C), make([]float64, a.C)
		b1, b2 := make([]float32, a.C), make([]float32, a.C)
		for p := range a.HW {
			Load(x, a.X, (s*a.HW+p)*a.C)
			Load(dy, a.DY, (s*a.HW+p)*a.C)
			for c := range x {
				dc := d(c)
				b1[c] = Add(b1[c], dc)
				b2[c] = FMA(dc, n(c), b2[c])
			}
			if p%PixelBlock == PixelBlock-1 || p == a.HW-1 {
				for c := range x {
					s1[c] += float64(b1[c])
					s2[c] += float64(b2[c])
				}
				clear(b1)
				clear(b2)
			}
		}
		for c := range x {
			b1[c], b2[c] = Flush(float32(s1[c])), Flush(float32(s2[c]))
		}
		addTo(a.DBias, b1)
		addTo(a.DWeight, b2)
		if a.DX.Empty() {
			continue
		}
		weight := func(c int) float32 {
			if g.weight == nil {
				return 1
			}
			return g.weight[c]
		}
		m1, m2 := make([]float32, a.Groups), make([]float32, a.Groups)
		for group := range a.Groups {
			t1, t2 := 0.0, 0.0
			for c := group * g.per; c < (group+1)*g.per; c++ {
				t1 += float64(float64(weight(c)) * s1[c])
				t2 += float64(float64(weight(c)) * s2[c])
			}
			count := float64(a.HW * g.per)
			m1[group], m2[group] = Flush(float32(t1/count)), Flush(float32(t2/count))
		}
		for p := range a.HW {
			Load(x, a.X, (s*a.HW+p)*a.C)
			Load(dy, a.DY, (s*a.HW+p)*a.C)
			for c := range x {
				group := c / g.per
				x[c] = Mul(FMA(-n(c), m2[group], Sub(Mul(d(c), weight(c)), m1[group])), g.rstd[group])
			}
			Store(a.DX, (s*a.HW+p)*a.C, x)
		}
	}
}

// GroupNormBackward computes every gradient.
func (Backend) GroupNormBackward(a *kernels.GroupNormBackward) { GroupNormBackward(a, 0, a.N) }
