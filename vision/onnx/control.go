package onnx

import (
	"maps"
	"slices"
)

// Card: graphs within nodes. They read the values around them; Loop and Scan run theirs anew for every step, and
// every node of theirs counts as one that runs.

func controls() []operator {
	return []operator{
		{name: "If", least: 1, most: 1, run: branch, random: true},
		{name: "Loop", least: 2, most: many, run: loop, random: true},
		{name: "Scan", since: 9, least: 1, most: many, run: scan, random: true},
	}
}

// inner runs a graph of the node, and returns its outputs.
func (c *call) inner(key string, inputs []*Tensor) []*Tensor {
	g := c.node.graphs[key]
	if g == nil || g.outputNames == nil && len(g.nodes) == 0 && g.constants[""] != nil {
		c.fail("there is no graph %q", key)
	}
	if len(inputs) != len(g.inputs) {
		c.fail("graph %q has %d inputs; the node gives it %d", key, len(g.inputs), len(inputs))
	}
	s := &scope{outer: c.scope, values: maps.Clone(g.constants)}
	if s.values == nil {
		s.values = map[string]*Tensor{}
	}
	for i, in := range g.inputs {
		s.values[in.Name] = c.same(inputs[i])
	}
	c.check(c.run.graph(g, s, nil))
	var out []*Tensor
	for _, name := range g.outputNames {
		t, ok := s.find(name)
		if !ok {
			c.fail("graph %q: no node writes %q", key, name)
		}
		out = append(out, c.same(t))
	}
	return out
}

// truth is a tensor of one bool.
func (c *call) truth(t *Tensor) bool {
	if t.Type != Bool || t.Len() != 1 {
		c.fail("a condition %v; one bool is needed", t)
	}
	return t.I[0] != 0
}

func branch(c *call) {
	key := "else_branch"
	if c.truth(c.at(0)) {
		key = "then_branch"
	}
	out := c.inner(key, nil)
	if len(out) != len(c.out) {
		c.fail("graph %q has %d outputs; the node has %d", key, len(out), len(c.out))
	}
	copy(c.out, out)
}

func loop(c *call) {
	most, going := int64(-1), true
	if t := c.optional(0); t != nil {
		c.scalar(0, 0)
		if most = t.I[0]; most < 0 {
			most = 0
		}
	}
	if t := c.optional(1); t != nil {
		going = c.truth(t)
	}
	state := []*Tensor{}
	for i := 2; i < len(c.in); i++ {
		state = append(state, c.at(i))
	}
	var rows [][]*Tensor
	n := len(c.out) - len(state)
	if n < 0 {
		c.fail("%d outputs of %d values that are carried", len(c.out), len(state))
	}
	for i := int64(0); going && (most < 0 || i < most); i++ {
		cond := c.new(Bool)
		cond.I[0] = 1
		out := c.inner("body", append([]*Tensor{c.whole(i), cond}, state...))
		if len(out) != 1+len(state)+n {
			c.fail("the body has %d outputs; %d are needed", len(out), 1+len(state)+n)
		}
		going = c.truth(out[0])
		state = out[1 : 1+len(state)]
		rows = append(rows, out[1+len(state):])
	}
	for i, t := range state {
		c.out[i] = c.same(t)
	}
	for i := range n {
		var list []*Tensor
		for _, r := range rows {
			list = append(list, r[i])
		}
		c.out[len(state)+i] = c.stack(list, 0, c.node.graphs["body"].outputs[1+len(state)+i])
	}
}

// stack puts tensors beside each other on a new axis.
func (c *call) stack(list []*Tensor, axis int, info Info) *Tensor {
	if len(list) == 0 {
		t := info.Type
		if t.size() == 0 {
			t = Float
		}
		shape := []int{0}
		for _, d := range info.Shape {
			shape = append(shape, max(d, 0))
		}
		return c.new(t, shape...)
	}
	a := c.axis(axis, len(list[0].Shape)+1)
	views := make([]*Tensor, len(list))
	for i, t := range list {
		views[i] = c.view(t, slices.Insert(slices.Clone(t.Shape), a, 1)...)
	}
	return c.concat(views, a)
}

// scan walks along axes of some inputs. Before opset 9 it had a batch, which is not supported.
func scan(c *call) {
	n := c.int("num_scan_inputs", 0)
	states := len(c.in) - n
	if n < 1 || states < 0 {
		c.fail("num_scan_inputs is %d of %d inputs", n, len(c.in))
	}
	list := func(name string, count int) []int {
		v := c.ints(name)
		if v == nil {
			v = make([]int, count)
		}
		if len(v) != count {
			c.fail("attribute %s has %d numbers; %d are needed", name, len(v), count)
		}
		return v
	}
	outs := len(c.out) - states
	if outs < 0 {
		c.fail("%d outputs of %d states", len(c.out), states)
	}
	axes, back := list("scan_input_axes", n), list("scan_input_directions", n)
	outAxes, outBack := list("scan_output_axes", outs), list("scan_output_directions", outs)
	var state, inputs []*Tensor
	for i := range c.in {
		if i < states {
			state = append(state, c.at(i))
		} else {
			inputs = append(inputs, c.plain(i))
		}
	}
	length := -1
	for i, t := range inputs {
		axes[i] = c.axis(axes[i], len(t.Shape))
		if length >= 0 && t.Shape[axes[i]] != length {
			c.fail("inputs of %d and %d steps", length, t.Shape[axes[i]])
		}
		length = t.Shape[axes[i]]
	}
	rows := make([][]*Tensor, outs)
	for k := range length {
		given := slices.Clone(state)
		for i, t := range inputs {
			at := k
			if back[i] == 1 {
				at = length - 1 - k
			}
			part := c.cut(t, axes[i], at, 1)
			given = append(given, c.view(part, slices.Delete(slices.Clone(part.Shape), axes[i], axes[i]+1)...))
		}
		out := c.inner("body", given)
		if len(out) != states+outs {
			c.fail("the body has %d outputs; %d are needed", len(out), states+outs)
		}
		state = out[:states]
		for i, t := range out[states:] {
			rows[i] = append(rows[i], t)
		}
	}
	for i, t := range state {
		c.out[i] = c.same(t)
	}
	for i, list := range rows {
		if outBack[i] == 1 {
			slices.Reverse(list)
		}
		c.out[states+i] = c.stack(list, outAxes[i], c.node.graphs["body"].outputs[states+i])
	}
}
