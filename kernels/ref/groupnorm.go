package ref

import "github.com/darkroom-rl/darkroom/kernels"

// GroupNorm over NHWC, for samples lo to hi-1, with the statistics of moments.go:
//
//	rstd = 1/sqrt(variance + eps);  Y = act(fma(x - mean, rstd·w, b))
//
// Without Weight w = 1, without Bias b = 0.
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

// PixelBlock is the number of pixels whose terms the gradient adds in fp32.
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

func (g *groups) statistics(n, group int) {
	first, blocks := g.moments(n, group)
	mean, variance := Statistics(first, blocks, g.a.HW*g.per)
	g.mean[group], g.rstd[group] = mean, Div(1, Sqrt(Add(variance, g.a.Eps)))
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
// order. With n = (x - mean)·rstd and d = DY·act'(before), sums over pixels, fp32 from +0
// within blocks of PixelBlock and float64 over blocks:
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
		m1, m2 := GroupTerms(g.weight, a.HW, s1, a.Groups), GroupTerms(g.weight, a.HW, s2, a.Groups)
		weight := func(c int) float32 {
			if g.weight == nil {
				return 1
			}
			return g.weight[c]
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

// GroupTerms are m1 or m2 of every group, from the sums of its channels over hw pixels.
// A weight of nil is 1.
func GroupTerms(weight []float32, hw int, sums []float64, groups int) []float32 {
	per := len(sums) / groups
	m := make([]float32, groups)
	for group := range m {
		t := 0.0
		for c := group * per; c < (group+1)*per; c++ {
			w := float32(1)
			if weight != nil {
				w = weight[c]
			}
			t += float64(float64(w) * sums[c])
		}
		m[group] = Flush(float32(t / float64(hw*per)))
	}
	return m
}

// GroupNormBackward computes every gradient.
func (Backend) GroupNormBackward(a *kernels.GroupNormBackward) { GroupNormBackward(a, 0, a.N) }
