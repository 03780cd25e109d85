package onnx

import (
	"math"
)

// Card: tensors from shapes and limits, and their parts by place.

func generators() []operator {
	return []operator{
		{name: "Constant", least: 0, most: 0, run: constant},
		{name: "ConstantOfShape", since: 9, least: 1, most: 1, run: constantOfShape},
		{name: "Range", since: 11, least: 3, most: 3, run: rangeOf},
		{name: "EyeLike", since: 9, least: 1, most: 1, run: eyeLike},
		{name: "OneHot", since: 9, least: 3, most: 3, run: oneHot},
		{name: "Trilu", since: 14, least: 1, most: 2, run: trilu},
	}
}

func constant(c *call) {
	var out *Tensor
	switch {
	case c.constant("value") != nil:
		out = c.same(c.constant("value"))
	case c.attribute("value_float") != nil:
		out = c.new(Float)
		out.F[0] = c.attrs["value_float"].Float
	case c.attribute("value_int") != nil:
		out = c.whole(c.attrs["value_int"].Int)
	case c.attribute("value_floats") != nil:
		list := c.attrs["value_floats"].Floats
		out = c.new(Float, len(list))
		copy(out.F, list)
	case c.attribute("value_ints") != nil:
		list := c.attrs["value_ints"].Ints
		out = c.new(Int64, len(list))
		copy(out.I, list)
	case c.attribute("value_string") != nil:
		out = c.new(String)
		out.S[0] = string(c.attrs["value_string"].Text)
	case c.attribute("value_strings") != nil:
		list := c.attrs["value_strings"].Strings
		out = c.new(String, len(list))
		for i, s := range list {
			out.S[i] = string(s)
		}
	default:
		c.fail("there is no value that the runner has; sparse ones are not supported")
	}
	c.put(out)
}

func constantOfShape(c *call) {
	shape := c.list(0)
	for _, d := range shape {
		if d < 0 || d > math.MaxInt32 {
			c.fail("shape %v", shape)
		}
	}
	v := c.constant("value")
	if v == nil {
		v = &Tensor{Type: Float, Shape: []int{1}, F: []float32{0}}
	}
	if v.Len() != 1 {
		c.fail("a value %v; one element is needed", v)
	}
	n, err := checkedVolume(shape)
	c.check(err)
	c.spend(n)
	out := c.new(v.Type, shape...)
	for i := range n {
		out.copyElement(i, v, 0)
	}
	c.put(out)
}

func rangeOf(c *call) {
	start, limit, step := c.at(0), c.at(1), c.at(2)
	for i := range 3 {
		c.scalar(i, 0)
	}
	if start.Type != limit.Type || start.Type != step.Type {
		c.fail("inputs are %v, %v and %v", start, limit, step)
	}
	d := step.float(0)
	count := math.Ceil((limit.float(0) - start.float(0)) / d)
	if d == 0 || count != count || count > 1<<31 {
		c.fail("from %v to %v by %v", start.float(0), limit.float(0), d)
	}
	n := int(math.Max(count, 0))
	c.spend(n)
	out := c.new(start.Type, n)
	for i := range n {
		if out.I != nil {
			out.I[i] = start.Type.wrap(start.I[0] + int64(i)*step.I[0])
			continue
		}
		out.set(i, start.float(0)+float64(float64(i)*d))
	}
	c.put(out)
}

func eyeLike(c *call) {
	x := c.at(0)
	c.rank(x, 2, 2)
	t, k := Type(c.int("dtype", int(x.Type))), c.int("k", 0)
	if t.size() == 0 || t == String {
		c.fail("dtype is %v", t)
	}
	out := c.new(t, x.Shape...)
	for i := range out.Len() {
		v := 0.0
		if i%x.Shape[1]-i/x.Shape[1] == k {
			v = 1
		}
		out.set(i, v)
	}
	c.put(out)
}

func oneHot(c *call) {
	x, values := c.plain(0), c.plain(2)
	depth := int(c.scalar(1, 0))
	a := c.axis(c.int("axis", -1), len(x.Shape)+1)
	if values.Len() != 2 || depth < 1 || depth > 1<<28 || x.Type == String || x.Type == Bool {
		c.fail("indices %v, a depth of %d and values %v", x, depth, values)
	}
	shape := append(append(append([]int{}, x.Shape[:a]...), depth), x.Shape[a:]...)
	out := c.new(values.Type, shape...)
	inner := volume(x.Shape[a:])
	c.spend(out.Len())
	for i := range out.Len() {
		outer, d, at := i/inner/depth, i/inner%depth, i%inner
		want := int(x.float(outer*inner + at))
		if want < 0 {
			want += depth
		}
		if v := 0; want == d {
			out.copyElement(i, values, 1)
		} else {
			out.copyElement(i, values, v)
		}
	}
	c.put(out)
}

func trilu(c *call) {
	x, k := c.plain(0), int(c.scalar(1, 0))
	c.rank(x, 2, 64)
	upper := c.flag("upper", true)
	out := c.new(x.Type, x.Shape...)
	rows, cols := x.Shape[len(x.Shape)-2], x.Shape[len(x.Shape)-1]
	for i := range out.Len() {
		if d := i%cols - i/cols%rows; upper && d >= k || !upper && d <= k {
			out.copyElement(i, x, i)
		} else {
			out.set(i, 0)
		}
	}
	c.put(out)
}
