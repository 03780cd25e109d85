package onnx

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Card: changes to a graph before it runs.
//
//	constants   nodes of constants alone are computed once, where the result is not much larger than the file
//	batch norm  behind a convolution with constant weights, which nothing else reads: w·f and b·f + t, in float64, with
//	            f = scale / sqrt(var + eps), t = bias - mean·f, each rounded to float once
//	x·sigmoid   Mul(x, Sigmoid(x)) is one function (SiLU)
//	hard swish  x · clip(x + 3, 0, 6) / 6 is one function, each step of it rounded as before: no bit changes
//	GELU        x/√2, Erf, + 1, · x, · 1/2, in any order of factors, is one function (GELUErf)
//	epilogue    constants of channels that are added to a convolution, and an activation behind it,
//	            are computed with it; no bit changes
//
// Invariant (test): the answers of published networks with and without these differ by rounding alone.

// mostFolded is how many bytes a computed constant may have, however small the file is.
const mostFolded = 1 << 20

// fold computes the nodes of constants.
func (m *Model) fold() error {
	most := max(mostFolded, 4*m.bytes)
	r := &run{ctx: context.Background(), model: m, limits: m.limits, threads: threadsOf(m.threads), opset: m.opset, mem: &memory{free: map[int][][]float32{}, most: min(most, m.limits.Bytes)}}
	r.limits.Work = min(r.limits.Work, 1<<32)
	var nodes []*node
	for _, n := range m.graph.nodes {
		if n.operator.random || !m.allConstant(n) {
			nodes = append(nodes, n)
			continue
		}
		s := &scope{values: maps.Clone(m.constants)}
		if err := r.node(n, s); err != nil {
			// Whether it is an error that the node runs at all is known when it does.
			nodes = append(nodes, n)
			continue
		}
		c := &call{run: r}
		for _, name := range n.outputs {
			if name != "" {
				t := c.unlast(s.values[name])
				t.mem = nil
				m.constants[name] = t
			}
		}
	}
	m.graph.nodes = nodes
	return nil
}

func (m *Model) allConstant(n *node) bool {
	for _, name := range n.inputs {
		if name != "" && m.constants[name] == nil {
			return false
		}
	}
	for _, g := range n.graphs {
		if len(g.nodes) > 0 || len(g.outputNames) > 0 {
			return false
		}
	}
	return true
}

// fuse changes patterns of nodes.
func (m *Model) fuse() {
	m.rename()
	f := &fuser{Model: m, readers: map[string]int{}, writer: map[string]*node{}, gone: map[*node]bool{}}
	for _, name := range m.graph.outputNames {
		f.readers[name]++
	}
	for _, n := range m.graph.nodes {
		for _, name := range n.inputs {
			f.readers[name]++
		}
		for _, g := range n.graphs {
			for _, name := range g.free {
				f.readers[name] += 2
			}
		}
		for _, name := range n.outputs {
			f.writer[name] = n
		}
	}
	for _, n := range m.graph.nodes {
		switch n.op {
		case "BatchNormalization":
			f.batchNorm(n)
		case "Add":
			f.bias(n)
		case "Mul":
			if !f.silu(n) {
				f.gelu(n)
			}
		case "Div":
			f.hardSwish(n)
		}
	}
	m.graph.nodes = slices.DeleteFunc(m.graph.nodes, func(n *node) bool { return f.gone[n] })
	for _, n := range m.graph.nodes {
		f.epilogue(n)
	}
	m.graph.nodes = slices.DeleteFunc(m.graph.nodes, func(n *node) bool { return f.gone[n] })
}

// rename reads the inputs of Identity nodes in the place of their outputs.
func (m *Model) rename() {
	fixed := map[string]bool{}
	for _, name := range m.graph.outputNames {
		fixed[name] = true
	}
	for _, n := range m.graph.nodes {
		for _, g := range n.graphs {
			for _, name := range g.free {
				fixed[name] = true
			}
		}
	}
	names := map[string]string{}
	m.graph.nodes = slices.DeleteFunc(m.graph.nodes, func(n *node) bool {
		n.inputs = slices.Clone(n.inputs)
		for i, name := range n.inputs {
			if to, ok := names[name]; ok {
				n.inputs[i] = to
			}
		}
		if n.op != "Identity" || len(n.outputs) != 1 || fixed[n.outputs[0]] {
			return false
		}
		names[n.outputs[0]] = n.inputs[0]
		return true
	})
}

type fuser struct {
	*Model
	readers map[string]int
	writer  map[string]*node
	gone    map[*node]bool
}

// alone is the node of an operator that writes a value which nothing but one node reads.
func (f *fuser) alone(name string, readers int, ops ...string) *node {
	n := f.writer[name]
	if n == nil || f.gone[n] || f.readers[name] != readers || !slices.Contains(ops, n.op) || len(n.outputs) > 1 && n.outputs[1] != "" {
		return nil
	}
	return n
}

