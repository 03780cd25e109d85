package onnx

import (
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Card: products. Each number is one chain of fp32 fused multiply-adds over rising k; of float16 and bfloat16 rounded
// once at the end, of double a chain of float64 products and sums, of integers exact to the type's bits. Einsum sums
// over letters that the result has not, as one product where it can.

func products() []operator {
	return []operator{
		{name: "MatMul", least: 2, most: 2, run: matMul},
		{name: "Gemm", least: 2, most: 3, run: gemm},
		{name: "Einsum", since: 12, least: 1, most: 8, run: einsum},
		{name: "Det", since: 11, least: 1, most: 1, run: det},
	}
}

func matMul(c *call) { c.put(c.matmul(c.plain(0), c.plain(1), c.isConstant(c.at(1)))) }

// matmul is numpy's product: of matrices at the end, the other axes broadcast.
func (c *call) matmul(a, b *Tensor, constant bool) *Tensor {
	if a.Type != b.Type || a.Type == String || a.Type == Bool || len(a.Shape) == 0 || len(b.Shape) == 0 {
		c.fail("inputs are %v and %v; two of one type of numbers, of one axis at least, are needed", a, b)
	}
	as, bs := a.Shape, b.Shape
	if len(as) == 1 {
		as = []int{1, as[0]}
	}
	if len(bs) == 1 {
		bs = []int{bs[0], 1}
	}
	m, k, n := as[len(as)-2], as[len(as)-1], bs[len(bs)-1]
	if bs[len(bs)-2] != k {
		c.fail("inputs are %v and %v: %d columns and %d rows", a, b, k, bs[len(bs)-2])
	}
	batch := c.broadcast(as[:len(as)-2], bs[:len(bs)-2])
	shape := slices.Concat(batch, []int{m, n})
	out := c.new(a.Type, shape...)
	c.spend(volume(batch), m, n, k)
	sa, sb := spread(as[:len(as)-2], batch), spread(bs[:len(bs)-2], batch)
	count := volume(batch)
	shared := volume(bs[:len(bs)-2]) == 1
	if shared && len(out.F) > 0 && k > 0 { // one product of all rows
		rows := count * m
		if volume(as[:len(as)-2]) != count {
			a = c.expand(a, slices.Concat(batch, []int{m, k}))
			defer c.drop(a)
		}
		g := &kernels.Gemm{Layout: kernels.NN, A: mat(a.F, rows, k), B: mat(b.F, k, n), C: mat(out.F, rows, n)}
		if constant {
			kept := c.model.packed[b]
			if kept == nil {
				t := make([]float32, n*k)
				c.transpose2(t, b.F, k, n)
				kept = &weights{packed: c.backend().Pack(mat(t, n, k), kernels.MathF32)}
				c.model.packed[b] = kept
			}
			g.Layout, g.B, g.W = kernels.NT, kernels.Mat{}, kept.packed
		}
		c.backend().Gemm(g)
	} else {
		index := make([]int, len(batch))
		for i := range count {
			unravel(index, i, batch)
			pa, pb := 0, 0
			for d, v := range index {
				pa, pb = pa+v*sa[d], pb+v*sb[d]
			}
			c.product(out, a, b, i*m*n, pa*m*k, pb*k*n, m, k, n)
		}
	}
	out.roundAll()
	if len(a.Shape) == 1 {
		shape = slices.Delete(shape, len(shape)-2, len(shape)-1)
	}
	if len(b.Shape) == 1 {
		shape = shape[:len(shape)-1]
	}
	out.Shape = shape
	return out
}

// product is one product of matrices, at places of three tensors.
func (c *call) product(out, a, b *Tensor, o, pa, pb, m, k, n int) {
	if m*n == 0 {
		return
	}
	switch {
	case k == 0:
		for i := range m * n {
			out.set(o+i, 0)
		}
	case a.F != nil:
		c.backend().Gemm(&kernels.Gemm{Layout: kernels.NN, A: mat(a.F[pa:pa+m*k], m, k), B: mat(b.F[pb:pb+k*n], k, n), C: mat(out.F[o:o+m*n], m, n)})
	case a.D != nil:
		c.each(m, k*n, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				row := out.D[o+i*n : o+(i+1)*n]
				clear(row)
				for p := range k {
					v := a.D[pa+i*k+p]
					for j := range row {
						row[j] += float64(v * b.D[pb+p*n+j])
					}
				}
			}
		})
	default:
		c.each(m, k*n, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				row := out.I[o+i*n : o+(i+1)*n]
				clear(row)
				for p := range k {
					v := a.I[pa+i*k+p]
					for j := range row {
						row[j] += v * b.I[pb+p*n+j]
					}
				}
				for j, v := range row {
					row[j] = out.Type.wrap(v)
				}
			}
		})
	}
}

