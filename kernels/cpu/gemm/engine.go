package gemm

import (
	"sync"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Parallel calls task(0) ... task(n-1), in any order and at the same time, and
// returns when all are done.
type Parallel func(n int, task func(i int))

// Engine computes products and convolutions. It holds scratch memory that its calls reuse;
// calls may overlap.
type Engine struct {
	threads int
	budget  int                   // bytes of a task's block of A
	units   map[kernels.Math]unit // of products; empty: the loops of ref
	convs   map[kernels.Math]unit // of convolutions
	scratch arenas                // of tasks
	stages  arenas                // for panels of B that tasks share

	// Activate applies an activation to numbers in place, with ref's bits. New sets a
	// plain loop; who has a faster one puts it here.
	Activate func(op kernels.UnaryOp, v []float32)
}

// New makes an engine for a path; threads is the number that its tasks are cut for.
func New(path isa.Path, threads int) *Engine {
	all := [2]isa.Path{path, path}
	return NewMixed(all, all, threads)
}

// NewMixed makes an engine whose products and convolutions have a path for each arithmetic.
func NewMixed(products, convolutions [2]isa.Path, threads int) *Engine {
	return &Engine{threads: max(threads, 1), budget: blockBudget, units: mixed(products), convs: mixed(convolutions), Activate: activate}
}

// mixed are the units of a path for each arithmetic.
func mixed(paths [2]isa.Path) map[kernels.Math]unit {
	units := map[kernels.Math]unit{}
	for m, p := range paths {
		if u, ok := unitsOf(p)[kernels.Math(m)]; ok {
			units[kernels.Math(m)] = u
		}
	}
	return units
}

func activate(op kernels.UnaryOp, v []float32) {
	for i, x := range v {
		v[i] = ref.Activate(op, x)
	}
}

// Gemm computes a product.
func (e *Engine) Gemm(a *kernels.Gemm, par Parallel) {
	m, n, k := ref.GemmShape(a)
	if m == 0 || n == 0 {
		return
	}
	e.product(e.units[a.Math], a, m, n, k, par)
}

// product is Gemm by a unit; nil: by the loops of ref.
func (e *Engine) product(u unit, a *kernels.Gemm, m, n, k int, par Parallel) {
	if u != nil {
		newProduct(e, u, a, m, n, k).run(par)
		return
	}
	if a.Pair != nil {
		e.apart(a, m, n, par)
		return
	}
	// Rows of ref load all of B: few tasks, each of many rows.
	tasks := min(m, 4*e.threads, max(1, m*n*k>>15))
	par(tasks, func(i int) { ref.Gemm(a, i*m/tasks, (i+1)*m/tasks) })
}

// PackedBytes is the memory that a packed [n,k] weight takes.
func (e *Engine) PackedBytes(n, k int, m kernels.Math) int {
	if u, ok := e.units[m]; ok {
		return panels(n) * u.panelBytes(k)
	}
	return rowsBytes(n, k, m)
}

// rowsBytes is the memory of a weight that the loops of ref read.
func rowsBytes(n, k int, m kernels.Math) int {
	return n * k * [...]int{kernels.MathF32: 4, kernels.MathBF16: 2}[m]
}

// Pack fills p (Math, N, K and a Buf of PackedBytes are set) from the weight w.
func (e *Engine) Pack(p *kernels.Packed, w kernels.Mat, par Parallel) {
	u, ok := e.units[p.Math]
	if !ok {
		e.packRows(p, w, par)
		return
	}
	p.Form = u.form()
	if p.N == 0 || p.K == 0 {
		return
	}
	b, base := operandOf(w, false), pointer(p.Buf.Host)
	size := u.panelBytes(p.K)
	each := max(1, 1<<19/size) // panels a task
	tasks := (panels(p.N) + each - 1) / each
	par(tasks, func(i int) {
		s := e.scratch.take(tmpBytes)
		for j := i * each; j < min((i+1)*each, panels(p.N)); j++ {
			u.packB(unsafe.Add(base, j*size), s.get(0), b, j*panel, min(panel, p.N-j*panel), 0, p.K)
		}
		e.scratch.put(s)
	})
}

// PackMade is Pack of a weight in a type whose rows lo to hi-1 made writes, from the beginning of dst on.
func (e *Engine) PackMade(p *kernels.Packed, d kernels.DType, made func(dst kernels.Mat, lo, hi int), par Parallel) {
	rows := func(memory unsafe.Pointer, n int) kernels.Mat {
		size := n * p.K * d.Size()
		whole := &kernels.Buffer{Host: unsafe.Slice((*byte)(memory), size), Bytes: size}
		return kernels.NewMat(kernels.Span{Buf: whole, Len: n * p.K, DType: d}, n, p.K)
	}
	u, ok := e.units[p.Math]
	p.Form = ref.FormRows
	if ok {
		p.Form = u.form()
	}
	if p.N == 0 || p.K == 0 {
		return
	}
	par(panels(p.N), func(j int) {
		s := e.scratch.take(tmpBytes, panel*p.K*d.Size())
		lo, n := j*panel, min(panel, p.N-j*panel)
		part := rows(s.get(1), n)
		made(part, lo, lo+n)
		if ok {
			u.packB(unsafe.Add(pointer(p.Buf.Host), j*u.panelBytes(p.K)), s.get(0), operandOf(part, false), 0, n, 0, p.K)
		} else {
			ref.PackPart(p, part, lo)
		}
		e.scratch.put(s)
	})
}

// packRows is Pack for the loops of ref.
func (e *Engine) packRows(p *kernels.Packed, w kernels.Mat, par Parallel) {
	p.Form = ref.FormRows
	tasks := min(p.N, 4*e.threads)
	par(tasks, func(i int) { ref.Pack(p, w, i*p.N/tasks, (i+1)*p.N/tasks) })
}

// panel is the number of columns of a panel of B, and of a block of C.
const panel = 32

func panels(n int) int { return (n + panel - 1) / panel }

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// arena is scratch memory, cut into parts that begin on cache lines.
type arena struct {
	memory []byte
	parts  [9]unsafe.Pointer
	narrow bool // the task's panel has no more than 16 columns

	block    block
	epilogue epilogue
}

func (s *arena) get(i int) unsafe.Pointer { return s.parts[i] }

// arenas are those not in use.
type arenas struct {
	mu   sync.Mutex
	free []*arena
}

// take returns an arena with parts of at least the given sizes; contents are undefined.
func (l *arenas) take(sizes ...int) *arena {
	total := 64
	for _, n := range sizes {
		total += roundUp(n, 64)
	}
	s := l.nearest(total)
	if len(s.memory) < total {
		s.memory = nil // the collector's before as much again is asked for
		s.memory = make([]byte, total+min(total/4, 1<<20))
	}
	p := unsafe.Pointer(&s.memory[0])
	at := int(-uintptr(p) & 63)
	for i, n := range sizes {
		s.parts[i] = unsafe.Add(p, at)
		at += roundUp(n, 64)
	}
	return s
}

// nearest is the smallest arena of at least total bytes, the largest where none has, or an empty one.
func (l *arenas) nearest(total int) *arena {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) == 0 {
		return &arena{}
	}
	best := 0
	for i, s := range l.free {
		has, most := len(s.memory), len(l.free[best].memory)
		if has >= total && (most < total || has < most) || has > most && most < total {
			best = i
		}
	}
	s := l.free[best]
	last := len(l.free) - 1
	l.free[best] = l.free[last]
	l.free = l.free[:last]
	return s
}

func (l *arenas) put(s *arena) {
	s.parts = [len(s.parts)]unsafe.Pointer{} // of which some may point at an operand
	l.mu.Lock()
	l.free = append(l.free, s)
	l.mu.Unlock()
}

func pointer[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }
