package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Options say how a tape computes.
type Options struct {
	DType      kernels.DType // of activations and their gradients: F32 or BF16
	Math       kernels.Math  // of products
	Train      bool          // record what leads to trained parameters
	Lean       bool          // with Train: one packed copy of what is trained at a time (param.go)
	Checkpoint int           // how many of every AllBlocks blocks run again in backward instead of keeping their values
	Aside      *Aside        // host memory for the inputs of blocks that run again (block.go); nil: they stay
	Tokens     *Tokens       // the tape's share of the tokens of each sample (tokens.go); nil: it has all
}

// Tape computes values and remembers how, for backward.
type Tape struct {
	Options
	// Keys, one a sample, name the samples of this pass for operations that draw
	// (Dropout). They must not depend on the sample's place in the batch.
	Keys []rng.Key

	pool       *tensor.Pool
	be         kernels.Backend
	frame      *frame
	uses       map[*Param]int   // how often backward added to a parameter
	equal      map[[2]int][]int // segments of samples of equal length, by count and rows
	born       int              // values made since Reset
	rerun      bool             // a block is being run again,
	bornBefore int              // whose operands are older than this
	spent      bool             // backward ran
	blocks     int              // that were run since Reset
	inside     int              // kept blocks that are under way,
	insideFrom int              // and the first value of the outermost
	lean       *Param           // whose packed copy is the one that Lean keeps
	reads      blockReads       // of streamed weights
}

// frame is what a stretch of the forward made.
type frame struct {
	values     []*Value
	nodes      []*node
	unrecorded bool // values know whether they need gradients, but no operation is recorded
}

// node is a recorded operation.
type node struct {
	name  string
	outs  []*Value
	saved []*tensor.Tensor
	back  func()
	born  int // a block's place among values
}

// New is an empty tape that takes its memory from pool.
func New(pool *tensor.Pool, o Options) *Tape {
	return &Tape{Options: o, pool: pool, be: pool.Backend(), frame: new(frame), uses: map[*Param]int{}, equal: map[[2]int][]int{}}
}

// Pool is where the tape's memory comes from.
func (tp *Tape) Pool() *tensor.Pool { return tp.pool }

// Value is a result on a tape.
type Value struct {
	tape      *Tape
	t         *tensor.Tensor
	grad      *tensor.Tensor
	segments  []int // rows of each sample, where they are ragged
	batch     int   // the number of samples, where the first axis does not count them
	needs     bool
	leaf      bool // its gradient is kept for the caller
	takesBF16 bool // backward accepts a bf16 gradient of an F32 value
	frame     *frame
	born      int
	inBlock   bool   // a block that runs again reads it
	isAside   bool   // its numbers are on the host,
	aside     []byte // here
}

// Tensor is the memory of the value, the tape's to free.
func (v *Value) Tensor() *tensor.Tensor { return v.t }

// Shape is the length of each axis.
func (v *Value) Shape() []int { return v.t.Shape() }

// Dim is the length of an axis; -1 is the last.
func (v *Value) Dim(i int) int { return v.t.Dim(i) }

// F32 copies the numbers to the host.
func (v *Value) F32() []float32 { return v.t.F32() }

// NeedsGrad reports whether a trained parameter or a Variable leads to the value.
func (v *Value) NeedsGrad() bool { return v.needs }

// Grad is the gradient of a Variable after Backward; nil if nothing reached it.
func (v *Value) Grad() *tensor.Tensor { return v.grad }

// Input is a value that gets no gradient. The tensor stays the caller's and must
// outlive the tape's pass.
func (tp *Tape) Input(t *tensor.Tensor) *Value {
	return tp.own(&Value{t: t.Retain()})
}

// Variable is an input whose gradient Backward leaves in Grad.
func (tp *Tape) Variable(t *tensor.Tensor) *Value {
	return tp.own(&Value{t: t.Retain(), needs: tp.Train, leaf: true})
}

// Upload is an input of the given numbers in the type of activations.
func (tp *Tape) Upload(name string, x []float32, shape ...int) *Value {
	return tp.own(&Value{t: tp.pool.FromF32(tp.DType, x, shape...).Named(name)})
}

func (tp *Tape) own(v *Value) *Value {
	if tp.spent {
		panic("autograd: the tape's backward has run; Reset it before the next forward")
	}
	v.tape, v.frame, v.born = tp, tp.frame, tp.born
	tp.born++
	tp.frame.values = append(tp.frame.values, v)
	return v
}

