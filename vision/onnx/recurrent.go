package onnx

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: RNN, GRU and LSTM, in both directions, with lengths of samples. Sums over the input and over the state are
// float64, over rising indices; states are rounded to float once a step.

func recurrents() []operator {
	return []operator{
		{name: "RNN", least: 3, most: 6, run: func(c *call) { c.recurrent(1) }},
		{name: "GRU", least: 3, most: 6, run: func(c *call) { c.recurrent(3) }},
		{name: "LSTM", least: 3, most: 8, run: func(c *call) { c.recurrent(4) }},
	}
}

// gate is an activation of recurrent networks.
func (c *call) gate(name string, alpha, beta float64) func(v float64) float64 {
	switch name {
	case "Sigmoid":
		return sigmoid
	case "Tanh":
		return tanh
	case "Relu":
		return func(v float64) float64 { return math.Max(0, v) }
	case "HardSigmoid":
		return func(v float64) float64 { return math.Max(0, math.Min(1, float64(alpha*v)+beta)) }
	case "Affine":
		return func(v float64) float64 { return float64(alpha*v) + beta }
	case "LeakyRelu":
		return func(v float64) float64 {
			if v < 0 {
				return alpha * v
			}
			return v
		}
	case "Elu":
		return func(v float64) float64 {
			if v < 0 {
				return alpha * portable.Expm1(v)
			}
			return v
		}
	case "Softsign":
		return func(v float64) float64 { return v / (1 + math.Abs(v)) }
	case "Softplus":
		return softplus
	}
	c.fail("activation %q is not known", name)
	return nil
}

// recurrent runs a network of one (RNN), three (GRU) or four (LSTM) gates.
func (c *call) recurrent(gates int) {
	x, w, r := c.plain(0), c.plain(1), c.plain(2)
	batchFirst := c.int("layout", 0) == 1
	if batchFirst {
		x = c.transpose(x, []int{1, 0, 2})
	}
	c.rank(x, 3, 3)
	steps, batch, in, hidden := x.Shape[0], x.Shape[1], x.Shape[2], c.int("hidden_size", r.Shape[len(r.Shape)-1])
	direction := c.oneOf("direction", "forward", "forward", "reverse", "bidirectional")
	dirs := 1
	if direction == "bidirectional" {
		dirs = 2
	}
	if x.Type != Float || w.Type != Float || r.Type != Float || !slices.Equal(w.Shape, []int{dirs, gates * hidden, in}) || !slices.Equal(r.Shape, []int{dirs, gates * hidden, hidden}) {
		c.fail("inputs are %v, %v and %v with %d hidden units", x, w, r, hidden)
	}
	lengths := c.list(4)
	if lengths == nil {
		lengths = slices.Repeat([]int{steps}, batch)
	}
	for _, n := range lengths {
		if n < 0 || n > steps {
			c.fail("a length of %d in %d steps", n, steps)
		}
	}
	start := func(i int) *Tensor {
		t := c.optional(i)
		if t == nil {
			return c.zero(Float, dirs, batch, hidden)
		}
		if batchFirst {
			t = c.transpose(t, []int{1, 0, 2})
		}
		if t.Type != Float || !slices.Equal(t.Shape, []int{dirs, batch, hidden}) {
			c.fail("a state %v of %d directions, %d samples, %d units", t, dirs, batch, hidden)
		}
		own := c.new(Float, t.Shape...)
		copy(own.F, c.unlast(t).F)
		return own
	}
	h := start(5)
	var cell *Tensor
	if gates == 4 {
		cell = start(6)
	}
	bias, peep := c.unlast(c.optional(3)), c.unlast(c.optional(7))
	if bias != nil && bias.Len() != dirs*2*gates*hidden || peep != nil && peep.Len() != dirs*3*hidden {
		c.fail("a bias %v and peepholes %v", bias, peep)
	}
	if len(lengths) != batch {
		c.fail("%d lengths of %d samples", len(lengths), batch)
	}
	c.spend(dirs, steps, batch, gates*hidden, in+hidden)
	y := c.zero(Float, steps, dirs, batch, hidden)
	for d := range dirs {
		l := &layer{call: c, gates: gates, batch: batch, in: in, hidden: hidden, w: part(w, d, dirs), r: part(r, d, dirs)}
		l.bias, l.peep = make([]float32, 2*gates*hidden), make([]float32, 3*hidden)
		if bias != nil {
			l.bias = part(bias, d, dirs).F
		}
		if peep != nil {
			l.peep = part(peep, d, dirs).F
		}
		l.activations(d)
		l.h = h.F[d*batch*hidden : (d+1)*batch*hidden]
		if cell != nil {
			l.cell = cell.F[d*batch*hidden : (d+1)*batch*hidden]
		}
		back := direction == "reverse" || d == 1
		for k := range steps {
			// A sample that goes backwards begins at its own end.
			for b := range batch {
				if k >= lengths[b] {
					continue
				}
				t := k
				if back {
					t = lengths[b] - 1 - k
				}
				l.step(x.F[(t*batch+b)*in:][:in], b)
				copy(y.F[((t*dirs+d)*batch+b)*hidden:][:hidden], l.h[b*hidden:])
			}
			c.stop()
		}
	}
	outputs := []*Tensor{y, h, cell}
	for i, t := range outputs {
		if t == nil || !c.wants(i) {
			continue
		}
		if batchFirst {
			perm := []int{1, 0, 2}
			if i == 0 {
				perm = []int{2, 0, 1, 3}
			}
			t = c.transpose(t, perm)
		}
		c.out[i] = t
	}
}