func gemm(c *call) {
	a, b := c.plain(0), c.plain(1)
	c.rank(a, 2, 2)
	c.rank(b, 2, 2)
	if c.flag("transA", false) {
		a = c.transpose(a, []int{1, 0})
		defer c.drop(a)
	}
	turned := c.flag("transB", false)
	alpha, beta := c.number("alpha", 1), c.number("beta", 1)
	bias := c.unlast(c.optional(2))
	n, k := b.Shape[1], b.Shape[0]
	if turned {
		n, k = k, n
	}
	if a.Shape[1] != k || a.Type != b.Type || bias != nil && bias.Type != a.Type {
		c.fail("inputs are %v and %v", a, b)
	}
	var out *Tensor
	if a.Type == Float && turned && a.Len() > 0 && b.Len() > 0 {
		c.spend(a.Shape[0], n, k)
		out = c.new(Float, a.Shape[0], n)
		g := &kernels.Gemm{Layout: kernels.NT, A: mat(a.F, a.Shape[0], k), B: mat(b.F, n, k), C: mat(out.F, a.Shape[0], n)}
		if c.isConstant(b) {
			kept := c.model.packed[b]
			if kept == nil {
				kept = &weights{packed: c.backend().Pack(g.B, kernels.MathF32)}
				c.model.packed[b] = kept
			}
			g.B, g.W = kernels.Mat{}, kept.packed
		}
		c.backend().Gemm(g)
	} else {
		if turned {
			b = c.transpose(b, []int{1, 0})
			defer c.drop(b)
		}
		out = c.matmul(a, b, false)
	}
	if alpha != 1 || bias != nil {
		if bias != nil && !slices.Equal(c.broadcast(out.Shape, bias.Shape), out.Shape) {
			c.fail("a third input %v over %v", bias, out)
		}
		var steps []int
		if bias != nil {
			steps = spread(bias.Shape, out.Shape)
		}
		for i := range out.Len() {
			if out.I != nil {
				v := int64(alpha) * out.I[i]
				if bias != nil {
					v += int64(beta) * bias.I[i/n*steps[0]+i%n*steps[1]]
				}
				out.I[i] = out.Type.wrap(v)
				continue
			}
			v := float64(alpha * out.float(i))
			if bias != nil {
				v += float64(beta * bias.float(i/n*steps[0]+i%n*steps[1]))
			}
			out.set(i, v)
		}
	}
	c.put(out)
}

// einsum follows an equation: "bij,bjk->bik".
func einsum(c *call) {
	equation := strings.ReplaceAll(c.text("equation", ""), " ", "")
	left, result, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(c.in) || equation == "" {
		c.fail("equation %q of %d inputs", equation, len(c.in))
	}
	// Dots are upper letters beyond those that equations have: axis i of them is rune(dots + i).
	const dots = 0x2000
	most := 0
	for i, t := range terms {
		if strings.Contains(t, "...") {
			most = max(most, len(c.at(i).Shape)-(len([]rune(t))-3))
		}
	}
	spell := func(term string, rank int) []rune {
		head, tail, ok := strings.Cut(term, "...")
		out := []rune(head)
		if ok {
			n := most
			if rank >= 0 {
				n = rank - len([]rune(head)) - len([]rune(tail))
			}
			for i := range max(n, 0) {
				out = append(out, rune(dots+most-n+i))
			}
			out = append(out, []rune(tail)...)
		}
		return out
	}
	lengths, letters, count := map[rune]int{}, [][]rune{}, map[rune]int{}
	for i, t := range terms {
		x := c.plain(i)
		if x.Type != c.in[0].Type || x.Type == String || x.Type == Bool {
			c.fail("inputs are %v and %v; numbers of one type are needed", c.in[0], x)
		}
		s := spell(t, len(x.Shape))
		if len(s) != len(x.Shape) {
			c.fail("term %q of an input %v", t, x)
		}
		for d, l := range s {
			if n, ok := lengths[l]; ok && n != x.Shape[d] && n != 1 && x.Shape[d] != 1 {
				c.fail("equation %q: letter %q is %d and %d long", equation, l, n, x.Shape[d])
			}
			lengths[l] = max(lengths[l], x.Shape[d])
			if x.Shape[d] == 0 {
				lengths[l] = 0
			}
			count[l]++
		}
		letters = append(letters, s)
	}
	out := spell(result, -1)
	if !explicit {
		out = nil
		for l, n := range count {
			if n == 1 || l >= dots {
				out = append(out, l)
			}
		}
		slices.SortFunc(out, func(a, b rune) int {
			if (a >= dots) != (b >= dots) {
				return int(b) - int(a) // the dots come first
			}
			return int(a) - int(b)
		})
	}
	inner := []rune{}
	for _, s := range letters {
		for _, l := range s {
			if !slices.Contains(out, l) && !slices.Contains(inner, l) {
				inner = append(inner, l)
			}
		}
	}
	for i, l := range out {
		if _, ok := lengths[l]; !ok || slices.Contains(out[:i], l) {
			c.fail("equation %q: the result's letter %q", equation, l)
		}
	}
	c.contract(letters, out, inner, lengths)
}