// result makes the value of an operation from its memory and its operands (absent ones
// may be nil). A Value takes the lengths of its samples from the first operand.
func (tp *Tape) result(name string, t *tensor.Tensor, in ...*Value) *Value {
	v := tp.own(&Value{t: t.Named(name)})
	for _, x := range in {
		if x == nil {
			continue
		}
		if x.tape != tp {
			panic(fmt.Sprintf("autograd: %s: an operand belongs to another tape", name))
		}
		if tp.rerun && x.frame != tp.frame && x.born >= tp.bornBefore {
			panic(fmt.Sprintf("autograd: %s: a block that runs again reads %v, made after it: it captured a variable that was assigned since; hand the value to Block", name, x.t))
		}
		v.needs = v.needs || x.needs
	}
	if len(in) > 0 && in[0] != nil && t.Rank() > 1 && in[0].t.Rank() > 1 {
		if in[0].t.Rows() == t.Rows() {
			v.segments = in[0].segments
		}
		if in[0].t.Dim(0) == t.Dim(0) {
			v.batch = in[0].batch
		}
	}
	return v
}

// needsParam marks a value that a trained parameter leads to.
func (v *Value) needsParam(ps ...*Param) *Value {
	for _, p := range ps {
		v.needs = v.needs || v.tape.Train && p != nil && p.Trained
	}
	return v
}

// record notes how outs were made, if any needs a gradient; otherwise it returns nil.
func (tp *Tape) record(outs ...*Value) *node {
	if tp.frame.unrecorded {
		return nil
	}
	for _, v := range outs {
		if v.needs {
			n := &node{name: v.t.Name(), outs: outs}
			tp.frame.nodes = append(tp.frame.nodes, n)
			return n
		}
	}
	return nil
}

// save keeps memory until the node's backward has run.
func (n *node) save(t *tensor.Tensor) *tensor.Tensor {
	t = t.Retain()
	n.saved = append(n.saved, t)
	return t
}

// hold hands memory over to the node.
func (n *node) hold(t *tensor.Tensor) *tensor.Tensor {
	n.saved = append(n.saved, t)
	return t
}

// Seed is a gradient that backward starts from.
type Seed struct {
	Of   *Value
	Grad []float32
}

// Backward takes gradients at outputs to the gradients of parameters (added to what is
// there) and of Variables. It uses the tape up: Reset follows.
func (tp *Tape) Backward(seeds ...Seed) {
	switch {
	case !tp.Train:
		panic("autograd: backward on a tape that does not train")
	case tp.spent:
		panic("autograd: a second backward on one tape; run the forward again")
	}
	for _, s := range seeds {
		if s.Of.tape != tp {
			panic("autograd: a seed of another tape, or of one that was Reset")
		}
		if s.Of.needs {
			tp.give(s.Of, tp.pool.FromF32(s.Of.t.DType(), s.Grad, s.Of.Shape()...).Named("gradient of "+s.Of.t.Name()))
		}
	}
	tp.spent = true
	clear(tp.uses)
	tp.backward(tp.frame)
}

// backward runs a frame's nodes from the last to the first.
func (tp *Tape) backward(f *frame) {
	for i := len(f.nodes) - 1; i >= 0; i-- {
		n := f.nodes[i]
		if n.reached() {
			n.back()
		}
		n.drop()
		f.nodes[i] = nil
	}
	f.nodes = f.nodes[:0]
}

func (n *node) reached() bool {
	for _, v := range n.outs {
		if v.grad != nil {
			return true
		}
	}
	return len(n.outs) == 0 // between samples
}

// drop lets go of everything that a node held.
func (n *node) drop() {
	for _, t := range n.saved {
		t.Free()
	}
	for _, v := range n.outs {
		v.dropGrad()
		v.release()
	}
	n.saved, n.outs, n.back = nil, nil, nil
}

// Release says that the caller will not use the values again. Memory that no backward
// reads goes back at once.
func (tp *Tape) Release(vs ...*Value) {
	least := 0
	if tp.Train && tp.Checkpoint > 0 && !tp.frame.unrecorded && !tp.rerun {
		if tp.inside == 0 {
			tp.putAside(vs) // a block that runs again needs what it was given
			return
		}
		least = tp.insideFrom
	}
	for _, v := range vs {
		if v.frame == tp.frame && !v.leaf && v.born >= least {
			v.release()
		}
	}
}

func (v *Value) release() {
	v.forgetAside()
	if !v.leaf && v.t.Alive() {
		v.t.Free()
	}
}

func (v *Value) dropGrad() {
	if v.grad != nil && !v.leaf {
		v.grad.Free()
		v.grad = nil
	}
}

// Reset frees every value; the tape is as new.
func (tp *Tape) Reset() {
	for _, n := range tp.frame.nodes {
		if n != nil {
			n.drop()
		}
	}
	for _, v := range tp.frame.values {
		v.leaf = false
		v.dropGrad()
		v.release()
		v.tape = nil
	}
	clear(tp.frame.values)
	clear(tp.frame.nodes)
	*tp.frame = frame{values: tp.frame.values[:0], nodes: tp.frame.nodes[:0]}
	tp.spent, tp.born, tp.blocks, tp.inside = false, 0, 0, 0
	tp.reads.depth = 0
	tp.dropLean()
}

