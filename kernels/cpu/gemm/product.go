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
	rowBlock int    // rows of a task
	width    int    // panels of a task
	rowBytes int    // of packed A
	size     int    // bytes of a panel of B
	later    bool   // there is more of an epilogue than a bias
	simple   bool   // there is not, and the sum is one
	shared   unsafe.Pointer
	from, to int // panels in shared
}

// Budgets, in bytes. A task's block of A stays in L2 beside the panels that stream by;
// the shared packing of B stays in L3.
const (
	blockBudget  = 512 << 10
	sharedBudget = 24 << 20
)

// MostScratch is about the most that a call holds for its own time.
const MostScratch = sharedBudget

func newProduct(e *Engine, u unit, g *kernels.Gemm, m, n, k int) *product {
	p := &product{Gemm: g, e: e, u: u, m: m, n: n, k: k, alpha: g.Alpha}
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
	p.rowBytes = u.rowBytes(p.kp)
	p.later = g.Act != kernels.Identity || !g.Pre.Empty() || !g.Gate.Empty() || !g.Residual.Empty() || g.Accumulate && len(g.Segments) == 0
	p.simple = !p.later && p.alpha == 1 && len(g.Segments) == 0 && k > 0
	p.cut()
	return p
}

// cut chooses the tasks' size: row blocks whose A fits the budget, as equal as they
// can be, and ranges of panels long enough to repay packing A, short enough that
// every thread gets several tasks.
func (p *product) cut() {
	unit, fewest := p.u.rows(), 48 // rows
	least := 4                     // panels of a range
	if p.a.across {
		// Columns of A that fill cache lines, and are packed at more cost.
		unit, fewest, least = 32, 96, 16
	}
	most := max(fewest, min(192, blockBudget/p.rowBytes)) / unit * unit
	blocks := (p.m + most - 1) / most
	p.rowBlock = roundUp((p.m+blocks-1)/blocks, unit)
	p.width = panels(p.n)
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
	blocks := (p.m + p.rowBlock - 1) / p.rowBlock
	if p.shared != nil || blocks == 1 {
		p.compute(0, panels(p.n), par)
		return
	}
	stage := max(1, sharedBudget/p.size)
	s := p.e.stages.take(min(stage, panels(p.n)) * p.size)
	p.shared = s.get(0)
	for lo := 0; lo < panels(p.n); lo += stage {
		p.from, p.to = lo, min(lo+stage, panels(p.n))
		each := max(1, 1<<18/p.size)
		par((p.to-lo+each-1)/each, func(i int) {
			s := p.e.scratch.take(tmpBytes)
			for j := lo + i*each; j < min(lo+(i+1)*each, p.to); j++ {
				p.packPanel(p.panel(j), s.get(0), j)
			}
			p.e.scratch.put(s)
		})
		p.compute(lo, p.to, par)
	}
	p.e.stages.put(s)
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
)

// task computes rows m0 and on of panels j0 to j1-1.
func (p *product) task(m0, rows, j0, j1 int) {
	own := 0
	if p.shared == nil {
		own = p.size
	}
	cBytes := roundUp(rows, 16) * panel * 4
	s := p.e.scratch.take(tmpBytes, roundUp(rows, 16)*p.rowBytes, cBytes, cBytes, own, panel*4)
	k0, at := 0, 0
	for _, length := range p.samples {
		if length > 0 {
			p.u.packA(s.get(partA), s.get(partTmp), p.rowBytes, p.a, m0, rows, k0, length, at)
		}
		k0, at = k0+length, at+roundUp(length, p.u.step())
	}
	for j := j0; j < j1; j++ {
		b := s.get(partPanel)
		if p.shared != nil {
			b = p.panel(j)
		} else {
			p.packPanel(b, s.get(partTmp), j)
		}
		p.setBias(s, j)
		s.narrow = p.narrow(j)
		direct := p.simple && p.u.direct(p.C.DType) && (j+1)*panel <= p.n
		p.block(s, b, m0, rows, j, j+1 < j1 && p.shared != nil, direct)
		if !direct {
			p.finish(s, m0, rows, j)
		}
	}
	p.e.scratch.put(s)
}

