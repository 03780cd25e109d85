package onnx

import (
	"slices"
)

// Card: shapes and the order of elements. Nothing is computed; a reshape is a view.

func shapes() []operator {
	return []operator{
		{name: "Reshape", least: 1, most: 2, run: reshape},
		{name: "Flatten", least: 1, most: 1, run: flatten},
		{name: "Squeeze", least: 1, most: 2, run: squeeze},
		{name: "Unsqueeze", least: 1, most: 2, run: unsqueeze},
		{name: "Identity", least: 1, most: 1, run: identity},
		{name: "Dropout", least: 1, most: 3, run: dropout},
		{name: "Transpose", least: 1, most: 1, run: turn},
		{name: "Shape", least: 1, most: 1, run: shapeOf},
		{name: "Size", least: 1, most: 1, run: func(c *call) { c.put(c.whole(int64(c.at(0).Len()))) }},
		{name: "Concat", least: 1, most: many, run: concat},
		{name: "Split", least: 1, most: 2, run: split},
		{name: "Slice", least: 1, most: 5, run: slice},
		{name: "Pad", least: 1, most: 4, run: pad},
		{name: "Tile", least: 2, most: 2, run: tiled},
		{name: "Expand", since: 8, least: 2, most: 2, run: expand},
		{name: "DepthToSpace", least: 1, most: 1, run: depthToSpace},
		{name: "SpaceToDepth", least: 1, most: 1, run: spaceToDepth},
		{name: "CenterCropPad", since: 18, least: 2, most: 2, run: centerCropPad},
		{name: "ReverseSequence", since: 10, least: 2, most: 2, run: reverseSequence},
		{name: "Cast", least: 1, most: 1, run: cast},
		{name: "CastLike", since: 15, least: 2, most: 2, run: func(c *call) { c.put(c.cast(c.at(0), c.at(1).Type)) }},
	}
}

// whole is a tensor of one int64.
func (c *call) whole(v int64) *Tensor {
	t := c.new(Int64)
	t.I[0] = v
	return t
}

// same is a tensor as it is.
func (c *call) same(t *Tensor) *Tensor {
	v := *t
	v.hold()
	return &v
}

func identity(c *call) { c.put(c.same(c.at(0))) }

// dropout passes its input on; a run trains nothing.
func dropout(c *call) {
	x := c.at(0)
	if t := c.optional(2); t != nil && t.Len() == 1 && t.float(0) != 0 {
		c.fail("training_mode is true: the runner has inference alone")
	}
	c.put(c.same(x))
	if c.wants(1) {
		mask := c.new(Bool, x.Shape...)
		for i := range mask.I {
			mask.I[i] = 1
		}
		c.out[1] = mask
	}
}

func reshape(c *call) {
	x, want := c.at(0), c.listOr("shape", 1)
	if want == nil && c.attribute("shape") == nil {
		c.fail("there is no shape")
	}
	shape, rest, n := slices.Clone(want), -1, 1
	for i, d := range shape {
		switch {
		case d == -1 && rest < 0:
			rest = i
			continue
		case d == 0 && !c.flag("allowzero", false):
			if i >= len(x.Shape) {
				c.fail("shape %v of %v: axis %d is to stay", want, x, i)
			}
			shape[i] = x.Shape[i]
		case d < 0:
			c.fail("shape %v of %v", want, x)
		}
		if shape[i] != 0 && n > x.Len()/max(shape[i], 1) && x.Len() > 0 {
			c.fail("shape %v of %v", want, x)
		}
		n *= shape[i]
	}
	if rest >= 0 {
		if n == 0 || x.Len()%n != 0 {
			c.fail("shape %v of %v", want, x)
		}
		shape[rest] = x.Len() / n
	}
	c.put(c.view(x, shape...))
}

func flatten(c *call) {
	x := c.at(0)
	a := c.int("axis", 1)
	if a < 0 {
		a += len(x.Shape)
	}
	if a < 0 || a > len(x.Shape) {
		c.fail("axis %d of %v", c.int("axis", 1), x)
	}
	c.put(c.view(x, volume(x.Shape[:a]), volume(x.Shape[a:])))
}

