package gemm

import (
	"math"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// product is one call, cut into tasks: row blocks x ranges of panels.
type product struct {
	*kernels.Gemm
	e       *Engine
	u       unit
	m, n, k int
	alpha   float32
	a, b    operand

	samples  []int  // lengths of the separate sums of k
	whole    [1]int // samples where there is one
	kp       int    // k with every sample padded to the unit's step
	depth    int    // k of a task's block of A: all, or less where several row blocks of all k would not fit the budget
	rowBlock int    // rows of a task
	width    int    // panels of a task
	rowBytes int    // distance of A's rows
	inPlace  bool   // A is not packed, but read where it lies
	size     int    // bytes of a panel of B
	later    bool   // there is more of an epilogue than a bias
	simple   bool   // there is not, and the sum is one
	shared   unsafe.Pointer
	from, to int // panels in shared

	low   *product // of the pair (pair.go)
	parts parts    // of a task's arena
}

// Budgets, in bytes. A task's block of A stays in L2 beside the panels that stream by;
// the shared packing of B stays in L3.
const (
	blockBudget  = 512 << 10
	writeBudget  = 128 << 10 // rows of C, where k is short
	sharedBudget = 24 << 20
)

// MostScratch is about the most that a call holds for its own time.
const MostScratch = sharedBudget

func newProduct(e *Engine, u unit, g *kernels.Gemm, m, n, k int) *product {
	p := &product{Gemm: g, e: e, u: u, m: m, n: n, k: k, alpha: g.Alpha}
	if g.Pair != nil {
		p.Gemm, p.low = lowOf(e, u, g)
	}
	if p.alpha == 0 {
		p.alpha = 1
	}
	if p.samples = g.Segments; len(p.samples) == 0 {
		p.whole[0] = k
		p.samples = p.whole[:]
	}
	p.a = operandOf(g.A, g.Layout == kernels.TN)
	for _, s := range p.samples {
		p.kp += roundUp(s, u.step())
	}
	p.size = max(64, u.panelBytes(p.kp)) // k may be 0
	switch {
	case g.W == nil:
		p.b = operandOf(g.B, g.Layout != kernels.NT)
	case g.W.Form != u.form():
		panic("gemm: a weight packed for another path")
	case g.Layout == kernels.NN:
		p.b = operand{packed: g.W}
	default:
		p.shared, p.to = pointer(g.W.Buf.Host), panels(n)
	}
	p.depth = p.kp
	if len(g.Segments) == 0 {
		p.depth = e.depthOf(u, m, p.kp)
	}
	p.rowBytes = u.rowBytes(p.depth)
	p.readInPlace()
	p.later = g.Act != kernels.Identity || !g.Pre.Empty() || !g.Gate.Empty() || !p.Residual.Empty() || g.Accumulate && len(g.Segments) == 0
	p.simple = !p.later && p.alpha == 1 && len(g.Segments) == 0 && k > 0
	p.parts = parts{a: partA, c: partC, bias: partBias}
	p.cut()
	return p
}

// readInPlace spares the packing of A where a task reads its rows as they are.
func (p *product) readInPlace() {
	if p.inPlace = len(p.Segments) == 0 && p.u.reads(p.a); p.inPlace {
		p.rowBytes = p.a.stride
	}
}

// depthOf is the k of a block of A. A block of few rows and all k would have every panel read from L3 for those few
// rows; a block of more rows and less k has sums that go to scratch and come back once a depth.
func (e *Engine) depthOf(u unit, m, k int) int {
	tall := min(m, tallest)
	if tall <= fewestRows || tall*u.rowBytes(k) <= e.budget { // one row block
		return k
	}
	depth := u.chunk()
	for depth < k && (tall-u.rows())*u.rowBytes(depth+u.chunk()) <= e.budget {
		depth += u.chunk()
	}
	return min(k, depth)
}

// shortK is the most k of a product that writes about as much memory as it reads: fewer rows of C at a time then leave
// room in the caches.
const shortK = 128

// The fewest rows of a block of a tall product, the most, and the most blocks of C that wait for a task's next depth.
const (
	fewestRows = 48
	tallest    = 192
	mostHeld   = 64
)

// cut chooses the tasks' size: row blocks whose A fits the budget, as equal as they
// can be, and ranges of panels long enough to repay packing A, short enough that
// every thread gets several tasks.
func (p *product) cut() {
	unit, fewest := p.u.rows(), fewestRows
	least := 4 // panels of a range
	if p.a.across {
		// Columns of A that fill cache lines, and are packed at more cost.
		unit, fewest, least = 32, 96, 16
	}
	most := max(fewest, min(tallest, p.e.budget/min(p.rowBytes, p.u.rowBytes(p.depth))))
	if p.kp <= shortK {
		most = min(most, max(fewest, writeBudget/(4*p.n)))
	}
	most = most / unit * unit
	blocks := (p.m + most - 1) / most
	p.rowBlock = roundUp((p.m+blocks-1)/blocks, unit)
	p.width = panels(p.n)
	if p.depth < p.kp { // blocks of C wait in scratch
		ranges := (p.width + mostHeld - 1) / mostHeld
		p.width = (p.width + ranges - 1) / ranges
	}
	blocks = (p.m + p.rowBlock - 1) / p.rowBlock
	for p.e.threads > 1 {
		tasks := blocks * ((panels(p.n) + p.width - 1) / p.width)
		half := (p.width + 1) / 2
		small := min(p.rowBlock, p.m)*half*panel*p.kp < 1<<20 // 10 us of bf16
		if tasks >= 6*p.e.threads || tasks >= p.e.threads && half < least || small || half == p.width {
			break
		}
		p.width = half
	}
}

// run packs B in stages of as many panels as the budget holds, where several row
// blocks read them, and computes.
func (p *product) run(par Parallel) {
	if p.low != nil {
		defer p.low.packLow(par)()
	}
	blocks := (p.m + p.rowBlock - 1) / p.rowBlock
	if p.shared != nil || blocks == 1 && p.depth == p.kp {
		p.compute(0, panels(p.n), par)
		return
	}
	stage := max(1, sharedBudget/p.size)
	s := p.e.stages.take(min(stage, panels(p.n)) * p.size)
	p.shared = s.get(0)
	for lo := 0; lo < panels(p.n); lo += stage {
		p.from, p.to = lo, min(lo+stage, panels(p.n))
		p.packShared(lo, max(1, 1<<18/p.size), par)
		p.compute(lo, p.to, par)
	}
	p.e.stages.put(s)
}

// packShared packs panels from lo on into shared memory; a task has `each` of them.
func (p *product) packShared(lo, each int, par Parallel) {
	par((p.to-lo+each-1)/each, func(i int) {
		s := p.e.scratch.take(tmpBytes)
		for j := lo + i*each; j < min(lo+(i+1)*each, p.to); j++ {
			p.packPanel(p.panel(j), s.get(0), j)
		}
		p.e.scratch.put(s)
	})
}

// panel is where panel j is in shared memory.
func (p *product) panel(j int) unsafe.Pointer { return unsafe.Add(p.shared, (j-p.from)*p.size) }

func (p *product) packPanel(dst, tmp unsafe.Pointer, j int) {
	k0, at := 0, 0
	for _, s := range p.samples {
		if s > 0 {
			p.u.packB(unsafe.Add(dst, p.u.panelBytes(at)), tmp, p.b, j*panel, min(panel, p.n-j*panel), k0, s)
		}
		k0, at = k0+s, at+roundUp(s, p.u.step())
	}
}

// compute runs the tasks of panels lo to hi-1.
func (p *product) compute(lo, hi int, par Parallel) {
	blocks := (p.m + p.rowBlock - 1) / p.rowBlock
	ranges := (hi - lo + p.width - 1) / p.width
	par(blocks*ranges, func(i int) {
		m0 := i / ranges * p.rowBlock
		j0 := lo + i%ranges*p.width
		p.task(m0, min(p.rowBlock, p.m-m0), j0, min(j0+p.width, hi))
	})
}

// Parts of a task's arena.
const (
	partTmp = iota
	partA
	partC
	partSample
	partPanel
	partBias
	partLowA
	partLowC
	partLowBias
)

// parts are those of a product, or of its pair.
type parts struct{ a, c, bias int }

// task computes rows m0 and on of panels j0 to j1-1.
func (p *product) task(m0, rows, j0, j1 int) {
	own, tall := 0, roundUp(rows, 16)
	if p.shared == nil {
		own = p.size
	}
	cBytes, sample, low := tall*panel*4, 0, 0
	if len(p.Segments) > 0 {
		sample = cBytes
	}
	if p.low != nil {
		low = 1
	}
	held := 1 // blocks of C
	if p.depth < p.kp {
		held = j1 - j0
	}
	s := p.e.scratch.take(tmpBytes, tall*p.packedBytes(), held*cBytes, sample, own, panel*4, tall*p.lowBytes(), low*cBytes, low*panel*4)
	if p.low != nil {
		p.low.packRows(s, m0, rows, p.low.all())
	}
	for d := (depth{0, min(p.depth, p.kp)}); ; d = (depth{d.hi, min(d.hi+p.depth, p.kp)}) {
		p.packRows(s, m0, rows, d)
		c := s.get(partC)
		for j := j0; j < j1; j++ {
			p.panelOf(s, m0, rows, j, d, j+1 < j1)
			if held > 1 {
				s.parts[partC] = unsafe.Add(s.get(partC), cBytes)
			}
		}
		s.parts[partC] = c
		if d.hi >= p.kp {
			break
		}
	}
	p.e.scratch.put(s)
}

// depth is a range of padded k: that of a block of A.
type depth struct{ lo, hi int }

func (p *product) all() depth { return depth{0, p.kp} }

// panelOf computes or goes on with the block of C of panel j.
func (p *product) panelOf(s *arena, m0, rows, j int, d depth, more bool) {
	b := s.get(partPanel)
	if p.shared != nil {
		b = p.panel(j)
	} else {
		p.packPanel(b, s.get(partTmp), j)
	}
	s.narrow = p.narrow(j)
	more = more && p.shared != nil
	switch {
	case p.low == nil || d.hi < p.kp:
		p.one(s, nil, b, m0, rows, j, d, more)
	case p.Layout == kernels.NN:
		p.one(s, nil, b, m0, rows, j, d, more)
		p.low.one(s, nil, p.low.panel(j), m0, rows, j, p.low.all(), false)
	default:
		p.one(s, p.low.sums(s, m0, rows, j), b, m0, rows, j, d, more)
	}
}

// packedBytes is the size of a row of packed A.
func (p *product) packedBytes() int {
	if p.inPlace {
		return 0
	}
	return p.rowBytes
}

// packRows packs a task's block of A, or points at it where it lies.
func (p *product) packRows(s *arena, m0, rows int, d depth) {
	if p.inPlace {
		s.parts[p.parts.a] = p.a.at(m0, d.lo)
		return
	}
	if d.hi-d.lo < p.kp {
		p.u.packA(s.get(p.parts.a), s.get(partTmp), p.rowBytes, p.a, m0, rows, d.lo, min(d.hi, p.k)-d.lo, 0)
		return
	}
	k0, at := 0, 0
	for _, length := range p.samples {
		if length > 0 {
			p.u.packA(s.get(p.parts.a), s.get(partTmp), p.rowBytes, p.a, m0, rows, k0, length, at)
		}
		k0, at = k0+length, at+roundUp(length, p.u.step())
	}
}

// one computes a block of C over some depth, after the last of which it is finished with u added: a block in scratch,
// nil for none.
func (p *product) one(s *arena, u, b unsafe.Pointer, m0, rows, j int, d depth, more bool) {
	bias := p.bias(s, j)
	last := d.hi >= p.kp
	direct := last && p.simple && u == nil && p.u.direct(p.C.DType) && (j+1)*panel <= p.n
	p.block(s, b, bias, m0, rows, j, d, more, direct)
	if last && !direct {
		p.finish(s, u, bias, m0, rows, j)
	}
}

// block adds up one block of C in scratch, sample after sample.
func (p *product) block(s *arena, b, bias unsafe.Pointer, m0, rows, j int, d depth, more, direct bool) {
	c := s.get(p.parts.c)
	if len(p.Segments) == 0 {
		var out unsafe.Pointer
		if direct {
			out = operandOf(p.C, false).at(m0, j*panel)
		}
		p.sum(c, s, b, out, bias, rows, d.lo, min(d.hi, p.k)-d.lo, d.lo, more)
		return
	}
	// The sum begins with C, or with the first product: -0 + x is x.
	n := rows * panel
	for i, sums := 0, unsafe.Slice((*float32)(c), n); i < n; i++ {
		sums[i] = negativeZero
	}
	if p.Accumulate {
		p.pass(p.u.passes().add, c, p.C, m0, rows, j)
	}
	at := 0
	for _, length := range p.Segments {
		p.sum(s.get(partSample), s, b, nil, nil, rows, at, length, 0, false)
		p.u.passes().addScaled(c, s.get(partSample), rows, p.alpha)
		at += roundUp(length, p.u.step())
	}
}

// narrow says whether half of panel j has no columns.
func (p *product) narrow(j int) bool { return p.n-j*panel <= panel/2 }

// sum is one sample's block of C, or goes on with it where the block of A begins at a k: chunks of k, so that a chunk
// of the panel stays in L1 while the rows go by. The last one stores the block where out is set.
func (p *product) sum(c unsafe.Pointer, s *arena, b, out, bias unsafe.Pointer, rows, at, k, begin int, more bool) {
	chunk := p.u.chunk()
	if rows <= p.u.rows() {
		chunk = k // the panel is read once
	}
	if k == 0 {
		clear(unsafe.Slice((*float32)(c), rows*panel))
	}
	for done := 0; done < k; done += chunk {
		length := min(chunk, k-done)
		from := unsafe.Add(b, p.u.panelBytes(at+done))
		next := from
		switch {
		case done+length < k:
			next = unsafe.Add(from, p.u.panelBytes(length))
		case more:
			next = unsafe.Add(b, p.size+p.u.panelBytes(begin)) // the next panel
		}
		s.block = block{c: uintptr(c), a: uintptr(s.get(p.parts.a)), b: uintptr(from), lda: uintptr(p.rowBytes),
			ahead: uintptr(next), aheadBytes: p.u.panelBytes(length), narrow: s.narrow}
		if done > 0 || begin > 0 {
			s.block.start = 1
		}
		if out != nil && done+length == k {
			s.block.out, s.block.outStride, s.block.bias = uintptr(out), uintptr(p.C.Stride*p.C.DType.Size()), uintptr(bias)
			s.block.outBF16 = int(p.C.DType)
		}
		p.u.run(&s.block, rows, at-begin+done, length)
	}
}

var negativeZero = math.Float32frombits(1 << 31)

// finish is the epilogue of a block of C, and adds u, a block in scratch.
func (p *product) finish(s *arena, u, bias unsafe.Pointer, m0, rows, j int) {
	o := operandOf(p.C, false)
	p.finishTo(target{p: o.at(m0, j*panel), stride: o.stride, dtype: p.C.DType}, s, u, bias, m0, rows, j)
}

// finishTo is finish for any target: by one pass where the path has it, or by one for each thing asked for, and one
// that stores.
func (p *product) finishTo(to target, s *arena, u, bias unsafe.Pointer, m0, rows, j int) {
	if p.u.passes().whole != nil {
		p.finishWhole(to, s, u, bias, m0, rows, j)
		return
	}
	p.finishSums(s, u, bias, m0, rows, j)
	row := s.get(p.parts.bias)
	if (p.later || u != nil) && !p.Bias.Empty() {
		fill(unsafe.Slice((*float32)(row), panel), negativeZero) // it was added
	}
	p.u.passes().store[to.dtype](s.get(p.parts.c), to.p, to.stride, rows, p.columns(j), row)
}

// target is where a finished block goes.
type target struct {
	p      unsafe.Pointer
	stride int
	dtype  kernels.DType
}

// finishSums is the epilogue but for the last bias, where nothing else follows it, in the block itself.
func (p *product) finishSums(s *arena, u, bias unsafe.Pointer, m0, rows, j int) {
	c, ps := s.get(p.parts.c), p.u.passes()
	if p.alpha != 1 && len(p.Segments) == 0 {
		row := s.get(p.parts.bias)
		fill(unsafe.Slice((*float32)(row), panel), p.alpha)
		ps.mul[kernels.F32](c, row, 0, rows, bits(panel))
		bias = p.bias(s, j)
	}
	if !p.later && u == nil {
		return
	}
	if !p.Bias.Empty() {
		ps.add[kernels.F32](c, bias, 0, rows, bits(panel))
	}
	if !p.Pre.Empty() {
		o, row := operandOf(p.Pre, false), s.get(partTmp)
		fill(unsafe.Slice((*float32)(row), panel), negativeZero)
		ps.store[p.Pre.DType](c, o.at(m0, j*panel), o.stride, rows, p.columns(j), row)
	}
	if p.Act != kernels.Identity {
		p.e.Activate(p.Act, unsafe.Slice((*float32)(c), rows*panel))
	}
	if !p.Gate.Empty() {
		o := operandOf(p.Gate, false)
		p.runs(m0, rows, func(r, n int) {
			ps.mul[p.Gate.DType](unsafe.Add(c, r*panel*4), o.at((m0+r)/p.GateRows, j*panel), 0, n, p.columns(j))
		})
	}
	if !p.Residual.Empty() {
		p.pass(ps.add, c, p.Residual, m0, rows, j)
	}
	if u != nil {
		ps.addScaled(c, u, rows, 1)
	}
	if p.Accumulate && len(p.Segments) == 0 {
		p.pass(ps.add, c, p.C, m0, rows, j)
	}
}

// finishWhole is finish by one pass, or by one before an activation and one behind it.
func (p *product) finishWhole(to target, s *arena, u, bias unsafe.Pointer, m0, rows, j int) {
	c, whole := s.get(p.parts.c), p.u.passes().whole
	e := &s.epilogue
	*e = epilogue{c: uintptr(c), rows: rows, columns: int(p.columns(j)), bias: uintptr(bias), alpha: p.alpha}
	if len(p.Segments) > 0 {
		e.alpha = 1
	}
	// at is the address of a matrix's block, its stride and type.
	at := func(m kernels.Mat, r int) (uintptr, uintptr, int) {
		o := operandOf(m, false)
		return uintptr(o.at(m0+r, j*panel)), uintptr(o.stride), int(m.DType)
	}
	if !p.Pre.Empty() {
		e.pre, e.preStride, e.preBF16 = at(p.Pre, 0)
	}
	if p.Act != kernels.Identity {
		if e.pre != 0 || e.alpha != 1 || !p.Bias.Empty() {
			e.dst, e.dstStride = e.c, panel*4
			whole(e)
		}
		p.e.Activate(p.Act, unsafe.Slice((*float32)(c), rows*panel))
		e.pre, e.alpha, e.bias = 0, 1, uintptr(unsafe.Pointer(&noBias))
	}
	e.dstBF16, e.dstStride = int(to.dtype), uintptr(to.stride)
	pre := e.pre
	p.runs(m0, rows, func(r, n int) {
		e.c, e.rows, e.dst = uintptr(c)+uintptr(r*panel*4), n, uintptr(to.p)+uintptr(r)*e.dstStride
		if pre != 0 {
			e.pre = pre + uintptr(r)*e.preStride
		}
		if !p.Gate.Empty() {
			o := operandOf(p.Gate, false)
			e.gate, e.gateBF16 = uintptr(o.at((m0+r)/p.GateRows, j*panel)), int(p.Gate.DType)
		}
		switch {
		case u != nil:
			e.add, e.addStride, e.addBF16 = uintptr(u)+uintptr(r*panel*4), panel*4, 0
		case !p.Residual.Empty():
			e.add, e.addStride, e.addBF16 = at(p.Residual, r)
		}
		if p.Accumulate && len(p.Segments) == 0 {
			e.old, e.oldStride, _ = at(p.C, r)
		}
		whole(e)
	})
}

// columns has a bit for each column of panel j that C has.
func (p *product) columns(j int) uint32 { return bits(min(panel, p.n-j*panel)) }

// noBias changes no number that it is added to.
var noBias = func() (row [panel]float32) {
	fill(row[:], negativeZero)
	return row
}()

// bias is where a panel's 32 biases are: in scratch, where they do not lie in memory as they are needed.
func (p *product) bias(s *arena, j int) unsafe.Pointer {
	if p.u.passes().whole != nil {
		switch {
		case p.Bias.Empty():
			return unsafe.Pointer(&noBias)
		case p.Bias.DType == kernels.F32 && (j+1)*panel <= p.n:
			return unsafe.Pointer(&p.Bias.F32()[j*panel])
		}
	}
	row := unsafe.Slice((*float32)(s.get(p.parts.bias)), panel)
	fill(row, negativeZero)
	if !p.Bias.Empty() {
		ref.Load(row[:min(panel, p.n-j*panel)], p.Bias, j*panel)
	}
	return pointer(row)
}

func fill(row []float32, x float32) {
	for i := range row {
		row[i] = x
	}
}

// pass combines a block with the same block of a matrix.
func (p *product) pass(f [2]pass, c unsafe.Pointer, m kernels.Mat, m0, rows, j int) {
	o := operandOf(m, false)
	f[m.DType](c, o.at(m0, j*panel), o.stride, rows, p.columns(j))
}

// runs are the runs of a block's rows that share a row of Gate.
func (p *product) runs(m0, rows int, do func(r, n int)) {
	for r := 0; r < rows; {
		n := rows - r
		if !p.Gate.Empty() {
			n = min(n, p.GateRows-(m0+r)%p.GateRows)
		}
		do(r, n)
		r += n
	}
}