// block adds up one block of C in scratch, sample after sample.
func (p *product) block(s *arena, b unsafe.Pointer, m0, rows, j int, more, direct bool) {
	c := s.get(partC)
	if len(p.Segments) == 0 {
		var out unsafe.Pointer
		if direct {
			out = operandOf(p.C, false).at(m0, j*panel)
		}
		p.sum(c, s, b, out, rows, 0, p.k, more)
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
		p.sum(s.get(partSample), s, b, nil, rows, at, length, false)
		p.u.passes().addScaled(c, s.get(partSample), rows, p.alpha)
		at += roundUp(length, p.u.step())
	}
}

// narrow says whether half of panel j has no columns.
func (p *product) narrow(j int) bool { return p.n-j*panel <= panel/2 }

// sum is one sample's block of C: chunks of k, so that a chunk of the panel stays in
// L1 while the rows go by. The last one stores the block where out is set.
func (p *product) sum(c unsafe.Pointer, s *arena, b, out unsafe.Pointer, rows, at, k int, more bool) {
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
		if done+length < k || more {
			next = unsafe.Add(b, p.u.panelBytes(roundUp(at+done+length, p.u.step())))
		}
		s.block = block{c: uintptr(c), a: uintptr(s.get(partA)), b: uintptr(from), lda: uintptr(p.rowBytes),
			ahead: uintptr(next), aheadBytes: p.u.panelBytes(length), narrow: s.narrow}
		if done > 0 {
			s.block.start = 1
		}
		if out != nil && done+length == k {
			s.block.out, s.block.outStride, s.block.bias = uintptr(out), uintptr(p.C.Stride*p.C.DType.Size()), uintptr(s.get(partBias))
			s.block.outBF16 = int(p.C.DType)
		}
		p.u.run(&s.block, rows, at+done, length)
	}
}

var negativeZero = math.Float32frombits(1 << 31)

// columns has a bit for each column of panel j that C has.
func (p *product) columns(j int) uint32 { return bits(min(panel, p.n-j*panel)) }

// finish is the epilogue of a block: one pass over scratch for each thing asked for,
// and one that stores.
func (p *product) finish(s *arena, m0, rows, j int) {
	c, ps := s.get(partC), p.u.passes()
	row := unsafe.Slice((*float32)(s.get(partBias)), panel)
	if p.alpha != 1 && len(p.Segments) == 0 {
		fill(row, p.alpha)
		ps.mul[kernels.F32](c, s.get(partBias), 0, rows, bits(panel))
		p.setBias(s, j)
	}
	if p.later {
		if !p.Bias.Empty() {
			ps.add[kernels.F32](c, s.get(partBias), 0, rows, bits(panel))
			fill(row, negativeZero)
		}
		if !p.Pre.Empty() {
			p.store(s, p.Pre, m0, rows, j)
		}
		if p.Act != kernels.Identity {
			p.e.Activate(p.Act, unsafe.Slice((*float32)(c), rows*panel))
		}
		if !p.Gate.Empty() {
			p.gate(c, m0, rows, j)
		}
		if !p.Residual.Empty() {
			p.pass(ps.add, c, p.Residual, m0, rows, j)
		}
		if p.Accumulate {
			p.pass(ps.add, c, p.C, m0, rows, j)
		}
	}
	p.store(s, p.C, m0, rows, j)
}

// setBias puts the panel's biases into scratch. Without biases it is -0, which changes no number that it is added to.
func (p *product) setBias(s *arena, j int) {
	row := unsafe.Slice((*float32)(s.get(partBias)), panel)
	fill(row, negativeZero)
	if !p.Bias.Empty() {
		ref.Load(row[:min(panel, p.n-j*panel)], p.Bias, j*panel)
	}
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

// gate multiplies runs of rows that share a row of Gate.
func (p *product) gate(c unsafe.Pointer, m0, rows, j int) {
	o := operandOf(p.Gate, false)
	for r := 0; r < rows; {
		row := (m0 + r) / p.GateRows
		n := min(rows-r, (row+1)*p.GateRows-m0-r)
		p.u.passes().mul[p.Gate.DType](unsafe.Add(c, r*panel*4), o.at(row, j*panel), 0, n, p.columns(j))
		r += n
	}
}

func (p *product) store(s *arena, m kernels.Mat, m0, rows, j int) {
	o := operandOf(m, false)
	p.u.passes().store[m.DType](s.get(partC), o.at(m0, j*panel), o.stride, rows, p.columns(j), s.get(partBias))
}