func squeeze(c *call) {
	x, axes := c.at(0), c.listOr("axes", 1)
	axes = c.axes(axes, len(x.Shape))
	shape := []int{}
	for d, n := range x.Shape {
		chosen := slices.Contains(axes, d)
		if chosen && n != 1 {
			c.fail("axis %d of %v is not of length 1", d, x)
		}
		if !chosen && (len(axes) > 0 || n != 1) {
			shape = append(shape, n)
		}
	}
	c.put(c.view(x, shape...))
}

func unsqueeze(c *call) {
	x, list := c.at(0), c.listOr("axes", 1)
	if len(x.Shape)+len(list) > 64 {
		c.fail("%d axes more", len(list))
	}
	axes := c.axes(list, len(x.Shape)+len(list))
	shape, from := make([]int, len(x.Shape)+len(list)), 0
	for d := range shape {
		if shape[d] = 1; !slices.Contains(axes, d) {
			shape[d] = x.Shape[from]
			from++
		}
	}
	c.put(c.view(x, shape...))
}

// turn is Transpose. Pictures with channels last keep their memory, and have channels first by their shape alone.
func turn(c *call) {
	x, perm := c.at(0), c.ints("perm")
	if !x.last && x.Type.isFloat() && slices.Equal(perm, []int{0, 3, 1, 2}) && len(x.Shape) == 4 && x.Len() > 0 {
		v := c.same(x)
		v.Shape, v.last = []int{x.Shape[0], x.Shape[3], x.Shape[1], x.Shape[2]}, true
		c.put(v)
		return
	}
	c.put(c.transpose(x, perm))
}

// transpose is a tensor with its axes in another order, which is memory's order, too.
func (c *call) transpose(x *Tensor, perm []int) *Tensor {
	rank := len(x.Shape)
	if perm == nil {
		for d := rank - 1; d >= 0; d-- {
			perm = append(perm, d)
		}
	}
	if len(perm) != rank || len(c.axes(perm, rank)) != rank {
		c.fail("perm %v of %v", perm, x)
	}
	shape := make([]int, rank)
	for i, p := range perm {
		shape[i] = x.Shape[p]
	}
	if x.last && slices.Equal(perm, []int{0, 2, 3, 1}) {
		v := c.same(x)
		v.Shape, v.last = shape, false
		return v
	}
	c.unlast(x)
	moves, before := false, -1
	for _, p := range perm { // axes of length 1 do not matter
		if x.Shape[p] == 1 {
			continue
		}
		moves = moves || p < before
		before = p
	}
	if !moves {
		return c.view(x, shape...)
	}
	out := c.new(x.Type, shape...)
	own := strides(x.Shape)
	step := make([]int, rank)
	for i, p := range perm {
		step[i] = own[p]
	}
	if x.F != nil && rank >= 2 && len(x.F) > 0 && slices.Equal(perm[:rank-2], seq(0, rank-2)) {
		rows, cols := x.Shape[rank-2], x.Shape[rank-1]
		for i := range x.Len() / (rows * cols) {
			c.transpose2(out.F[i*rows*cols:(i+1)*rows*cols], x.F[i*rows*cols:(i+1)*rows*cols], rows, cols)
		}
		return out
	}
	c.gatherStrided(out, x, shape, step, 0)
	return out
}

func shapeOf(c *call) {
	x := c.at(0)
	rank := len(x.Shape)
	hold := func(v int) int {
		if v < 0 {
			v += rank
		}
		return min(max(v, 0), rank)
	}
	lo, hi := hold(c.int("start", 0)), hold(c.int("end", rank))
	out := c.new(Int64, max(hi-lo, 0))
	for i := range out.I {
		out.I[i] = int64(x.Shape[lo+i])
	}
	c.put(out)
}

func concat(c *call) {
	list := []*Tensor{}
	for i := range c.in {
		list = append(list, c.at(i))
	}
	c.put(c.concat(list, c.axis(c.int("axis", 1), len(list[0].Shape))))
}