// part is one of n equal parts of a tensor.
func part(t *Tensor, i, n int) *Tensor {
	size := len(t.F) / n
	return &Tensor{Type: Float, F: t.F[i*size : (i+1)*size]}
}

// A layer is one direction of a recurrent network.
type layer struct {
	*call
	gates, batch, in, hidden int
	w, r                     *Tensor
	bias, peep               []float32
	h, cell                  []float32
	f, g, k                  func(v float64) float64
	clip                     float64
	coupled, linear          bool
}

func (l *layer) activations(d int) {
	names := map[int][]string{1: {"Tanh"}, 3: {"Sigmoid", "Tanh"}, 4: {"Sigmoid", "Tanh", "Tanh"}}[l.gates]
	n := len(names)
	if a := l.attribute("activations"); a != nil {
		if len(a.Strings) < (d+1)*n {
			l.fail("%d activations", len(a.Strings))
		}
		for i := range n {
			names[i] = string(a.Strings[d*n+i])
		}
	}
	number := func(key string, i int, usual map[string]float64) float64 {
		if a := l.attribute(key); a != nil && d*n+i < len(a.Floats) {
			return float64(a.Floats[d*n+i])
		}
		return usual[names[i]]
	}
	var list []func(v float64) float64
	for i, name := range names {
		list = append(list, l.gate(name, number("activation_alpha", i, map[string]float64{"HardSigmoid": f32(0.2), "LeakyRelu": f32(0.01), "Elu": 1, "Affine": 1}),
			number("activation_beta", i, map[string]float64{"HardSigmoid": 0.5})))
	}
	l.f = list[0]
	if n > 1 {
		l.g = list[1]
	}
	if n > 2 {
		l.k = list[2]
	}
	l.clip = l.number("clip", math.Inf(1))
	l.coupled, l.linear = l.flag("input_forget", false), l.flag("linear_before_reset", false)
}

// chain is w·x of one row of a gate's weights.
func chain(w, x []float32) float64 {
	s := 0.0
	for i, v := range x {
		s += float64(float64(v) * float64(w[i]))
	}
	return s
}

func (l *layer) hold(v float64) float64 { return math.Min(math.Max(v, -l.clip), l.clip) }

// pre is a gate's sum over the input, the state, and both biases.
func (l *layer) pre(gate, unit int, x, h []float32) (input, state float64) {
	row := gate*l.hidden + unit
	input = chain(l.w.F[row*l.in:(row+1)*l.in], x) + float64(l.bias[row])
	state = chain(l.r.F[row*l.hidden:(row+1)*l.hidden], h) + float64(l.bias[l.gates*l.hidden+row])
	return input, state
}

// step advances one sample.
func (l *layer) step(x []float32, b int) {
	n := l.hidden
	h := slices.Clone(l.h[b*n : (b+1)*n])
	next := l.h[b*n : (b+1)*n]
	both := func(gate, unit int) float64 {
		i, s := l.pre(gate, unit, x, h)
		return i + s
	}
	switch l.gates {
	case 1:
		for u := range n {
			next[u] = float32(l.f(l.hold(both(0, u))))
		}
	case 3:
		z, reset := make([]float64, n), make([]float32, n)
		r := make([]float64, n)
		for u := range n {
			z[u], r[u] = l.f(l.hold(both(0, u))), l.f(l.hold(both(1, u)))
			reset[u] = float32(r[u] * float64(h[u]))
		}
		for u := range n {
			var v float64
			if l.linear {
				i, s := l.pre(2, u, x, h)
				v = i + float64(r[u]*s)
			} else {
				i, s := l.pre(2, u, x, reset)
				v = i + s
			}
			next[u] = float32(float64((1-z[u])*l.g(l.hold(v))) + float64(z[u]*float64(h[u])))
		}
	case 4: // gates are i, o, f, c
		cell := l.cell[b*n : (b+1)*n]
		for u := range n {
			old := float64(cell[u])
			i := l.f(l.hold(both(0, u) + float64(float64(l.peep[u])*old)))
			f := l.f(l.hold(both(2, u) + float64(float64(l.peep[2*n+u])*old)))
			if l.coupled {
				f = 1 - i
			}
			v := float64(f*old) + float64(i*l.g(l.hold(both(3, u))))
			cell[u] = float32(v)
			o := l.f(l.hold(both(1, u) + float64(float64(l.peep[n+u])*v)))
			next[u] = float32(o * l.k(v))
		}
	}
}
