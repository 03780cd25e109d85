package onnx

import (
	"cmp"
	"math"
	"slices"
)

// Card: choices by value. Equal elements keep the order of their places: TopK takes the first of equal numbers, and
// NonMaxSuppression the box that comes first.

func selections() []operator {
	return []operator{
		{name: "TopK", least: 1, most: 2, run: topK},
		{name: "NonMaxSuppression", since: 10, least: 2, most: 5, run: suppress},
		{name: "NonZero", since: 9, least: 1, most: 1, run: nonZero},
		{name: "Unique", since: 11, least: 1, most: 1, run: unique},
		{name: "Compress", since: 9, least: 2, most: 2, run: compress},
	}
}

// order compares two elements of a tensor; NaN comes first.
func (t *Tensor) order(i, j int) int {
	switch {
	case t.S != nil:
		return cmp.Compare(t.S[i], t.S[j])
	case t.Type == Uint64:
		return cmp.Compare(uint64(t.I[i]), uint64(t.I[j]))
	case t.I != nil:
		return cmp.Compare(t.I[i], t.I[j])
	}
	return cmp.Compare(t.float(i), t.float(j))
}

func topK(c *call) {
	x := c.plain(0)
	if x.Type == String || x.Type == Bool || len(x.Shape) == 0 {
		c.fail("its input is %v", x)
	}
	a := c.axis(c.int("axis", -1), len(x.Shape))
	k := int(c.scalar(1, float64(c.int("k", -1))))
	n := x.Shape[a]
	if k < 0 || k > n {
		c.fail("the %d largest of %d", k, n)
	}
	largest := c.flag("largest", true)
	turned := c.moved(x, a, len(x.Shape)-1)
	shape := slices.Clone(turned.Shape)
	shape[len(shape)-1] = k
	values, places := c.new(x.Type, shape...), c.new(Int64, shape...)
	c.spend(x.Len(), 16)
	order := make([]int, n)
	for r := range x.Len() / max(n, 1) {
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int {
			if largest {
				i, j = j, i
			}
			return turned.order(r*n+i, r*n+j)
		})
		for i, at := range order[:k] {
			values.copyElement(r*k+i, turned, r*n+at)
			places.I[r*k+i] = int64(at)
		}
	}
	c.drop(turned)
	c.out[0] = c.moved(values, len(shape)-1, a)
	if len(c.out) > 1 {
		c.out[1] = c.moved(places, len(shape)-1, a)
	}
}

// suppress is non-maximum suppression of each class of each picture.
func suppress(c *call) {
	boxes, scores := c.plain(0), c.plain(1)
	if boxes.Type != Float || scores.Type != Float || len(boxes.Shape) != 3 || len(scores.Shape) != 3 || boxes.Shape[2] != 4 || boxes.Shape[0] != scores.Shape[0] || boxes.Shape[1] != scores.Shape[2] {
		c.fail("inputs are %v and %v", boxes, scores)
	}
	most, iou, least := c.scalar(2, 0), c.scalar(3, 0), c.scalar(4, math.Inf(-1))
	centres := c.int("center_point_box", 0) == 1
	n := boxes.Shape[1]
	corner := func(at int) [4]float64 {
		b := [4]float64{boxes.float(at), boxes.float(at + 1), boxes.float(at + 2), boxes.float(at + 3)}
		if centres {
			return [4]float64{b[0] - b[2]/2, b[1] - b[3]/2, b[0] + b[2]/2, b[1] + b[3]/2}
		}
		return [4]float64{math.Min(b[0], b[2]), math.Min(b[1], b[3]), math.Max(b[0], b[2]), math.Max(b[1], b[3])}
	}
	var found []int64
	for s := range scores.Shape[0] {
		for k := range scores.Shape[1] {
			base := (s*scores.Shape[1] + k) * n
			var order []int
			for i := range n {
				if scores.float(base+i) > least || c.optional(4) == nil {
					order = append(order, i)
				}
			}
			slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(scores.F[base+j], scores.F[base+i]) })
			var kept [][4]float64
			for _, i := range order {
				if float64(len(kept)) >= most {
					break
				}
				c.spend(len(kept) + 1)
				b := corner((s*n + i) * 4)
				if slices.ContainsFunc(kept, func(o [4]float64) bool { return overlap(b, o) > iou }) {
					continue
				}
				kept = append(kept, b)
				found = append(found, int64(s), int64(k), int64(i))
			}
			c.stop()
		}
	}
	out := c.new(Int64, len(found)/3, 3)
	copy(out.I, found)
	c.put(out)
}

