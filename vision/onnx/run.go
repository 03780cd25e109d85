package onnx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// A run is one pass through a model.
type run struct {
	ctx     context.Context
	model   *Model
	limits  Limits
	threads int
	mem     *memory
	work    int64
	steps   int
	opset   int
}

// A scope is the values of one graph that runs, inside those of the graph around it.
type scope struct {
	outer  *scope
	values map[string]*Tensor
}

// find is a value of this graph, or of one around it.
func (s *scope) find(name string) (*Tensor, bool) {
	for ; s != nil; s = s.outer {
		if t, ok := s.values[name]; ok {
			return t, true
		}
	}
	return nil, false
}

// Run computes the outputs from the inputs, by name. Inputs that the file gives a value may be left out. A Model runs
// one pass at a time.
func (m *Model) Run(ctx context.Context, inputs map[string]*Tensor) (map[string]*Tensor, error) {
	return m.RunTo(ctx, inputs, nil)
}

// RunTo is Run that also returns values between nodes, by name.
func (m *Model) RunTo(ctx context.Context, inputs map[string]*Tensor, probes []string) (map[string]*Tensor, error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	ctx, done := context.WithTimeoutCause(ctx, m.limits.Time, fmt.Errorf("the run takes more than %v", m.limits.Time))
	defer done()
	if m.pool == nil {
		m.pool = map[int][][]float32{}
	}
	r := &run{ctx: ctx, model: m, limits: m.limits, threads: threadsOf(m.threads), opset: m.opset, mem: &memory{free: m.pool, most: m.limits.Bytes}}
	for class, list := range m.pool {
		r.mem.kept += 4 * int64(class*len(list))
	}
	s := &scope{values: maps.Clone(m.constants)}
	for _, in := range m.graph.inputs {
		t := inputs[in.Name]
		if t == nil {
			if _, ok := s.values[in.Name]; ok {
				continue
			}
			return nil, fmt.Errorf("%s: input %q is missing; the model's are %s", m.name, in.Name, m.inputNames())
		}
		if err := in.Accepts(t); err != nil {
			return nil, fmt.Errorf("%s: input %q: %w", m.name, in.Name, err)
		}
		own := *t
		own.mem = nil
		s.values[in.Name] = &own
	}
	for name := range inputs {
		if !slices.ContainsFunc(m.graph.inputs, func(i Info) bool { return i.Name == name }) {
			return nil, fmt.Errorf("%s: it has no input %q; its inputs are %s", m.name, name, m.inputNames())
		}
	}
	kept := map[string]bool{}
	for _, p := range probes {
		kept[p] = true
	}
	if err := r.graph(m.graph, s, kept); err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	m.peak = max(m.peak, r.mem.peak)
	out := map[string]*Tensor{}
	c := &call{run: r}
	for _, name := range append(slices.Clone(m.graph.outputNames), probes...) {
		t, ok := s.values[name]
		if !ok {
			return nil, fmt.Errorf("%s: no node writes %q", m.name, name)
		}
		own := *t
		own.hold()
		c.unlast(&own)
		out[name] = own.clone()
	}
	return out, nil
}

// Peak is the most bytes that tensors took in a run so far, constants apart.
func (m *Model) Peak() int64 { return m.peak }

// clone is a copy with memory of its own.
func (t *Tensor) clone() *Tensor {
	return &Tensor{Type: t.Type, Shape: slices.Clone(t.Shape), F: slices.Clone(t.F), D: slices.Clone(t.D), I: slices.Clone(t.I), S: slices.Clone(t.S)}
}

func (m *Model) inputNames() string {
	var names []string
	for _, in := range m.graph.inputs {
		names = append(names, in.String())
	}
	return strings.Join(names, ", ")
}

// graph runs the nodes of a graph. Values of kept stay after their last use.
func (r *run) graph(g *graph, s *scope, kept map[string]bool) error {
	for _, n := range g.nodes {
		if err := r.node(n, s); err != nil {
			return err
		}
		for _, name := range n.last {
			if !kept[name] {
				r.mem.release(s.values[name])
				delete(s.values, name)
			}
		}
	}
	return nil
}

// node runs one node. Its error names it.
func (r *run) node(n *node, s *scope) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case refusal:
			err = v.err
		case runtime.Error: // an index or a length that no operator checks
			err = fmt.Errorf("its inputs do not fit: %v", v)
		default:
			panic(v)
		}
		if err != nil && !errors.As(err, new(named)) {
			err = named{fmt.Errorf("%s: %w", n, err)}
		}
	}()
	if r.steps++; r.steps > r.limits.Steps {
		return fmt.Errorf("more than %d nodes have run", r.limits.Steps)
	}
	r.stop()
	c := &call{run: r, scope: s, node: n, attrs: n.attributes, in: make([]*Tensor, len(n.inputs)), out: make([]*Tensor, len(n.outputs))}
	for i, name := range n.inputs {
		if name == "" {
			continue
		}
		t, ok := s.find(name)
		if !ok {
			return fmt.Errorf("its input %q has no value", name)
		}
		c.in[i] = t
	}
	n.operator.run(c)
	for i, name := range n.outputs {
		switch {
		case c.out[i] == nil && name == "":
		case c.out[i] == nil:
			return fmt.Errorf("its output %d (%q) is not supported", i, name)
		case name == "":
			r.mem.release(c.out[i])
		default:
			s.values[name] = c.out[i]
			if r.model.watch != nil {
				r.model.watch(n, c.out[i])
			}
		}
	}
	return nil
}

// named is an error that names its node.
type named struct{ error }

func (n named) Unwrap() error { return n.error }
