package onnx

import (
	"slices"
)

// Card: gathering and scattering. Indices count from the end where they are negative; those beyond an axis are
// refused. Scattered elements are taken one after another, so that the last of a place stays; with a reduction they
// are combined in that order.

func gathers() []operator {
	return []operator{
		{name: "Gather", least: 2, most: 2, run: gather},
		{name: "GatherElements", since: 11, least: 2, most: 2, run: gatherElements},
		{name: "GatherND", since: 11, least: 2, most: 2, run: gatherND},
		{name: "Scatter", least: 3, most: 3, run: scatterElements},
		{name: "ScatterElements", since: 11, least: 3, most: 3, run: scatterElements},
		{name: "ScatterND", since: 11, least: 3, most: 3, run: scatterND},
	}
}

// index is an index of an axis.
func (c *call) index(i int64, n int) int {
	if i < int64(-n) || i >= int64(n) {
		c.fail("index %d of an axis of %d", i, n)
	}
	if i < 0 {
		i += int64(n)
	}
	return int(i)
}

func (c *call) indices(i int) *Tensor {
	t := c.plain(i)
	c.need(t, Int32, Int64)
	return t
}

// copyRun copies n elements.
func (t *Tensor) copyRun(to int, from *Tensor, at, n int) {
	switch {
	case t.F != nil:
		copy(t.F[to:to+n], from.F[at:at+n])
	case t.D != nil:
		copy(t.D[to:to+n], from.D[at:at+n])
	case t.S != nil:
		copy(t.S[to:to+n], from.S[at:at+n])
	default:
		copy(t.I[to:to+n], from.I[at:at+n])
	}
}

func gather(c *call) {
	x, at := c.plain(0), c.indices(1)
	a := c.axis(c.int("axis", 0), len(x.Shape))
	out := c.new(x.Type, slices.Concat(x.Shape[:a], at.Shape, x.Shape[a+1:])...)
	outer, inner, n := volume(x.Shape[:a]), volume(x.Shape[a+1:]), x.Shape[a]
	places := make([]int, len(at.I))
	for k, i := range at.I {
		places[k] = c.index(i, n)
	}
	c.spend(out.Len())
	for o := range outer {
		for k, p := range places {
			out.copyRun((o*len(places)+k)*inner, x, (o*n+p)*inner, inner)
		}
	}
	c.put(out)
}

func gatherElements(c *call) {
	x, at := c.plain(0), c.indices(1)
	a := c.axis(c.int("axis", 0), len(x.Shape))
	c.inside(x, at, a)
	out := c.new(x.Type, at.Shape...)
	own, place := strides(x.Shape), make([]int, len(x.Shape))
	c.spend(out.Len())
	for k, i := range at.I {
		unravel(place, k, at.Shape)
		place[a] = c.index(i, x.Shape[a])
		out.copyElement(k, x, dot(place, own))
	}
	c.put(out)
}

// inside refuses indices whose shape is larger than the tensor's but for one axis.
func (c *call) inside(x, at *Tensor, axis int) {
	fits := len(x.Shape) == len(at.Shape)
	for d := 0; fits && d < len(x.Shape); d++ {
		fits = d == axis || at.Shape[d] <= x.Shape[d]
	}
	if !fits {
		c.fail("indices %v of %v along axis %d", at, x, axis)
	}
}

func dot(a, b []int) int {
	s := 0
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

func gatherND(c *call) {
	x, at, batch := c.plain(0), c.indices(1), c.int("batch_dims", 0)
	r := len(at.Shape)
	if r == 0 || batch < 0 || batch >= r || batch > len(x.Shape) || batch+at.Shape[r-1] > len(x.Shape) || !slices.Equal(x.Shape[:batch], at.Shape[:batch]) {
		c.fail("indices %v of %v, %d axes in common", at, x, batch)
	}
	depth := at.Shape[r-1]
	rest := x.Shape[batch+depth:]
	out := c.new(x.Type, slices.Concat(at.Shape[:r-1], rest)...)
	inner, count := volume(rest), volume(at.Shape[:r-1])
	per := count / max(volume(at.Shape[:batch]), 1)
	own := strides(x.Shape)
	c.spend(out.Len())
	for k := range count {
		base := 0
		if batch > 0 {
			base = k / max(per, 1) * own[batch-1]
		}
		for d := range depth {
			base += c.index(at.I[k*depth+d], x.Shape[batch+d]) * own[batch+d]
		}
		out.copyRun(k*inner, x, base, inner)
	}
	c.put(out)
}

// combine reduces an element and one that comes to its place.
func (t *Tensor) combine(i int, how string, from *Tensor, j int) {
	if how == "none" {
		t.copyElement(i, from, j)
		return
	}
	if t.I != nil {
		v, w := t.I[i], from.I[j]
		switch how {
		case "add":
			v += w
		case "mul":
			v *= w
		case "max":
			if less(t.Type, v, w) {
				v = w
			}
		case "min":
			if less(t.Type, w, v) {
				v = w
			}
		}
		t.I[i] = t.Type.wrap(v)
		return
	}
	v, w := t.float(i), from.float(j)
	switch how {
	case "add":
		v += w
	case "mul":
		v *= w
	case "max":
		v = max(v, w)
	case "min":
		v = min(v, w)
	}
	t.set(i, v)
}

// scattered is a copy of the first input, and the other two.
func (c *call) scattered() (out, at, updates *Tensor, how string) {
	x := c.plain(0)
	at, updates = c.indices(1), c.plain(2)
	if updates.Type != x.Type {
		c.fail("inputs are %v and %v; two of one type are needed", x, updates)
	}
	how = c.oneOf("reduction", "none", "none", "add", "mul", "max", "min")
	if x.Type == String && how != "none" {
		c.fail("reduction %q of texts", how)
	}
	out = c.new(x.Type, x.Shape...)
	out.copyRun(0, x, 0, x.Len())
	c.put(out)
	return out, at, updates, how
}

func scatterElements(c *call) {
	out, at, updates, how := c.scattered()
	a := c.axis(c.int("axis", 0), len(out.Shape))
	c.inside(out, at, a)
	if !slices.Equal(at.Shape, updates.Shape) {
		c.fail("indices %v and updates %v", at, updates)
	}
	own, place := strides(out.Shape), make([]int, len(out.Shape))
	c.spend(at.Len())
	for k, i := range at.I {
		unravel(place, k, at.Shape)
		place[a] = c.index(i, out.Shape[a])
		out.combine(dot(place, own), how, updates, k)
	}
}

func scatterND(c *call) {
	out, at, updates, how := c.scattered()
	r := len(at.Shape)
	if r == 0 || at.Shape[r-1] > len(out.Shape) {
		c.fail("indices %v of %v", at, out)
	}
	depth := at.Shape[r-1]
	rest := out.Shape[depth:]
	if !slices.Equal(updates.Shape, slices.Concat(at.Shape[:r-1], rest)) {
		c.fail("indices %v and updates %v of %v", at, updates, out)
	}
	inner, own := volume(rest), strides(out.Shape)
	c.spend(updates.Len())
	for k := range volume(at.Shape[:r-1]) {
		base := 0
		for d := range depth {
			base += c.index(at.I[k*depth+d], out.Shape[d]) * own[d]
		}
		for i := range inner {
			out.combine(base+i, how, updates, k*inner+i)
		}
	}
}
