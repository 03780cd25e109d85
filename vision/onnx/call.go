package onnx

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/vision/onnx/proto"
)

// A refusal is the error of an operator. Operators panic with it; the node that runs them returns it.
type refusal struct{ err error }

// A call is one run of one node.
type call struct {
	*run
	scope *scope
	node  *node
	in    []*Tensor // nil: absent
	out   []*Tensor
	attrs map[string]*proto.Attribute
}

// fail refuses the node.
func (c *call) fail(format string, args ...any) { panic(refusal{fmt.Errorf(format, args...)}) }

func (c *call) check(err error) {
	if err != nil {
		panic(refusal{err})
	}
}

// at is an input that must be there.
func (c *call) at(i int) *Tensor {
	if t := c.optional(i); t != nil {
		return t
	}
	c.fail("input %d is missing", i)
	return nil
}

// optional is an input; nil where it is absent.
func (c *call) optional(i int) *Tensor {
	if i < len(c.in) {
		return c.in[i]
	}
	return nil
}

// plain is an input with its axes in memory's order.
func (c *call) plain(i int) *Tensor { return c.unlast(c.at(i)) }

// unlast puts a tensor's axes into memory's order.
func (c *call) unlast(t *Tensor) *Tensor {
	if t != nil && t.last {
		c.relayout(t, false)
	}
	return t
}

// pixels is an input of four axes, channels last in memory.
func (c *call) pixels(t *Tensor) *Tensor {
	if !t.last {
		c.relayout(t, true)
	}
	return t
}

// relayout changes the order of a tensor's axes in memory.
func (c *call) relayout(t *Tensor, last bool) {
	n, ch, hw := t.Shape[0], t.Shape[1], t.Shape[2]*t.Shape[3]
	from := *t
	if ch == 1 || hw == 1 {
		t.last = last
		return
	}
	c.check(c.mem.take(t, t.Len()))
	rows, cols := ch, hw
	if from.last {
		rows, cols = hw, ch
	}
	for i := range n {
		c.transpose2(t.F[i*ch*hw:(i+1)*ch*hw], from.F[i*ch*hw:(i+1)*ch*hw], rows, cols)
	}
	t.last = last
	c.mem.release(&from)
}

// transpose2 is to[c, r] = from[r, c], in tiles.
func (c *call) transpose2(to, from []float32, rows, cols int) {
	const tile = 32
	c.each((cols+tile-1)/tile, rows*tile, func(lo, hi int) {
		for c0 := lo * tile; c0 < min(hi*tile, cols); c0 += tile {
			c1 := min(c0+tile, cols)
			for r0 := 0; r0 < rows; r0 += tile {
				r1 := min(r0+tile, rows)
				for x := c0; x < c1; x++ {
					line := to[x*rows+r0 : x*rows+r1]
					at := r0*cols + x
					for y := range line {
						line[y] = from[at]
						at += cols
					}
				}
			}
		}
	})
}

// new is a tensor whose numbers are undefined.
func (c *call) new(t Type, shape ...int) *Tensor {
	n, err := checkedVolume(shape)
	c.check(err)
	out := &Tensor{Type: t, Shape: slices.Clone(shape)}
	c.check(c.mem.take(out, n))
	return out
}

// zero is a tensor of zeros.
func (c *call) zero(t Type, shape ...int) *Tensor {
	out := c.new(t, shape...)
	clear(out.F)
	return out
}

// view is a tensor of the same elements and another shape.
func (c *call) view(t *Tensor, shape ...int) *Tensor {
	c.unlast(t)
	v := *t
	v.Shape = slices.Clone(shape)
	n, err := checkedVolume(shape)
	c.check(err)
	if n != t.Len() {
		c.fail("%v has %d elements, and shape %v has %d", t, t.Len(), shape, n)
	}
	v.hold()
	return &v
}

// like is a tensor of the shape, and the order in memory, of another.
func (c *call) like(t *Tensor, of Type) *Tensor {
	out := c.new(of, t.Shape...)
	out.last = t.last
	return out
}

// put sets the first output.
func (c *call) put(t *Tensor) { c.out[0] = t }

// drop gives back memory that only this call used.
func (c *call) drop(t *Tensor) { c.mem.release(t) }

// wants reports whether the node has an output.
func (c *call) wants(i int) bool { return i < len(c.node.outputs) && c.node.outputs[i] != "" }

// The attributes, each with its default.

func (c *call) attribute(name string) *proto.Attribute {
	a := c.attrs[name]
	if a != nil && a.Ref != "" {
		c.fail("attribute %q repeats %q of a function; functions of files are not supported", name, a.Ref)
	}
	return a
}

func (c *call) int(name string, usual int) int {
	if a := c.attribute(name); a != nil {
		if a.Int > math.MaxInt32 || a.Int < math.MinInt32 {
			c.fail("attribute %s is %d", name, a.Int)
		}
		return int(a.Int)
	}
	return usual
}

func (c *call) flag(name string, usual bool) bool {
	v := 0
	if usual {
		v = 1
	}
	return c.int(name, v) != 0
}

