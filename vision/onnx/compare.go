package onnx

import "math"

// Card: comparisons and logic, broadcast by numpy's rule. Int64 and uint64 are compared as integers, not as floats.

func comparisons() []operator {
	return []operator{
		{name: "Equal", least: 2, most: 2, run: compare(func(o int) bool { return o == 0 })},
		{name: "Greater", least: 2, most: 2, run: compare(func(o int) bool { return o == 1 })},
		{name: "GreaterOrEqual", since: 12, least: 2, most: 2, run: compare(func(o int) bool { return o == 0 || o == 1 })},
		{name: "Less", least: 2, most: 2, run: compare(func(o int) bool { return o == -1 })},
		{name: "LessOrEqual", since: 12, least: 2, most: 2, run: compare(func(o int) bool { return o == 0 || o == -1 })},
		{name: "And", least: 2, most: 2, run: logic(func(x, y int64) int64 { return x & y })},
		{name: "Or", least: 2, most: 2, run: logic(func(x, y int64) int64 { return x | y })},
		{name: "Xor", least: 2, most: 2, run: logic(func(x, y int64) int64 { return x ^ y })},
		{name: "Not", least: 1, most: 1, run: not},
		{name: "BitwiseNot", since: 18, least: 1, most: 1, run: not},
		{name: "IsNaN", since: 9, least: 1, most: 1, run: test(func(*call) func(v float64) bool { return math.IsNaN })},
		{name: "IsInf", since: 10, least: 1, most: 1, run: test(func(c *call) func(v float64) bool {
			up, down := c.flag("detect_positive", true), c.flag("detect_negative", true)
			return func(v float64) bool { return up && math.IsInf(v, 1) || down && math.IsInf(v, -1) }
		})},
		{name: "Where", since: 9, least: 3, most: 3, run: where},
	}
}

// compare tests the order of two numbers: -1, 0, 1, or 2 beside a NaN.
func compare(is func(order int) bool) func(c *call) {
	return func(c *call) {
		x, y := c.plain(0), c.plain(1)
		if x.Type != y.Type {
			c.fail("inputs are %v and %v; two of one type are needed", x, y)
		}
		shape := c.broadcast(x.Shape, y.Shape)
		out := c.new(Bool, shape...)
		c.places(shape, x.Shape, y.Shape, func(o, i, j int) {
			order := 2
			switch {
			case x.S != nil:
				switch a, b := x.S[i], y.S[j]; {
				case a == b:
					order = 0
				case a < b:
					order = -1
				default:
					order = 1
				}
			case x.I != nil:
				switch a, b := x.I[i], y.I[j]; {
				case a == b:
					order = 0
				case less(x.Type, a, b):
					order = -1
				default:
					order = 1
				}
			default:
				switch a, b := x.float(i), y.float(j); {
				case a == b:
					order = 0
				case a < b:
					order = -1
				case a > b:
					order = 1
				}
			}
			out.I[o] = 0
			if is(order) {
				out.I[o] = 1
			}
		})
		c.put(out)
	}
}

func logic(f func(x, y int64) int64) func(c *call) {
	return func(c *call) {
		x, y := c.plain(0), c.plain(1)
		c.need(x, Bool)
		c.need(y, Bool)
		shape := c.broadcast(x.Shape, y.Shape)
		out := c.new(Bool, shape...)
		paired(c, out.I, shape, x.I, y.I, x.Shape, y.Shape, f)
		c.put(out)
	}
}

// not is of bool a negation, of integers (BitwiseNot) of all bits.
func not(c *call) {
	x := c.plain(0)
	if x.Type != Bool && (c.node.op == "Not" || !x.Type.isInt()) {
		c.fail("its input is %v", x)
	}
	out := c.new(x.Type, x.Shape...)
	for i, v := range x.I {
		out.I[i] = x.Type.wrap(^v)
	}
	c.put(out)
}

func test(of func(c *call) func(v float64) bool) func(c *call) {
	return func(c *call) {
		x, is := c.floats(c.plain(0)), of(c)
		out := c.new(Bool, x.Shape...)
		for i := range out.I {
			out.I[i] = 0
			if is(x.float(i)) {
				out.I[i] = 1
			}
		}
		c.put(out)
	}
}

func where(c *call) {
	is, x, y := c.plain(0), c.plain(1), c.plain(2)
	c.need(is, Bool)
	if x.Type != y.Type {
		c.fail("inputs are %v and %v; two of one type are needed", x, y)
	}
	shape := c.broadcast(is.Shape, x.Shape, y.Shape)
	mask := c.expand(is, shape)
	out := c.new(x.Type, shape...)
	c.places(shape, x.Shape, y.Shape, func(o, i, j int) {
		from, at := x, i
		if mask.I[o] == 0 {
			from, at = y, j
		}
		out.copyElement(o, from, at)
	})
	c.drop(mask)
	c.put(out)
}

// copyElement is one element of another tensor of the same type.
func (t *Tensor) copyElement(i int, from *Tensor, j int) {
	switch {
	case t.F != nil:
		t.F[i] = from.F[j]
	case t.D != nil:
		t.D[i] = from.D[j]
	case t.S != nil:
		t.S[i] = from.S[j]
	default:
		t.I[i] = from.I[j]
	}
}