// concat puts tensors behind each other along an axis.
func (c *call) concat(list []*Tensor, axis int) *Tensor {
	shape := slices.Clone(list[0].Shape)
	shape[axis] = 0
	last := true
	for _, t := range list {
		if t.Type != list[0].Type || len(t.Shape) != len(shape) {
			c.fail("inputs are %v and %v", list[0], t)
		}
		for d := range shape {
			if d != axis && t.Shape[d] != shape[d] {
				c.fail("inputs are %v and %v, along axis %d", list[0], t, axis)
			}
		}
		shape[axis] += t.Shape[axis]
		last = last && t.last
	}
	out := c.new(list[0].Type, shape...)
	order := shape
	if last {
		out.last = true
		order = physical(out)
		axis = []int{0, 3, 1, 2}[axis]
	}
	outer, row := volume(order[:axis]), volume(order[axis:])
	at := 0
	for _, t := range list {
		if !last {
			c.unlast(t)
		}
		n := volume(physical(t)[axis:])
		c.each(outer, n, func(lo, hi int) {
			for o := lo; o < hi; o++ {
				to, from := o*row+at, o*n
				switch {
				case out.F != nil:
					copy(out.F[to:to+n], t.F[from:])
				case out.D != nil:
					copy(out.D[to:to+n], t.D[from:])
				case out.S != nil:
					copy(out.S[to:to+n], t.S[from:])
				default:
					copy(out.I[to:to+n], t.I[from:])
				}
			}
		})
		at += n
	}
	return out
}

func split(c *call) {
	x := c.at(0)
	a := c.axis(c.int("axis", 0), len(x.Shape))
	sizes, n := c.listOr("split", 1), x.Shape[a]
	parts := len(c.out)
	if sizes == nil {
		each := (n + parts - 1) / parts
		if c.opset < 18 && n%parts != 0 {
			c.fail("axis %d of %v in %d parts", a, x, parts)
		}
		for i := range parts {
			sizes = append(sizes, max(0, min(each, n-i*each)))
		}
	}
	sum := 0
	for _, s := range sizes {
		if sum += s; s < 0 || s > n {
			c.fail("parts %v of %d", sizes, n)
		}
	}
	if len(sizes) != parts || sum != n {
		c.fail("parts %v of %d, for %d outputs", sizes, n, parts)
	}
	from := 0
	for i, s := range sizes {
		c.out[i] = c.cut(x, a, from, s)
		from += s
	}
}

// cut is a part of a tensor along an axis.
func (c *call) cut(x *Tensor, axis, from, n int) *Tensor {
	shape := slices.Clone(x.Shape)
	shape[axis] = n
	out := c.new(x.Type, shape...)
	if x.last {
		out.last = true
		axis = []int{0, 3, 1, 2}[axis]
	}
	have, order := physical(x), physical(out)
	c.gatherStrided(out, x, order, strides(have), from*strides(have)[axis])
	return out
}