func (c *call) number(name string, usual float64) float64 {
	if a := c.attribute(name); a != nil {
		return float64(a.Float)
	}
	return usual
}

func (c *call) text(name, usual string) string {
	if a := c.attribute(name); a != nil {
		return string(a.Text)
	}
	return usual
}

// oneOf is a text attribute that must be one of some words.
func (c *call) oneOf(name, usual string, words ...string) string {
	v := c.text(name, usual)
	if !slices.Contains(words, v) {
		c.fail("attribute %s is %q; known are %q", name, v, words)
	}
	return v
}

// ints is a list of integers; nil where the node has none.
func (c *call) ints(name string) []int {
	a := c.attribute(name)
	if a == nil {
		return nil
	}
	out := make([]int, len(a.Ints))
	for i, v := range a.Ints {
		if v > math.MaxInt32 || v < math.MinInt32 {
			c.fail("attribute %s has %d", name, v)
		}
		out[i] = int(v)
	}
	return out
}

// list is a list of integers of an input; nil where it is absent. Values beyond 2^62 are that.
func (c *call) list(i int) []int {
	t := c.optional(i)
	if t == nil {
		return nil
	}
	if !t.Type.isInt() {
		c.fail("input %d is %v; integers are needed", i, t)
	}
	out := make([]int, len(t.I))
	for k, v := range t.I {
		out[k] = int(min(max(v, -1<<62), 1<<62))
	}
	return out
}

// listOr is a list of integers of an attribute, or, in later opsets, of an input.
func (c *call) listOr(name string, i int) []int {
	if v := c.ints(name); v != nil {
		return v
	}
	return c.list(i)
}

// scalar is the number of an input of one element.
func (c *call) scalar(i int, usual float64) float64 {
	t := c.optional(i)
	if t == nil {
		return usual
	}
	if t.Len() != 1 || t.Type == String {
		c.fail("input %d is %v; one number is needed", i, t)
	}
	return t.float(0)
}

// axis is an axis of a tensor of a rank, counted from the end where it is negative.
func (c *call) axis(a, rank int) int {
	if a < -rank || a >= rank {
		c.fail("axis %d of a tensor of %d axes", a, rank)
	}
	if a < 0 {
		a += rank
	}
	return a
}

// axes are distinct axes.
func (c *call) axes(list []int, rank int) []int {
	out := make([]int, 0, len(list))
	for _, a := range list {
		a = c.axis(a, rank)
		if slices.Contains(out, a) {
			c.fail("axis %d twice in %v", a, list)
		}
		out = append(out, a)
	}
	return out
}

// need refuses inputs of other types.
func (c *call) need(t *Tensor, types ...Type) {
	if !slices.Contains(types, t.Type) {
		c.fail("an input is %v; known are %v", t, types)
	}
}

// rank refuses inputs of other ranks.
func (c *call) rank(t *Tensor, low, high int) {
	if n := len(t.Shape); n < low || n > high {
		c.fail("an input is %v; from %d to %d axes are known", t, low, high)
	}
}

// floats refuses types other than float, float16, bfloat16 and double.
func (c *call) floats(t *Tensor) *Tensor {
	if t != nil && !t.Type.isFloat() && t.Type != Double {
		c.fail("an input is %v; floats are needed", t)
	}
	return t
}

// spend counts work.
func (c *call) spend(work ...int) {
	w := 1.0
	for _, v := range work {
		w *= float64(max(v, 0))
	}
	if w > float64(c.limits.Work-c.work) {
		c.fail("it takes %.3g operations after %.3g, and %.3g are the most", w, float64(c.work), float64(c.limits.Work))
	}
	c.work += int64(w)
}

// each calls f for pieces of [0, n), on several goroutines where n times cost elements are many. Pieces are
// independent, so that no bit depends on them.
func (r *run) each(n, cost int, f func(lo, hi int)) {
	const piece = 1 << 14
	grain := max(1, piece/max(cost, 1))
	if n <= grain || r.threads == 1 {
		for lo := 0; lo < n; lo += grain {
			r.stop()
			f(lo, min(lo+grain, n))
		}
		return
	}
	pieces := (n + grain - 1) / grain
	var next atomic.Int64
	var failure atomic.Pointer[any]
	var wait sync.WaitGroup
	work := func() {
		defer func() {
			if v := recover(); v != nil {
				failure.CompareAndSwap(nil, &v)
			}
		}()
		for failure.Load() == nil {
			i := int(next.Add(1) - 1)
			if i >= pieces {
				return
			}
			r.stop()
			f(i*n/pieces, (i+1)*n/pieces)
		}
	}
	for range min(r.threads, pieces) - 1 {
		wait.Go(work)
	}
	work()
	wait.Wait()
	if v := failure.Load(); v != nil {
		panic(*v)
	}
}

// stop ends the run where its time is over.
func (r *run) stop() {
	if err := r.ctx.Err(); err != nil {
		panic(refusal{err})
	}
}

// backend is where products run.
func (r *run) backend() Backend { return r.model.backend }

// threadsOf is how many goroutines compute.
func threadsOf(n int) int {
	if n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}
