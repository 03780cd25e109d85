package onnx

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: Attention of opset 23 to 25 and RotaryEmbedding. Queries and keys are each multiplied by the root of the
// scale, products are those of MatMul, and softmax is a float64 sum a row. A query that sees no key gives zeros.

func attentions() []operator {
	return []operator{
		{name: "Attention", since: 23, least: 3, most: 7, run: attention},
		{name: "RotaryEmbedding", since: 23, least: 3, most: 4, run: rotary},
	}
}

// heads is [batch, heads, sequence, width] of a tensor, whose heads are an attribute's where it has three axes.
func (c *call) heads(t *Tensor, key string) *Tensor {
	c.rank(t, 3, 4)
	if len(t.Shape) == 4 {
		return c.view(t, t.Shape...)
	}
	n := c.int(key, 0)
	if n < 1 || t.Shape[2]%n != 0 {
		c.fail("attribute %s is %d, of an input %v", key, n, t)
	}
	v := c.view(t, t.Shape[0], t.Shape[1], n, t.Shape[2]/n)
	defer c.drop(v)
	return c.transpose(v, []int{0, 2, 1, 3})
}

func attention(c *call) {
	q, k, v := c.floats(c.plain(0)), c.floats(c.plain(1)), c.floats(c.plain(2))
	flat := len(q.Shape) == 3
	if len(k.Shape) != len(q.Shape) || len(v.Shape) != len(q.Shape) || k.Type != q.Type || v.Type != q.Type {
		c.fail("inputs are %v, %v and %v", q, k, v)
	}
	q, k, v = c.heads(q, "q_num_heads"), c.heads(k, "kv_num_heads"), c.heads(v, "kv_num_heads")
	past := 0
	if p := c.optional(4); p != nil {
		past = p.Shape[min(2, len(p.Shape)-1)]
		k, v = c.concat([]*Tensor{p, k}, 2), c.concat([]*Tensor{c.at(5), v}, 2)
	}
	for i, t := range []*Tensor{k, v} {
		if c.wants(i + 1) {
			c.out[i+1] = c.view(t, t.Shape...)
		}
	}
	batch, heads, sq, width, sk := q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3], k.Shape[2]
	if k.Shape[1] == 0 || heads%k.Shape[1] != 0 || k.Shape[1] != v.Shape[1] || k.Shape[3] != width || k.Shape[0] != batch || v.Shape[0] != batch || v.Shape[2] != sk {
		c.fail("heads are %v, %v and %v", q, k, v)
	}
	scale := c.number("scale", 1/math.Sqrt(float64(width)))
	root := q.Type.round(float32(math.Sqrt(scale)))
	scaled := func(t *Tensor) *Tensor {
		out := c.new(t.Type, t.Shape...)
		for i := range out.Len() {
			if out.D != nil {
				out.D[i] = t.D[i] * math.Sqrt(scale)
				continue
			}
			out.F[i] = out.Type.round(float32(t.F[i] * root))
		}
		return out
	}
	repeated := func(t *Tensor) *Tensor {
		times := heads / t.Shape[1]
		w := c.view(t, batch, t.Shape[1], 1, t.Shape[2], t.Shape[3])
		w = c.expand(w, []int{batch, t.Shape[1], times, t.Shape[2], t.Shape[3]})
		return c.view(w, batch, heads, t.Shape[2], t.Shape[3])
	}
	turned := c.transpose(repeated(scaled(k)), []int{0, 1, 3, 2})
	scores := c.matmul(scaled(q), turned, false)
	mode := c.int("qk_matmul_output_mode", 0)
	keep := func(when int) {
		if c.wants(3) && mode == when {
			kept := c.new(scores.Type, scores.Shape...)
			copy(kept.F, scores.F)
			copy(kept.D, scores.D)
			c.out[3] = kept
		}
	}
	keep(0)
	if limit := c.number("softcap", 0); limit > 0 {
		for i := range scores.Len() {
			scores.set(i, limit*tanh(scores.float(i)/limit))
		}
	}
	keep(1)
	masked := c.mask(scores, past)
	keep(2)
	c.each(batch*heads*sq, 16*sk, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			m, s := math.Inf(-1), 0.0
			for i := range sk {
				m = math.Max(m, scores.float(r*sk+i))
			}
			for i := range sk {
				e := 0.0
				if !masked[r] && !math.IsInf(m, -1) {
					e = portable.Exp(scores.float(r*sk+i) - m)
				}
				s += e
				scores.set(r*sk+i, e)
			}
			for i := range sk {
				if s != 0 {
					scores.set(r*sk+i, scores.float(r*sk+i)/s)
				}
			}
		}
	})
	keep(3)
	out := c.matmul(scores, repeated(v), false)
	if flat {
		t := c.transpose(out, []int{0, 2, 1, 3})
		c.drop(out)
		out = c.view(t, batch, sq, heads*v.Shape[3])
		c.drop(t)
	}
	c.put(out)
}

