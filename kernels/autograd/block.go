package autograd

// Activation checkpointing (Chen et al., 2016, "Training deep nets with sublinear memory
// cost"), and the scope of a block's memory.
//
// A block is a function of values and parameters. It is run in full in the forward. With
// Checkpoint nothing is recorded then; backward runs it again, records, and goes through
// the record. The second run reads the same operands and computes the same bits, and it
// adds to the very same gradients in the same order: no bit depends on Checkpoint. It may be
// a share of the blocks, evenly spread: each costs its forward once more.
//
// The inputs of blocks are all that is kept of a pass. With Options.Aside they lie in the host's memory: an input goes
// there when its caller releases it, and comes back while its block runs again.
//
// f must be a function of its operands: it draws by keys, and changes nothing. It may
// capture values that stay what they are, but not a variable that is assigned later
// (h = Block(... h ...)): on the second run it would see the later value, and panics.

// Block runs f on the operands in, and lets go of all values that f made, except those
// it returns and what backward reads.
func (tp *Tape) Block(f func(in ...*Value) []*Value, in ...*Value) []*Value {
	outer := tp.frame
	tp.reads.begin()
	defer tp.reads.end()
	if !tp.forgets() {
		if tp.inside == 0 {
			tp.insideFrom = tp.born
		}
		tp.inside++
		start := len(outer.values)
		outs := f(in...)
		outer.values = outer.values[:start+sweep(outer.values[start:], outs)]
		tp.inside--
		return outs
	}
	born := tp.born
	for _, x := range in {
		x.inBlock = true
	}
	tp.frame = &frame{unrecorded: true}
	outs := f(in...)
	inner := tp.frame
	tp.frame = outer
	kept := inner.values[:sweep(inner.values, outs)]
	for _, v := range kept {
		v.frame = outer
		outer.values = append(outer.values, v)
	}
	if n := tp.record(kept...); n != nil {
		n.name, n.born = "block", born
		n.back = func() { tp.again(f, in, outs, n.born) }
	}
	return outs
}

// AllBlocks is Options.Checkpoint for every block.
const AllBlocks = 4

// forgets reports whether the block that begins now is to run again in backward. Of some of AllBlocks it is those that
// come first: backward meets them last, when others have let their values go.
func (tp *Tape) forgets() bool {
	if !tp.Train || tp.rerun || tp.frame.unrecorded || tp.inside > 0 {
		return false
	}
	n := tp.blocks
	tp.blocks++
	kept := AllBlocks - tp.Checkpoint
	return (n+1)*kept/AllBlocks == n*kept/AllBlocks
}

// again runs a block a second time and takes the gradients of its results through it.
func (tp *Tape) again(f func(in ...*Value) []*Value, in, first []*Value, born int) {
	outer := tp.frame
	tp.frame, tp.rerun, tp.spent = new(frame), true, false
	tp.bornBefore = born
	tp.bringBack(in)
	second := f(in...)
	for i, v := range first {
		w := second[i]
		if w == v || v.grad == nil { // w == v: the block handed on what it was given
			continue
		}
		tp.give(w, v.grad)
		v.grad = nil
	}
	tp.spent = true
	inner := tp.frame
	tp.backward(inner)
	sweep(inner.values, nil)
	tp.frame, tp.rerun = outer, false
	for _, x := range in {
		if x.isAside && x.t.Alive() {
			x.t.Free() // the host still has it
		}
	}
}

// Aside is host memory for the inputs of blocks. Passes one after another take the same pieces.
type Aside struct {
	Held, Peak int // bytes
	free       map[int][][]byte
}

// take is memory for n bytes; nil where nothing is computed.
func (a *Aside) take(n int, dry bool) (piece []byte) {
	a.Held += n
	a.Peak = max(a.Peak, a.Held)
	if dry {
		return nil
	}
	if waiting := a.free[n]; len(waiting) > 0 {
		a.free[n] = waiting[:len(waiting)-1]
		return waiting[len(waiting)-1]
	}
	return make([]byte, n)
}

// give takes memory back.
func (a *Aside) give(n int, piece []byte) {
	if a.Held -= n; piece == nil {
		return
	}
	if a.free == nil {
		a.free = map[int][][]byte{}
	}
	a.free[n] = append(a.free[n], piece)
}

// bytes is the size of the value's numbers.
func (v *Value) bytes() int { return v.t.Len() * v.t.DType().Size() }

// putAside takes values to the host that their caller no longer reads. Those whose memory others read stay.
func (tp *Tape) putAside(vs []*Value) {
	if tp.Aside == nil || tp.Checkpoint < AllBlocks {
		return
	}
	for _, v := range vs {
		if !v.inBlock || v.frame != tp.frame || v.leaf || v.isAside || !v.t.Alive() || v.t.Shared() || !v.t.Contiguous() {
			continue
		}
		v.isAside, v.aside = true, tp.Aside.take(v.bytes(), tp.pool.Dry())
		if v.aside != nil {
			tp.be.Download(v.aside, v.t.Span())
		}
		v.t.Free()
	}
}

// bringBack makes values again that lie on the host.
func (tp *Tape) bringBack(vs []*Value) {
	for _, v := range vs {
		if !v.isAside || v.t.Alive() {
			continue
		}
		v.t = tp.pool.New(v.t.DType(), v.Shape()...).Named(v.t.Name())
		if v.aside != nil {
			tp.be.Upload(v.t.Span(), v.aside)
		}
	}
}

// forgetAside gives the value's host memory back.
func (v *Value) forgetAside() {
	if v.isAside {
		v.tape.Aside.give(v.bytes(), v.aside)
		v.isAside, v.aside = false, nil
	}
}

// Each runs f for every sample of a pass, where samples cannot share a batch, and returns the results in
// their order. Gradients have the bytes of passes of one sample: they are added in the samples' order, so
// that the last sample goes first here, and each sample's uses of a parameter are counted anew (sum). What
// f reads of parameters, nothing outside of Each may read.
func (tp *Tape) Each(samples int, f func(i int) *Value) []*Value {
	rows, keys := make([]*Value, samples), tp.Keys
	turn := func(i int) {
		if len(keys) == samples {
			tp.Keys = keys[i : i+1]
		}
	}
	for i := samples - 1; i >= 0; i-- {
		turn(i)
		rows[i] = f(i)
		if rows[i].needs && !tp.frame.unrecorded {
			tp.frame.nodes = append(tp.frame.nodes, &node{name: "sample", back: func() { turn(i); clear(tp.uses) }})
		}
	}
	tp.Keys = keys
	return rows
}

// sweep lets go of values that are not in keep, moves the others to the front and
// counts them.
func sweep(values, keep []*Value) int {
	n := 0
	for i, v := range values {
		values[i] = nil
		switch {
		case contains(keep, v) || v.leaf:
			values[n] = v
			n++
		default:
			v.release()
		}
	}
	return n
}

func contains(vs []*Value, v *Value) bool {
	for _, w := range vs {
		if w == v {
			return true
		}
	}
	return false
}