// The gradient of a value has the value's shape and no gaps between rows. It has the value's type, or
// is the bf16 gradient of its only user, as it is: numbers that F32 has as well. It is added up from the
// last user to the first: an order that no batch changes.

// give adds g to the gradient of x, and takes g over.
func (tp *Tape) give(x *Value, g *tensor.Tensor) {
	d := x.t.DType()
	if g.DType() != d && !(x.takesBF16 && x.grad == nil && g.DType() == kernels.BF16) {
		c := tp.pool.New(d, g.Shape()...)
		tp.copyRows(c.Mat(), g.Mat())
		g.Free()
		g = c
	}
	switch {
	case x.grad == nil:
		x.grad = g
		return
	case x.grad.Shared() || x.grad.DType() != d: // another value has the same gradient, or it is of bf16
		sum := tp.pool.New(d, x.Shape()...)
		tp.be.Binary(&kernels.Binary{Op: kernels.Add, X: x.grad.Span(), Y: g.Span(), Z: sum.Span()})
		x.grad.Free()
		x.grad = sum
	default:
		tp.be.Binary(&kernels.Binary{Op: kernels.Add, X: x.grad.Span(), Y: g.Span(), Z: x.grad.Span()})
	}
	g.Free()
}

// giveMaybe is give for an operand that may be absent or need nothing; g is not taken.
func (tp *Tape) giveMaybe(x *Value, g *tensor.Tensor) {
	if x != nil && x.needs {
		tp.give(x, g.Reshape(x.Shape()...))
	}
}

// likeGrad is memory for a gradient of x.
func (tp *Tape) likeGrad(x *Value) *tensor.Tensor {
	return tp.pool.New(x.t.DType(), x.Shape()...).Named("gradient of " + x.t.Name())
}

// needed is memory for the gradient of x, if it is present and needs one.
func (tp *Tape) needed(x *Value) *tensor.Tensor {
	if x == nil || !x.needs {
		return nil
	}
	return tp.likeGrad(x)
}

// giveIf hands over a gradient that may be nil.
func (tp *Tape) giveIf(x *Value, g *tensor.Tensor) {
	if g != nil {
		tp.give(x, g)
	}
}

// matOf is the matrix of a tensor that may be nil.
func matOf(t *tensor.Tensor) kernels.Mat {
	if t == nil {
		return kernels.Mat{}
	}
	return t.Mat()
}

// mat is the matrix of a value that may be nil.
func mat(v *Value) kernels.Mat {
	if v == nil {
		return kernels.Mat{}
	}
	return v.t.Mat()
}

// samples are the rows of each sample of a value.
func (v *Value) samples() []int {
	if v.segments != nil {
		return v.segments
	}
	n, rows := v.count(), v.t.Rows()
	if n == 0 || rows == 0 {
		return nil
	}
	k := [2]int{n, rows / n}
	s, ok := v.tape.equal[k]
	if !ok {
		for range n {
			s = append(s, rows/n)
		}
		v.tape.equal[k] = s
	}
	return s
}

// count is the number of samples of a value that is not ragged.
func (v *Value) count() int {
	switch {
	case v.batch > 0:
		return v.batch
	case v.t.Rank() < 2:
		return 1
	}
	return v.Dim(0)
}

// rowsPer is how many rows of x belong to each row of m: one row of m a sample.
func rowsPer(what string, x, m *Value) int {
	rows, samples := x.t.Rows(), m.t.Rows()
	if x.segments != nil || samples == 0 || rows%samples != 0 {
		panic(fmt.Sprintf("autograd: %s: %v has no equal number of rows for each row of %v", what, x.t, m.t))
	}
	return rows / samples
}

// copyRows copies a matrix, and casts where types differ.
func (tp *Tape) copyRows(dst, src kernels.Mat) {
	tp.be.Copy(&kernels.Copy{Src: src.Span, Dst: dst.Span,
		Shape:     [5]int{1, 1, 1, src.Rows, src.Cols},
		SrcStride: [5]int{0, 0, 0, src.Stride, 1},
		DstStride: [5]int{0, 0, 0, dst.Stride, 1}})
}

// Ragged says that the rows of x, [R, C], belong to samples of the given lengths.
func (tp *Tape) Ragged(x *Value, lengths []int) *Value {
	n := 0
	for _, l := range lengths {
		n += l
	}
	if n != x.t.Rows() {
		panic(fmt.Sprintf("autograd: lengths that add up to %d for the rows of %v", n, x.t))
	}
	y := tp.Reshape(x, x.Shape()...)
	y.segments = lengths
	return y
}