// mask adds the masks to scores, and returns the rows that see no key.
func (c *call) mask(scores *Tensor, past int) []bool {
	batch, heads, sq, sk := scores.Shape[0], scores.Shape[1], scores.Shape[2], scores.Shape[3]
	given, lengths, causal := c.unlast(c.optional(3)), c.list(6), c.flag("is_causal", false)
	left, right := c.int("left_window_size", -1), c.int("right_window_size", -1)
	if lengths != nil && len(lengths) != batch {
		c.fail("%d lengths of %d samples", len(lengths), batch)
	}
	var steps []int
	wide := 0
	if given != nil {
		wide = given.Shape[len(given.Shape)-1]
		over := []int{batch, heads, sq, wide}
		if wide > sk || !slices.Equal(c.broadcast(given.Shape, over), over) {
			c.fail("a mask %v over %v", given, scores)
		}
		steps = spread(given.Shape, over)
	}
	none := make([]bool, batch*heads*sq)
	for r := range none {
		b, h, i := r/sq/heads, r/sq%heads, r%sq
		offset := past
		if lengths != nil {
			offset = lengths[b] - sq
		}
		none[r] = true
		for j := range sk {
			bias := 0.0
			if given != nil {
				if bias = math.Inf(-1); j < wide {
					at := b*steps[0] + h*steps[1] + i*steps[2] + j*steps[3]
					switch {
					case given.Type != Bool:
						bias = given.float(at)
					case given.I[at] != 0:
						bias = 0
					}
				}
			}
			d := i + offset - j
			if causal && d < 0 || left >= 0 && d > left || right >= 0 && -d > right || lengths != nil && j >= lengths[b] {
				bias = math.Inf(-1)
			}
			none[r] = none[r] && math.IsInf(bias, -1)
			if bias != 0 {
				scores.set(r*sk+j, scores.float(r*sk+j)+bias)
			}
		}
	}
	return none
}

// rotary turns pairs of numbers by angles whose cosines and sines are given.
func rotary(c *call) {
	x, cos, sin, places := c.floats(c.plain(0)), c.floats(c.plain(1)), c.floats(c.plain(2)), c.list(3)
	flat := len(x.Shape) == 3
	v := c.heads(x, "num_heads")
	batch, heads, seq, width := v.Shape[0], v.Shape[1], v.Shape[2], v.Shape[3]
	turned := c.int("rotary_embedding_dim", 0)
	if turned == 0 {
		turned = width
	}
	half := turned / 2
	if turned > width || turned < 0 || turned%2 != 0 || !slices.Equal(cos.Shape, sin.Shape) || len(cos.Shape) < 2 || cos.Shape[len(cos.Shape)-1] != half {
		c.fail("angles %v and %v over %d of %d numbers", cos, sin, turned, width)
	}
	if places != nil && len(places) != batch*seq || places == nil && cos.Len() != batch*seq*half {
		c.fail("angles %v and %d positions of %d x %d tokens", cos, len(places), batch, seq)
	}
	inter := c.flag("interleaved", false)
	out := c.new(x.Type, v.Shape...)
	for r := range batch * heads * seq {
		b, s := r/seq/heads, r%seq
		at := (b*seq + s) * half
		if places != nil {
			p := places[b*seq+s]
			if p < 0 || (p+1)*half > cos.Len() {
				c.fail("position %d of %v", p, cos)
			}
			at = p * half
		}
		for i := range width - turned {
			out.set(r*width+turned+i, v.float(r*width+turned+i))
		}
		for i := range half {
			i0, i1 := r*width+i, r*width+half+i
			if inter {
				i0, i1 = r*width+2*i, r*width+2*i+1
			}
			a, b, co, si := v.float(i0), v.float(i1), cos.float(at+i), sin.float(at+i)
			out.set(i0, float64(a*co)-float64(b*si))
			out.set(i1, float64(b*co)+float64(a*si))
		}
	}
	if flat {
		t := c.transpose(out, []int{0, 2, 1, 3})
		out = c.view(t, x.Shape...)
	}
	c.put(out)
}
