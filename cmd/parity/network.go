package main

import (
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Cases of networks: a model folder, inputs in.*, outputs out.*, fixed cotangents cot.* and
// gradients grad.in.*, grad.w.* of the sum of out·cot. Everything is trained, in fp32.

// network is one such case on its way through a model.
type network struct {
	*Case
	params *nn.Params
	source nn.Source
	tape   *autograd.Tape
	inputs map[string]operand
	outs   map[string]operand
	seeds  []autograd.Seed // besides those of the recorded cotangents
}

// how says how a folder is opened.
type how struct {
	names       func(nn.Source) nn.Source // nil: as they are
	source      nn.Source                 // in place of the folder's files; nil: these
	frozen      bool                      // nothing is trained but adapters
	forwardOnly bool
}

// operand is a value and whether the case has it as NCHW, the engine as NHWC.
type operand struct {
	v       *autograd.Value
	picture bool
}

// runNetwork opens the case's folder, lets forward build the model and run it, and goes
// backward where the case has gradients.
func runNetwork(c *Case, folder string, forward func(n *network)) {
	runFolder(c, folder, how{}, forward)
}

func runFolder(c *Case, folder string, how how, forward func(n *network)) {
	be := must(c.open())
	defer be.Close()
	pool := tensor.NewPool(be)
	o := nn.Options{Pool: pool, Source: how.source}
	if how.source == nil {
		set := must(safetensors.OpenFolder(folder))
		defer set.Close()
		o.Source = set
	}
	if how.names != nil {
		o.Source = how.names(o.Source)
	}
	if !how.frozen {
		o.Train = []string{".*"}
	}
	params := must(nn.New(o))
	defer params.Free()
	n := &network{Case: c, params: params, source: o.Source, tape: autograd.New(pool, autograd.Options{Train: true}), inputs: map[string]operand{}, outs: map[string]operand{}}
	defer n.tape.Reset()
	forward(n)
	if how.forwardOnly {
		return
	}
	n.backward()
}

// value is an input that the engine has in the case's shape.
func (n *network) value(name string) *autograd.Value {
	return n.input(name, n.Array(name), false)
}

// picture is an input that the case has as NCHW.
func (n *network) picture(name string) *autograd.Value {
	return n.input(name, channelsLast(n.Array(name)), true)
}

func (n *network) input(name string, a Array, picture bool) *autograd.Value {
	t := n.tape.Pool().FromF32(kernels.F32, to[float32](a.Data), a.Shape...)
	defer t.Free()
	v := n.tape.Variable(t)
	n.inputs[name] = operand{v, picture}
	return v
}

// floats are an input's numbers in fp32.
func (n *network) floats(name string) []float32 { return to[float32](n.Floats(name)) }

// rows are an input's rows in fp32.
func (n *network) rows(name string) [][]float32 {
	a := n.Array(name)
	cols := a.Shape[len(a.Shape)-1]
	var rows [][]float32
	for x := to[float32](a.Data); len(x) >= cols && cols > 0; x = x[cols:] {
		rows = append(rows, x[:cols])
	}
	return rows
}

// out records an output.
func (n *network) out(name string, v *autograd.Value) { n.output(name, v, false) }

// outPicture records an output that the case has as NCHW.
func (n *network) outPicture(name string, v *autograd.Value) { n.output(name, v, true) }

func (n *network) output(name string, v *autograd.Value, picture bool) {
	n.outs[name] = operand{v, picture}
	n.Put(name, n.array(v.Shape(), v.F32(), picture))
}

// array is numbers of the engine as the case has them.
func (n *network) array(shape []int, x []float32, picture bool) Array {
	a := Array{Shape: append([]int(nil), shape...), Data: to[float64](x)}
	if picture {
		return channelsFirst(a)
	}
	return a
}

// backward runs from the case's cotangents to the gradients that it lists.
func (n *network) backward() {
	if !n.Has("grad") {
		return
	}
	seeds := n.seeds
	for name, o := range n.outs {
		cot := "cot." + strings.TrimPrefix(name, "out.")
		if !n.Has(cot) {
			continue
		}
		a := n.Array(cot)
		if o.picture {
			a = channelsLast(a)
		}
		seeds = append(seeds, autograd.Seed{Of: o.v, Grad: to[float32](a.Data)})
	}
	n.tape.Backward(seeds...)
	for _, name := range n.Strings("grad") {
		if weight, ok := strings.CutPrefix(name, "grad.w."); ok {
			g := must(n.params.Grad(weight))
			n.Put(name, Array{Shape: g.Shape, Data: to[float64](must(g.Float32(nil)))})
			continue
		}
		in := strings.TrimPrefix(name, "grad.")
		o, ok := n.inputs[in]
		if !ok {
			failf("a gradient is recorded for %q, which the network does not read", in)
		}
		g := o.v.Grad()
		if g == nil {
			failf("nothing reached the gradient of %q", in)
		}
		n.Put(name, n.array(g.Shape(), g.F32(), o.picture))
	}
}

// channelsLast takes NCHW to NHWC, and clips' NCTHW to NTHWC.
func channelsLast(a Array) Array {
	if len(a.Shape) == 5 {
		return framesFirst(a)
	}
	if len(a.Shape) != 4 {
		return a
	}
	return moveAxes(a, 0, 2, 3, 1)
}

// channelsFirst takes NHWC to NCHW, and clips' NTHWC to NCTHW.
func channelsFirst(a Array) Array {
	if len(a.Shape) == 5 {
		return channelsBeforeFrames(a)
	}
	if len(a.Shape) != 4 {
		return a
	}
	return moveAxes(a, 0, 3, 1, 2)
}

// moveAxes makes axis i of the result axis order[i] of a, whose axes are four.
func moveAxes(a Array, order ...int) Array {
	old := [4]int{a.Shape[1] * a.Shape[2] * a.Shape[3], a.Shape[2] * a.Shape[3], a.Shape[3], 1}
	var n, stride [4]int
	for i, o := range order {
		n[i], stride[i] = a.Shape[o], old[o]
	}
	data := make([]float64, 0, len(a.Data))
	for i := range n[0] {
		for j := range n[1] {
			for k := range n[2] {
				for l := range n[3] {
					data = append(data, a.Data[i*stride[0]+j*stride[1]+k*stride[2]+l*stride[3]])
				}
			}
		}
	}
	return Array{Shape: n[:], Data: data}
}