// contract sums the product of all inputs over the inner letters.
func (c *call) contract(letters [][]rune, out, inner []rune, lengths map[rune]int) {
	shape := make([]int, len(out))
	all := slices.Concat(out, inner)
	for i, l := range out {
		shape[i] = lengths[l]
	}
	over := make([]int, len(inner))
	for i, l := range inner {
		over[i] = lengths[l]
	}
	if len(letters) == 2 && c.in[0].Type == Float && c.contractProduct(letters, out, inner, lengths) {
		return
	}
	steps := make([][]int, len(letters))
	for i, s := range letters {
		own := strides(c.in[i].Shape)
		steps[i] = make([]int, len(all))
		for d, l := range s {
			if c.in[i].Shape[d] != 1 {
				steps[i][slices.Index(all, l)] += own[d]
			}
		}
	}
	t := c.new(c.in[0].Type, shape...)
	n := volume(over)
	c.spend(t.Len(), n, len(letters))
	c.each(t.Len(), 8*n*len(letters), func(lo, hi int) {
		index, place := make([]int, len(out)), make([]int, len(inner))
		for o := lo; o < hi; o++ {
			unravel(index, o, shape)
			sum, whole := 0.0, int64(0)
			for k := range n {
				unravel(place, k, over)
				v, w := 1.0, int64(1)
				for i := range letters {
					at := 0
					for d, x := range index {
						at += x * steps[i][d]
					}
					for d, x := range place {
						at += x * steps[i][len(out)+d]
					}
					if c.in[i].I != nil {
						w *= c.in[i].I[at]
					} else {
						v = float64(v * c.in[i].float(at))
					}
				}
				sum, whole = sum+v, whole+w
			}
			if t.I != nil {
				t.I[o] = t.Type.wrap(whole)
			} else {
				t.set(o, sum)
			}
		}
	})
	c.put(t)
}

// contractProduct is a contraction of two float tensors as a product of matrices, where every letter is used once a
// term.
func (c *call) contractProduct(letters [][]rune, out, inner []rune, lengths map[rune]int) bool {
	a, b := letters[0], letters[1]
	var batch, left, right []rune
	for i, s := range letters {
		for k, l := range s {
			if slices.Contains(s[:k], l) || c.in[i].Shape[k] != lengths[l] {
				return false
			}
		}
	}
	for _, l := range out {
		switch ina, inb := slices.Contains(a, l), slices.Contains(b, l); {
		case ina && inb:
			batch = append(batch, l)
		case ina:
			left = append(left, l)
		default:
			right = append(right, l)
		}
	}
	for _, l := range inner {
		if !slices.Contains(a, l) || !slices.Contains(b, l) {
			return false
		}
	}
	arrange := func(x *Tensor, have []rune, want ...[]rune) *Tensor {
		var perm, shape []int
		for _, group := range want {
			n := 1
			for _, l := range group {
				perm = append(perm, slices.Index(have, l))
				n *= lengths[l]
			}
			shape = append(shape, n)
		}
		t := c.transpose(x, perm)
		defer c.drop(t)
		return c.view(t, shape...)
	}
	x, y := arrange(c.in[0], a, batch, left, inner), arrange(c.in[1], b, batch, inner, right)
	product := c.matmul(x, y, false)
	c.drop(x)
	c.drop(y)
	made := slices.Concat(batch, left, right)
	shape, perm := make([]int, len(made)), make([]int, len(out))
	for i, l := range made {
		shape[i] = lengths[l]
	}
	for i, l := range out {
		perm[i] = slices.Index(made, l)
	}
	v := c.view(product, shape...)
	c.drop(product)
	c.put(c.transpose(v, perm))
	c.drop(v)
	return true
}

// det is the determinant of matrices, by elimination with the largest pivots, in float64.
func det(c *call) {
	x := c.floats(c.plain(0))
	r := len(x.Shape)
	if r < 2 || x.Shape[r-1] != x.Shape[r-2] {
		c.fail("its input is %v; square matrices are needed", x)
	}
	n := x.Shape[r-1]
	out := c.new(x.Type, x.Shape[:r-2]...)
	c.spend(out.Len(), n, n, n)
	for k := range out.Len() {
		m := make([]float64, n*n)
		for i := range m {
			m[i] = x.float(k*n*n + i)
		}
		out.set(k, determinant(m, n))
	}
	c.put(out)
}

func determinant(m []float64, n int) float64 {
	d := 1.0
	for i := range n {
		best := i
		for r := i + 1; r < n; r++ {
			if v, w := m[r*n+i], m[best*n+i]; v*v > w*w {
				best = r
			}
		}
		if best != i {
			d = -d
			for k := range n {
				m[i*n+k], m[best*n+k] = m[best*n+k], m[i*n+k]
			}
		}
		p := m[i*n+i]
		if d = float64(d * p); p == 0 {
			return 0
		}
		for r := i + 1; r < n; r++ {
			f := m[r*n+i] / p
			for k := i; k < n; k++ {
				m[r*n+k] -= float64(f * m[i*n+k])
			}
		}
	}
	return d
}
