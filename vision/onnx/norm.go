package onnx

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/portable"
)

// Card: normalisation. Statistics are float64: the mean over rising indices, then the mean of squared distances. A
// BatchNormalization multiplies by scale / sqrt(var + eps) and adds bias - mean · that, both rounded to float once.

func norms() []operator {
	return []operator{
		{name: "BatchNormalization", least: 5, most: 5, run: batchNorm},
		{name: "InstanceNormalization", least: 3, most: 3, run: instanceNorm},
		{name: "GroupNormalization", since: 18, least: 3, most: 3, run: groupNorm},
		{name: "LayerNormalization", since: 17, least: 2, most: 3, run: layerNorm},
		{name: "RMSNormalization", since: 23, least: 2, most: 2, run: rmsNorm},
		{name: "LpNormalization", least: 1, most: 1, run: lpNorm},
		{name: "MeanVarianceNormalization", since: 9, least: 1, most: 1, run: meanVariance},
		{name: "LRN", least: 1, most: 1, run: lrn},
	}
}

// scaleShift are the factor and the term of a BatchNormalization.
func scaleShift(scale, bias, mean, variance *Tensor, eps float64) (a, b []float32) {
	for i := range scale.Len() {
		f := scale.float(i) / math.Sqrt(variance.float(i)+eps)
		a = append(a, float32(f))
		b = append(b, float32(bias.float(i)-float64(mean.float(i)*f)))
	}
	return a, b
}

func batchNorm(c *call) {
	x := c.floats(c.at(0))
	c.rank(x, 2, 16)
	ch := x.Shape[1]
	for i := 1; i < 5; i++ {
		if t := c.floats(c.plain(i)); t.Len() != ch {
			c.fail("input %d is %v; %d channels need one number each", i, t, ch)
		}
	}
	if c.flag("training_mode", false) || c.wants(1) {
		c.fail("training_mode 1: the runner has inference alone")
	}
	a, b := scaleShift(c.in[1], c.in[2], c.in[3], c.in[4], c.number("epsilon", f32(1e-5)))
	out := c.like(x, x.Type)
	size := volume(x.Shape[2:])
	c.spend(x.Len())
	if x.last && x.Type == Float {
		c.each(x.Shape[0]*size, ch, func(lo, hi int) {
			for r := lo; r < hi; r++ {
				from, to := x.F[r*ch:(r+1)*ch], out.F[r*ch:(r+1)*ch]
				for i, v := range from {
					to[i] = float32(v*a[i]) + b[i]
				}
			}
		})
		c.put(out)
		return
	}
	c.unlast(x)
	out.last = false
	c.each(x.Shape[0]*ch, size, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			f, g := a[r%ch], b[r%ch]
			if x.Type == Float {
				for i := r * size; i < (r+1)*size; i++ {
					out.F[i] = float32(x.F[i]*f) + g
				}
				continue
			}
			for i := r * size; i < (r+1)*size; i++ {
				out.set(i, float64(x.float(i)*float64(f))+float64(g))
			}
		}
	})
	c.put(out)
}

// moments are a row's mean and variance.
func moments(x *Tensor, at, n int) (mean, variance float64) {
	for i := range n {
		mean += x.float(at + i)
	}
	mean /= float64(n)
	for i := range n {
		d := x.float(at+i) - mean
		variance += float64(d * d)
	}
	return mean, variance / float64(n)
}

// normalised writes rows of n numbers, each with its own mean and variance; after has the factor and the term of a
// number.
func (c *call) normalised(x, out *Tensor, n int, eps float64, after func(i int) (factor, term float64)) (means, inverses []float64) {
	rows := x.Len() / max(n, 1)
	means, inverses = make([]float64, rows), make([]float64, rows)
	c.spend(x.Len(), 2)
	c.each(rows, 4*n, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			mean, variance := moments(x, r*n, n)
			inv := 1 / math.Sqrt(variance+eps)
			means[r], inverses[r] = mean, inv
			for i := r * n; i < (r+1)*n; i++ {
				f, t := after(i)
				out.set(i, float64(float64((x.float(i)-mean)*inv)*f)+t)
			}
		}
	})
	return means, inverses
}