// number is a constant of one number.
func (f *fuser) number(name string) (float64, bool) {
	t := f.constants[name]
	if t == nil || t.Type != Float || t.Len() != 1 {
		return 0, false
	}
	return t.float(0), true
}

// replace puts one node in the place of another and those before it, which are removed.
func (f *fuser) replace(n *node, op, input string, act kernels.UnaryOp, removed ...*node) {
	n.op, n.inputs, n.attributes, n.graphs = op, []string{input}, nil, nil
	n.operator = operator{name: op, least: 1, most: 1, run: func(c *call) {
		x := c.at(0)
		c.need(x, Float)
		c.unary(x, act)
	}}
	for _, r := range removed {
		f.gone[r] = true
		for _, name := range r.inputs {
			f.readers[name]--
		}
		f.readers[r.outputs[0]] = 0
	}
}

func (f *fuser) silu(n *node) bool {
	for i := range 2 {
		s := f.alone(n.inputs[i], 1, "Sigmoid")
		if s == nil || s.inputs[0] != n.inputs[1-i] {
			continue
		}
		x := s.inputs[0]
		f.readers[x]-- // of the two, one stays
		f.replace(n, "SiLU", x, kernels.SiLU, s)
		f.readers[x]++
		return true
	}
	return false
}

// hardSwish is x · clip(x + 3, 0, 6) / 6, as exporters write it.
func (f *fuser) hardSwish(n *node) {
	m := f.alone(n.inputs[0], 1, "Mul")
	if v, ok := f.number(n.inputs[1]); !ok || v != 6 || m == nil {
		return
	}
	for i := range 2 {
		c := f.alone(m.inputs[i], 1, "Clip")
		if c == nil || !f.clips(c, 0, 6) {
			continue
		}
		a := f.alone(c.inputs[0], 1, "Add")
		if a == nil {
			continue
		}
		for k := range 2 {
			if v, ok := f.number(a.inputs[1-k]); !ok || v != 3 || a.inputs[k] != m.inputs[1-i] {
				continue
			}
			x := a.inputs[k]
			f.replace(n, "HardSwish", x, kernels.Identity, m, c, a)
			n.operator.run = hardSwishInSteps
			f.readers[x]++
			return
		}
	}
}

// clips reports whether a Clip has the bounds.
func (f *fuser) clips(n *node, low, high float64) bool {
	for i, want := range map[int]float64{1: low, 2: high} {
		var got float64
		if a := n.attributes[[]string{1: "min", 2: "max"}[i]]; a != nil {
			got = float64(a.Float)
		} else if i >= len(n.inputs) {
			return false
		} else if v, ok := f.number(n.inputs[i]); ok {
			got = v
		} else {
			return false
		}
		if got != want {
			return false
		}
	}
	return true
}

// hardSwishInSteps is x · clip(x + 3, 0, 6) / 6. Positive floats are in the order of their bits, and a NaN of x is one
// of the product whatever the factor is: the bounds are those of integers.
func hardSwishInSteps(c *call) {
	x := c.at(0)
	c.need(x, Float)
	out := c.like(x, Float)
	c.spend(x.Len())
	six := int32(math.Float32bits(6))
	c.each(x.Len(), 4, func(lo, hi int) {
		to := out.F[lo:hi]
		for i, v := range x.F[lo:hi] {
			b := min(max(int32(math.Float32bits(v+3)), 0), six)
			to[i] = float32(math.Float32frombits(uint32(b))*v) / 6
		}
	})
	c.put(out)
}

// gelu is a product of x, 1/2 and 1 + erf(x/√2).
func (f *fuser) gelu(n *node) bool {
	factors, removed := []string{n.inputs[0], n.inputs[1]}, []*node{}
	for i := 0; i < len(factors); i++ {
		if m := f.alone(factors[i], 1, "Mul"); m != nil && len(removed) < 2 {
			removed = append(removed, m)
			factors = append(slices.Delete(factors, i, i+1), m.inputs...)
			i = -1
		}
	}
	var x string
	var add *node
	half := 1.0
	for _, name := range factors {
		if v, ok := f.number(name); ok {
			half *= v
			continue
		}
		if a := f.alone(name, 1, "Add"); a != nil && add == nil && f.erfOf(a) != nil {
			add = a
			continue
		}
		if x != "" {
			return false
		}
		x = name
	}
	if add == nil || x == "" || half != 0.5 {
		return false
	}
	erf := f.erfOf(add)
	scale := f.alone(erf.inputs[0], 1, "Div", "Mul")
	if scale == nil || scale.inputs[0] != x {
		return false
	}
	v, ok := f.number(scale.inputs[1])
	if scale.op == "Mul" {
		v = 1 / v
	}
	if !ok || math.Abs(v-math.Sqrt2) > 1e-6 {
		return false
	}
	f.replace(n, "GELU", x, kernels.GELUErf, append(removed, add, erf, scale)...)
	f.readers[x]++
	return true
}