func slice(c *call) {
	x := c.at(0)
	rank := len(x.Shape)
	starts, ends, axes, steps := c.listOr("starts", 1), c.listOr("ends", 2), c.listOr("axes", 3), c.list(4)
	if axes == nil {
		axes = seq(0, len(starts))
	}
	if steps == nil {
		steps = slices.Repeat([]int{1}, len(starts))
	}
	if len(starts) != len(ends) || len(starts) != len(axes) || len(starts) != len(steps) {
		c.fail("%d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	axes = c.axes(axes, rank)
	shape := slices.Clone(x.Shape)
	from, step := make([]int, rank), slices.Repeat([]int{1}, rank)
	for i, a := range axes {
		n, s := x.Shape[a], steps[i]
		if s == 0 {
			c.fail("a step of 0")
		}
		low, high := 0, n
		if s < 0 {
			low, high = -1, n-1
		}
		at := func(v int) int {
			if v < 0 {
				v += n
			}
			return min(max(v, low), high)
		}
		lo, hi := at(starts[i]), at(ends[i])
		count := 0
		if s > 0 && hi > lo {
			count = (hi-lo-1)/s + 1
		} else if s < 0 && lo > hi {
			count = (lo-hi-1)/-s + 1
		}
		shape[a], from[a], step[a] = count, lo, s
	}
	out := c.new(x.Type, shape...)
	var order []int
	if x.last {
		out.last, order = true, []int{0, 2, 3, 1}
	} else {
		order = seq(0, rank)
	}
	own := strides(physical(x))
	base, steps2 := 0, make([]int, rank)
	for i, d := range order {
		base += from[d] * own[i]
		steps2[i] = step[d] * own[i]
	}
	if out.Len() > 0 {
		c.gatherStrided(out, x, physical(out), steps2, base)
	}
	c.put(out)
}

// pad surrounds a tensor, or cuts it where a number is negative.
func pad(c *call) {
	x := c.plain(0)
	rank := len(x.Shape)
	pads, value := c.listOr("pads", 1), c.number("value", 0)
	if t := c.optional(2); t != nil && t.Len() == 1 && t.Type != String {
		value = t.float(0)
	}
	mode := c.oneOf("mode", "constant", "constant", "reflect", "edge", "wrap")
	axes := seq(0, rank)
	if t := c.list(3); t != nil {
		axes = c.axes(t, rank)
	}
	if len(pads) != 2*len(axes) {
		c.fail("%d pads over %d axes", len(pads), len(axes))
	}
	shape, places := slices.Clone(x.Shape), make([][]int, rank)
	low := make([]int, rank)
	for i, a := range axes {
		n := x.Shape[a] + pads[i] + pads[len(axes)+i]
		if n < 0 || pads[i] > 1<<28 || pads[len(axes)+i] > 1<<28 || n > 1<<28 {
			c.fail("pads %v of %v", pads, x)
		}
		shape[a], low[a] = n, pads[i]
	}
	out := c.new(x.Type, shape...)
	if out.Len() == 0 {
		c.put(out)
		return
	}
	for a := range shape {
		for o := range shape[a] {
			places[a] = append(places[a], padded(o-low[a], x.Shape[a], mode))
		}
	}
	own := strides(x.Shape)
	if x.Len() == 0 && mode != "constant" {
		c.fail("mode %q of %v", mode, x)
	}
	width := shape[max(rank-1, 0):]
	c.each(rowsOf(shape), 4*volume(width), func(lo, hi int) {
		index := make([]int, rank)
		for r := lo; r < hi; r++ {
			unravel(index[:max(rank-1, 0)], r, shape[:max(rank-1, 0)])
			base, inside := 0, true
			for d := range rank - 1 {
				p := places[d][index[d]]
				inside = inside && p >= 0
				base += p * own[d]
			}
			for i := range out.Len() / rowsOf(shape) {
				p := 0
				if rank > 0 {
					p = places[rank-1][i]
				}
				o := r*shape[rank-1] + i
				if !inside || p < 0 {
					if x.S == nil {
						out.set(o, value)
					}
					continue
				}
				out.copyElement(o, x, base+p)
			}
		}
	})
	c.put(out)
}

// padded is the place in an axis of n that a place beyond it repeats; -1: the constant.
func padded(i, n int, mode string) int {
	switch {
	case i >= 0 && i < n:
		return i
	case mode == "constant" || n == 0:
		return -1
	case mode == "edge":
		return min(max(i, 0), n-1)
	case mode == "wrap":
		return ((i % n) + n) % n
	case n == 1:
		return 0
	}
	period := 2 * (n - 1)
	i = ((i % period) + period) % period
	return min(i, period-i)
}

func tiled(c *call) {
	x, times := c.plain(0), c.list(1)
	if len(times) != len(x.Shape) {
		c.fail("%d repeats of %v", len(times), x)
	}
	var over, shape []int
	for d, n := range x.Shape {
		if times[d] < 0 || times[d] > 1<<28 {
			c.fail("repeats %v of %v", times, x)
		}
		over = append(over, times[d], n)
		shape = append(shape, times[d]*n)
	}
	own := strides(x.Shape)
	out := c.new(x.Type, shape...)
	if out.Len() > 0 {
		var step []int
		for d := range x.Shape {
			step = append(step, 0, own[d])
		}
		c.gatherStrided(out, x, over, step, 0)
	}
	c.put(out)
}

func expand(c *call) {
	x, want := c.at(0), c.list(1)
	for _, d := range want {
		if d < 0 || d > 1<<31 {
			c.fail("shape %v", want)
		}
	}
	c.put(c.expand(x, c.broadcast(x.Shape, want)))
}

func depthToSpace(c *call) {
	x, b := c.plain(0), c.int("blocksize", 0)
	c.rank(x, 4, 4)
	n, ch, h, w := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	if b < 1 || ch%(b*b) != 0 {
		c.fail("blocksize %d of %v", b, x)
	}
	ch /= b * b
	shape, perm := []int{n, b, b, ch, h, w}, []int{0, 3, 4, 1, 5, 2}
	if c.oneOf("mode", "DCR", "DCR", "CRD") == "CRD" {
		shape, perm = []int{n, ch, b, b, h, w}, []int{0, 1, 4, 2, 5, 3}
	}
	c.rearrange(x, shape, perm, []int{n, ch, h * b, w * b})
}

func spaceToDepth(c *call) {
	x, b := c.plain(0), c.int("blocksize", 0)
	c.rank(x, 4, 4)
	n, ch, h, w := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	if b < 1 || h%b != 0 || w%b != 0 {
		c.fail("blocksize %d of %v", b, x)
	}
	shape, perm := []int{n, ch, h / b, b, w / b, b}, []int{0, 3, 5, 1, 2, 4}
	if c.oneOf("mode", "DCR", "DCR", "CRD") == "CRD" {
		perm = []int{0, 1, 3, 5, 2, 4}
	}
	c.rearrange(x, shape, perm, []int{n, ch * b * b, h / b, w / b})
}

// rearrange is a transpose between two shapes.
func (c *call) rearrange(x *Tensor, as, perm, to []int) {
	v := c.view(x, as...)
	t := c.transpose(v, perm)
	c.drop(v)
	c.put(c.view(t, to...))
	c.drop(t)
}

func centerCropPad(c *call) {
	x, want := c.plain(0), c.list(1)
	axes := c.ints("axes")
	if axes == nil {
		axes = seq(0, len(x.Shape))
	}
	axes = c.axes(axes, len(x.Shape))
	if len(want) != len(axes) {
		c.fail("%d lengths of %d axes", len(want), len(axes))
	}
	shape, shift := slices.Clone(x.Shape), make([]int, len(x.Shape))
	for i, a := range axes {
		if want[i] < 0 || want[i] > 1<<28 {
			c.fail("lengths %v", want)
		}
		shape[a] = want[i]
		if n := x.Shape[a]; n >= want[i] {
			shift[a] = (n - want[i]) / 2
		} else {
			shift[a] = -((want[i] - n) / 2)
		}
	}
	out := c.new(x.Type, shape...)
	own, index := strides(x.Shape), make([]int, len(shape))
	c.spend(out.Len())
	for o := range out.Len() {
		unravel(index, o, shape)
		at, inside := 0, true
		for d, i := range index {
			i += shift[d]
			inside = inside && i >= 0 && i < x.Shape[d]
			at += i * own[d]
		}
		if inside {
			out.copyElement(o, x, at)
		} else if x.S == nil {
			out.set(o, 0)
		}
	}
	c.put(out)
}

func reverseSequence(c *call) {
	x, lengths := c.plain(0), c.list(1)
	b, s := c.int("batch_axis", 1), c.int("time_axis", 0)
	if len(x.Shape) < 2 || b == s || b < 0 || b > 1 || s < 0 || s > 1 || len(lengths) != x.Shape[b] {
		c.fail("axes %d and %d, and %d lengths, of %v", b, s, len(lengths), x)
	}
	out := c.new(x.Type, x.Shape...)
	inner := volume(x.Shape[2:])
	for k := range x.Len() {
		pair := k / max(inner, 1)
		i, j := pair/x.Shape[1], pair%x.Shape[1]
		at := [2]int{i, j}
		n := lengths[at[b]]
		if n < 0 || n > x.Shape[s] {
			c.fail("a length of %d, of %v", n, x)
		}
		if at[s] < n {
			at[s] = n - 1 - at[s]
		}
		out.copyElement(k, x, (at[0]*x.Shape[1]+at[1])*inner+k%max(inner, 1))
	}
	c.put(out)
}