func instanceNorm(c *call) {
	x, scale, bias := c.floats(c.plain(0)), c.floats(c.plain(1)), c.floats(c.plain(2))
	c.rank(x, 3, 16)
	ch, size := x.Shape[1], volume(x.Shape[2:])
	if scale.Len() != ch || bias.Len() != ch {
		c.fail("inputs are %v, %v and %v", x, scale, bias)
	}
	out := c.new(x.Type, x.Shape...)
	c.normalised(x, out, size, c.number("epsilon", f32(1e-5)), func(i int) (float64, float64) {
		k := i / size % ch
		return scale.float(k), bias.float(k)
	})
	c.put(out)
}

// groupNorm has a scale and a bias for each channel; for each group, before opset 21.
func groupNorm(c *call) {
	x, scale, bias := c.floats(c.plain(0)), c.floats(c.plain(1)), c.floats(c.plain(2))
	c.rank(x, 3, 16)
	ch, size, groups := x.Shape[1], volume(x.Shape[2:]), c.int("num_groups", 0)
	if groups < 1 || ch%groups != 0 {
		c.fail("num_groups is %d of %d channels", groups, ch)
	}
	per := ch / groups
	each := 1
	if c.opset < 21 {
		each = per
	}
	if scale.Len() != ch/each || bias.Len() != ch/each {
		c.fail("inputs are %v, %v and %v in %d groups", x, scale, bias, groups)
	}
	out := c.new(x.Type, x.Shape...)
	c.normalised(x, out, per*size, c.number("epsilon", f32(1e-5)), func(i int) (float64, float64) {
		k := i / size % ch / each
		return scale.float(k), bias.float(k)
	})
	c.put(out)
}

func layerNorm(c *call) {
	x, scale, bias := c.floats(c.plain(0)), c.floats(c.plain(1)), c.floats(c.unlast(c.optional(2)))
	a := c.axis(c.int("axis", -1), len(x.Shape))
	n := volume(x.Shape[a:])
	scale = c.expand(scale, c.broadcast(scale.Shape, x.Shape[a:]))
	if bias != nil {
		bias = c.expand(bias, c.broadcast(bias.Shape, x.Shape[a:]))
	}
	if scale.Len() != n || bias != nil && bias.Len() != n {
		c.fail("a scale %v over %v from axis %d on", scale, x, a)
	}
	eps := c.number("epsilon", f32(1e-5))
	out := c.new(x.Type, x.Shape...)
	rows := x.Len() / max(n, 1)
	if x.Type == Float && !c.wants(1) && !c.wants(2) && n > 0 && rows > 0 {
		norm := &kernels.Norm{Kind: kernels.LayerNorm, X: mat(x.F, rows, n), Y: mat(out.F, rows, n), Weight: span(scale.F), Eps: float32(eps)}
		if bias != nil {
			norm.Bias = span(bias.F)
		}
		c.spend(x.Len())
		c.backend().Norm(norm)
		c.put(out)
		return
	}
	means, inverses := c.normalised(x, out, n, eps, func(i int) (float64, float64) {
		b := 0.0
		if bias != nil {
			b = bias.float(i % n)
		}
		return scale.float(i % n), b
	})
	shape := append(slices.Clone(x.Shape[:a]), slices.Repeat([]int{1}, len(x.Shape)-a)...)
	for k, list := range [][]float64{means, inverses} {
		if c.wants(k + 1) {
			t := c.new(Float, shape...)
			for i, v := range list {
				t.set(i, v)
			}
			c.out[k+1] = t
		}
	}
	c.put(out)
}