// erfOf is the Erf of a sum of it and 1.
func (f *fuser) erfOf(add *node) *node {
	for i := range 2 {
		if v, ok := f.number(add.inputs[1-i]); ok && v == 1 {
			return f.alone(add.inputs[i], 1, "Erf")
		}
	}
	return nil
}

// epilogue takes the activation behind a convolution of pictures.
func (f *fuser) epilogue(n *node) {
	act, ok := map[string]kernels.UnaryOp{"Relu": kernels.ReLU, "Sigmoid": kernels.Sigmoid, "SiLU": kernels.SiLU, "GELU": kernels.GELUErf}[n.op]
	if !ok {
		return
	}
	c := f.alone(n.inputs[0], 1, "Conv")
	if c == nil || c.act != kernels.Identity {
		return
	}
	if !f.ofPictures(c) {
		return
	}
	// The convolution runs where the activation did: nothing between them reads its result.
	c.act, c.outputs = act, n.outputs
	f.writer[n.outputs[0]] = c
	f.gone[n] = true
}

// ofPictures reports whether a node is a convolution that runs by conv2.
func (f *fuser) ofPictures(c *node) bool {
	w := f.constants[c.inputs[1]]
	return w != nil && w.Type == Float && (len(w.Shape) == 4 || len(w.Shape) == 3)
}

// bias takes constants of channels that are added to a convolution without a bias.
func (f *fuser) bias(n *node) {
	for i := range 2 {
		c, b := f.alone(n.inputs[i], 1, "Conv"), f.constants[n.inputs[1-i]]
		if c == nil || b == nil || !f.ofPictures(c) || len(c.inputs) > 2 || b.Type != Float {
			continue
		}
		w := f.constants[c.inputs[1]]
		rank := len(w.Shape)
		shape := append(slices.Repeat([]int{1}, max(0, rank-len(b.Shape))), b.Shape...)
		if want := slices.Repeat([]int{1}, rank); len(shape) == rank {
			want[1] = w.Shape[0]
			if slices.Equal(shape, want) {
				name := n.outputs[0] + "\x00bias"
				f.constants[name] = Floats(b.F, b.Len())
				c.inputs, c.outputs = []string{c.inputs[0], c.inputs[1], name}, n.outputs
				f.writer[n.outputs[0]] = c
				f.gone[n] = true
				return
			}
		}
	}
}

// batchNorm folds a BatchNormalization into the convolution before it.
func (f *fuser) batchNorm(n *node) {
	c := f.alone(n.inputs[0], 1, "Conv")
	if c == nil || len(n.outputs) > 1 && n.outputs[1] != "" {
		return
	}
	w := f.constants[c.inputs[1]]
	if w == nil || w.Type != Float || len(w.Shape) < 3 || n.attributes["training_mode"] != nil && n.attributes["training_mode"].Int != 0 {
		return
	}
	o := w.Shape[0]
	var p [4]*Tensor
	for i := range p {
		if p[i] = f.constants[n.inputs[i+1]]; p[i] == nil || p[i].Type != Float || p[i].Len() != o {
			return
		}
	}
	var old *Tensor
	if len(c.inputs) > 2 && c.inputs[2] != "" {
		if old = f.constants[c.inputs[2]]; old == nil || old.Type != Float || old.Len() != o {
			return
		}
	}
	eps := f32(1e-5)
	if a := n.attributes["epsilon"]; a != nil {
		eps = float64(a.Float)
	}
	weight, bias := Floats(make([]float32, len(w.F)), w.Shape...), Floats(make([]float32, o), o)
	size := len(w.F) / max(o, 1)
	for k := range o {
		s := p[0].float(k) / math.Sqrt(p[3].float(k)+eps)
		for i := k * size; i < (k+1)*size; i++ {
			weight.F[i] = float32(w.float(i) * s)
		}
		b := p[1].float(k) - float64(p[2].float(k)*s)
		if old != nil {
			b += float64(old.float(k) * s)
		}
		bias.F[k] = float32(b)
	}
	names := []string{n.outputs[0] + "\x00weight", n.outputs[0] + "\x00bias"} // no name of a file has such a byte
	f.constants[names[0]], f.constants[names[1]] = weight, bias
	c.inputs, c.outputs = []string{c.inputs[0], names[0], names[1]}, n.outputs
	f.writer[n.outputs[0]] = c
	f.gone[n] = true
}