// overlap is the intersection over the union of two boxes of corners.
func overlap(a, b [4]float64) float64 {
	w, h := math.Min(a[2], b[2])-math.Max(a[0], b[0]), math.Min(a[3], b[3])-math.Max(a[1], b[1])
	if w <= 0 || h <= 0 {
		return 0
	}
	i := float64(w * h)
	return i / (float64((a[2]-a[0])*(a[3]-a[1])) + float64((b[2]-b[0])*(b[3]-b[1])) - i)
}

func nonZero(c *call) {
	x := c.plain(0)
	var at []int
	for i := range x.Len() {
		if x.S != nil && x.S[i] != "" || x.S == nil && x.float(i) != 0 {
			at = append(at, i)
		}
	}
	out := c.new(Int64, len(x.Shape), len(at))
	index := make([]int, len(x.Shape))
	for k, i := range at {
		unravel(index, i, x.Shape)
		for d, v := range index {
			out.I[d*len(at)+k] = int64(v)
		}
	}
	c.put(out)
}

func unique(c *call) {
	x := c.plain(0)
	flat := c.attribute("axis") == nil
	turned := x
	a := 0
	if !flat {
		a = c.axis(c.int("axis", 0), len(x.Shape))
		turned = c.moved(x, a, 0)
	}
	n, width := x.Len(), 1
	if !flat {
		n = x.Shape[a]
		width = x.Len() / max(n, 1)
	}
	c.spend(n, width, 16)
	compare := func(i, j int) int {
		for k := range width {
			if o := turned.order(i*width+k, j*width+k); o != 0 {
				return o
			}
		}
		return 0
	}
	order := seq(0, n)
	slices.SortStableFunc(order, compare)
	inverse, counts := make([]int64, n), []int64{}
	var first []int
	for k, i := range order {
		if k == 0 || compare(order[k-1], i) != 0 {
			first, counts = append(first, i), append(counts, 0)
		}
		inverse[i] = int64(len(first) - 1)
		counts[len(counts)-1]++
	}
	if !c.flag("sorted", true) { // in the order of their first places
		by := seq(0, len(first))
		slices.SortFunc(by, func(i, j int) int { return first[i] - first[j] })
		to := make([]int64, len(first))
		oldFirst, oldCounts := slices.Clone(first), slices.Clone(counts)
		for k, i := range by {
			to[i], first[k], counts[k] = int64(k), oldFirst[i], oldCounts[i]
		}
		for i, v := range inverse {
			inverse[i] = to[v]
		}
	}
	shape := []int{len(first)}
	if !flat {
		shape = append(shape, turned.Shape[1:]...)
	}
	out := c.new(x.Type, shape...)
	for k, i := range first {
		out.copyRun(k*width, turned, i*width, width)
	}
	if !flat {
		out = c.moved(out, 0, a)
	}
	c.put(out)
	places := make([]int64, len(first))
	for k, i := range first {
		places[k] = int64(i)
	}
	for i, list := range [][]int64{places, inverse, counts} {
		if c.wants(i + 1) {
			t := c.new(Int64, len(list))
			copy(t.I, list)
			c.out[i+1] = t
		}
	}
}

func compress(c *call) {
	x, mask := c.plain(0), c.plain(1)
	c.need(mask, Bool)
	c.rank(mask, 1, 1)
	outer, n, inner := 1, x.Len(), 1
	shape := []int{0}
	a := 0
	if c.attribute("axis") != nil {
		a = c.axis(c.int("axis", 0), len(x.Shape))
		outer, n, inner = volume(x.Shape[:a]), x.Shape[a], volume(x.Shape[a+1:])
		shape = slices.Clone(x.Shape)
	}
	var keep []int
	for i, v := range mask.I {
		if v != 0 && i < n {
			keep = append(keep, i)
		}
	}
	shape[a] = len(keep)
	out := c.new(x.Type, shape...)
	for o := range outer {
		for k, i := range keep {
			out.copyRun((o*len(keep)+k)*inner, x, (o*n+i)*inner, inner)
		}
	}
	c.put(out)
}