func rmsNorm(c *call) {
	x, scale := c.floats(c.plain(0)), c.floats(c.plain(1))
	a := c.axis(c.int("axis", -1), len(x.Shape))
	n := volume(x.Shape[a:])
	scale = c.expand(scale, c.broadcast(scale.Shape, x.Shape[a:]))
	if scale.Len() != n {
		c.fail("a scale %v over %v from axis %d on", scale, x, a)
	}
	eps := c.number("epsilon", f32(1e-5))
	out := c.new(x.Type, x.Shape...)
	for r := range x.Len() / max(n, 1) {
		s := 0.0
		for i := r * n; i < (r+1)*n; i++ {
			s += float64(x.float(i) * x.float(i))
		}
		inv := 1 / math.Sqrt(s/float64(n)+eps)
		for i := r * n; i < (r+1)*n; i++ {
			out.set(i, float64(x.float(i)*inv)*scale.float(i%n))
		}
	}
	c.put(out)
}

// power64 and root64 are |v|^p and its inverse, exact for the usual p.
func power64(v, p float64) float64 {
	switch p {
	case 1:
		return v
	case 2:
		return v * v
	}
	return portable.Pow(v, p)
}

func root64(v, p float64) float64 {
	switch p {
	case 1:
		return v
	case 2:
		return math.Sqrt(v)
	}
	return portable.Pow(v, 1/p)
}

func lpNorm(c *call) {
	x := c.floats(c.plain(0))
	a, p := c.axis(c.int("axis", -1), len(x.Shape)), float64(c.int("p", 2))
	if p != 1 && p != 2 {
		c.fail("attribute p is %v; known are 1 and 2", p)
	}
	turned := c.moved(x, a, len(x.Shape)-1)
	out, n := c.new(x.Type, turned.Shape...), x.Shape[a]
	for r := range x.Len() / max(n, 1) {
		s := 0.0
		for i := r * n; i < (r+1)*n; i++ {
			s += power64(math.Abs(turned.float(i)), p)
		}
		s = root64(s, p)
		for i := r * n; i < (r+1)*n; i++ {
			v := 0.0
			if s != 0 {
				v = turned.float(i) / s
			}
			out.set(i, v)
		}
	}
	c.drop(turned)
	c.put(c.moved(out, len(x.Shape)-1, a))
	c.drop(out)
}

func meanVariance(c *call) {
	x := c.floats(c.plain(0))
	axes := c.ints("axes")
	if axes == nil {
		axes = []int{0, 2, 3}
	}
	axes = c.axes(axes, len(x.Shape))
	perm := []int{}
	for d := range x.Shape {
		if !slices.Contains(axes, d) {
			perm = append(perm, d)
		}
	}
	perm = append(perm, axes...)
	turned := c.transpose(x, perm)
	n := 1
	for _, a := range axes {
		n *= x.Shape[a]
	}
	out := c.new(x.Type, turned.Shape...)
	for r := range x.Len() / max(n, 1) {
		mean, variance := moments(turned, r*n, n)
		for i := r * n; i < (r+1)*n; i++ {
			out.set(i, (turned.float(i)-mean)/(math.Sqrt(variance)+1e-9))
		}
	}
	back := make([]int, len(perm))
	for i, p := range perm {
		back[p] = i
	}
	c.put(c.transpose(out, back))
}

func lrn(c *call) {
	x := c.floats(c.plain(0))
	c.rank(x, 3, 16)
	size, alpha, beta, bias := c.int("size", 0), c.number("alpha", f32(1e-4)), c.number("beta", 0.75), c.number("bias", 1)
	if size < 1 {
		c.fail("attribute size is %d", size)
	}
	out := c.new(x.Type, x.Shape...)
	ch, pixels := x.Shape[1], volume(x.Shape[2:])
	c.spend(x.Len(), min(size, ch))
	c.each(x.Shape[0]*ch, pixels*(size+8), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			k := r % ch
			for p := range pixels {
				s := 0.0
				for j := max(0, k-(size-1)/2); j <= min(ch-1, k+size/2); j++ {
					v := x.float((r-k+j)*pixels + p)
					s += float64(v * v)
				}
				i := r*pixels + p
				out.set(i, x.float(i)/portable.Pow(bias+float64(alpha/float64(size)*s), beta))
			}
		}
	})
	c.put(out)
}
