package gemm

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// serial and threaded are two ways to run tasks.
func serial(n int, task func(int)) {
	for i := range n {
		task(i)
	}
}

func threaded(n int, task func(int)) {
	var w sync.WaitGroup
	for i := range n {
		w.Go(func() { task(n - 1 - i) })
	}
	w.Wait()
}

// paths are those that this machine has.
func paths(t testing.TB) []isa.Path {
	t.Logf("this CPU's paths: %s", isa.Paths())
	return isa.Paths()
}

const guardByte = 0xA5

// matrix is a Mat among guard bands, its start off by some elements.
func matrix(r *rand.Rand, d kernels.DType, rows, cols, pad int, wild bool) kernels.Mat {
	stride := cols + pad
	off := 16 + r.IntN(3)
	n := max(0, rows*stride-pad)
	b := &kernels.Buffer{Host: make([]byte, (off+n+16)*d.Size()+8)}
	for i := range b.Host {
		b.Host[i] = guardByte
	}
	m := kernels.Mat{Span: kernels.Span{Buf: b, Off: off, Len: n, DType: d}, Rows: rows, Cols: cols, Stride: stride}
	for i := range rows {
		for j := range cols {
			x := float32(r.NormFloat64())
			if wild {
				switch r.IntN(8) {
				case 0:
					x = math.Float32frombits(r.Uint32() & 0x807f_ffff) // denormal
				case 1:
					x = math.Float32frombits(r.Uint32()&0x807f_ffff | uint32(r.IntN(60)+20)<<23) // tiny
				case 2:
					x = []float32{0, negativeZero, float32(math.Inf(1)), float32(math.NaN()), math.MaxFloat32}[min(r.IntN(200), 4)]
				}
			}
			if d == kernels.F32 {
				m.F32()[i*stride+j] = x
			} else {
				m.BF16()[i*stride+j] = uint16(math.Float32bits(x) >> 16)
			}
		}
	}
	return m
}

func clone(m kernels.Mat) kernels.Mat {
	if m.Buf != nil {
		b := *m.Buf
		b.Host = append([]byte(nil), b.Host...)
		m.Buf = &b
	}
	return m
}

// same compares two matrices and all that lies around their elements.
func same(got, want kernels.Mat) error {
	if want.Buf == nil {
		return nil
	}
	size, wrong, first := want.DType.Size(), 0, ""
	for i := 0; i+size <= len(want.Buf.Host); i += size {
		x, y := got.Buf.Host[i:i+size], want.Buf.Host[i:i+size]
		if string(x) == string(y) {
			continue
		}
		at := i/size - want.Off
		number := func(b []byte) float32 {
			if size == 2 {
				return ref.FromBF16(*(*uint16)(unsafe.Pointer(&b[0])))
			}
			return *(*float32)(unsafe.Pointer(&b[0]))
		}
		v, w := number(x), number(y)
		if v != v && w != w {
			continue
		}
		if wrong++; first == "" {
			first = fmt.Sprintf("row %d column %d: %g (%x), want %g (%x)", at/want.Stride, at%want.Stride, v, x, w, y)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %dx%d differ: %s", wrong, want.Rows, want.Cols, first)
	}
	return nil
}

// shape is a case of TestEqualsRef.
type shape struct {
	layout     kernels.Layout
	math       kernels.Math
	m, n, k    int
	ta, tb, tc kernels.DType
	packed     bool
	wild       bool
	epilogue   int // bits: bias, pre, gate, residual, accumulate, alpha, activation
	segments   bool
	far        bool // rows of A are a multiple of 4 KiB apart
}

func (s shape) String() string {
	return fmt.Sprintf("%s %s %dx%dx%d %s,%s->%s packed=%t wild=%t epilogue=%07b segments=%t far=%t",
		s.layout, s.math, s.m, s.n, s.k, s.ta, s.tb, s.tc, s.packed, s.wild, s.epilogue, s.segments, s.far)
}

// gemm makes the operands of a case: the same for the same seed. w is the weight that
// stands for B where the case packs it.
func (s shape) gemm(seed uint64) (g *kernels.Gemm, w kernels.Mat) {
	r := rand.New(rand.NewPCG(seed, 1))
	pad := r.IntN(2) * 3
	g = &kernels.Gemm{Layout: s.layout, Math: s.math}
	ar, ac, br, bc := s.m, s.k, s.n, s.k
	if s.layout != kernels.NT {
		br, bc = s.k, s.n
	}
	if s.layout == kernels.TN {
		ar, ac = s.k, s.m
	}
	padA := pad
	if s.far {
		padA = roundUp(max(ac, 1), 4096/s.ta.Size()) - ac
	}
	g.A = matrix(r, s.ta, ar, ac, padA, s.wild)
	g.B = matrix(r, s.tb, br, bc, pad, s.wild)
	g.C = matrix(r, s.tc, s.m, s.n, pad, false)
	if s.segments {
		for left := s.k; left > 0; {
			n := r.IntN(min(left, 70) + 1)
			g.Segments = append(g.Segments, n)
			left -= n
		}
	}
	has := func(bit int) bool { return s.epilogue>>bit&1 == 1 }
	types := [...]kernels.DType{kernels.F32, kernels.BF16}
	if has(0) {
		g.Bias = matrix(r, types[r.IntN(2)], 1, s.n, 0, s.wild).Span
	}
	if has(1) {
		g.Pre = matrix(r, types[r.IntN(2)], s.m, s.n, pad, false)
	}
	if has(2) {
		g.GateRows = 1 + r.IntN(s.m+1)
		g.Gate = matrix(r, types[r.IntN(2)], (s.m+g.GateRows-1)/g.GateRows, s.n, pad, s.wild)
	}
	if has(3) {
		g.Residual = matrix(r, types[r.IntN(2)], s.m, s.n, pad, s.wild)
	}
	g.Accumulate = has(4) && s.tc == kernels.F32
	if has(5) {
		g.Alpha = 0.37
	}
	if has(6) {
		g.Act = kernels.SiLU
	}
	return g, g.B
}

func copyOf(g *kernels.Gemm) *kernels.Gemm {
	h := *g
	h.C, h.Pre = clone(g.C), clone(g.Pre)
	return &h
}

func (e *Engine) packed(w kernels.Mat, m kernels.Math) *kernels.Packed {
	p := &kernels.Packed{Math: m, N: w.Rows, K: w.Cols, Buf: &kernels.Buffer{Host: make([]byte, e.PackedBytes(w.Rows, w.Cols, m))}}
	e.Pack(p, w, serial)
	return p
}

// check runs a case on every path and compares bits with ref.
func check(t *testing.T, s shape, engines []*Engine) {
	t.Helper()
	seed := uint64(s.m*1000003 + s.n*1009 + s.k)
	g, w := s.gemm(seed)
	want := copyOf(g)
	if s.packed {
		want.B, want.W = kernels.Mat{}, ref.Backend{}.Pack(w, s.math)
	}
	ref.Backend{}.Gemm(want)
	for i, e := range engines {
		got := copyOf(g)
		if s.packed {
			got.B, got.W = kernels.Mat{}, e.packed(w, s.math)
		}
		e.Gemm(got, []Parallel{serial, threaded}[i%2])
		for _, m := range [][2]kernels.Mat{{got.C, want.C}, {got.Pre, want.Pre}} {
			if err := same(m[0], m[1]); err != nil {
				t.Errorf("%s, %d threads, %s: %v", unitOf(e), e.threads, s, err)
			}
		}
	}
}

func engines(t *testing.T) []*Engine {
	var all []*Engine
	for _, p := range paths(t) {
		all = append(all, New(p, 1), New(p, 2), shallow(p, 1), shallow(p, 2))
	}
	return all
}

// shallow is an engine whose blocks of A have as little k as they can: those of a larger one need more k than a test
// has time for.
func shallow(p isa.Path, threads int) *Engine {
	e := New(p, threads)
	e.budget = 1
	return e
}

// randomShape is a case of some size with everything else drawn.
func randomShape(r *rand.Rand, m, n, k int) shape {
	types := [...]kernels.DType{kernels.F32, kernels.BF16}
	s := shape{layout: kernels.Layout(r.IntN(3)), math: kernels.Math(r.IntN(2)), m: m, n: n, k: k,
		ta: types[r.IntN(2)], tb: types[r.IntN(2)], tc: types[r.IntN(2)], wild: r.IntN(4) == 0, far: r.IntN(4) == 0}
	s.packed = s.layout != kernels.TN && r.IntN(2) == 0
	if r.IntN(2) == 0 {
		s.epilogue = r.IntN(128)
	}
	if s.layout == kernels.TN && r.IntN(2) == 0 {
		s.segments, s.epilogue = true, s.epilogue&0x30
	}
	return s
}

// TestEqualsRef holds every path to ref, bit by bit, over sizes at which loops go wrong.
func TestEqualsRef(t *testing.T) {
	all := engines(t)
	sizes := []int{0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 130}
	r := rand.New(rand.NewPCG(1, 2))
	any := func() int { return sizes[r.IntN(len(sizes))] }
	if testing.Short() {
		sizes = []int{0, 1, 3, 33, 65}
	}
	for _, a := range sizes {
		for _, b := range sizes {
			check(t, randomShape(r, a, b, any()), all)
			check(t, randomShape(r, a, b, any()), all)
		}
		for _, k := range sizes {
			check(t, randomShape(r, a, any(), k), all)
		}
	}
	for range 6 {
		check(t, randomShape(r, r.IntN(300), r.IntN(300), 300+r.IntN(600)), all)
	}
	// Found by TestCampaign: a panel that lacks one line of 16, and no k in several blocks.
	check(t, shape{layout: kernels.NN, math: kernels.MathBF16, m: 57, n: 212, k: 15, ta: kernels.BF16, tb: kernels.BF16, packed: true}, all)
	check(t, shape{layout: kernels.NN, math: kernels.MathBF16, m: 219, n: 26, k: 0, ta: kernels.BF16, tb: kernels.F32}, all)
}

var campaign = flag.Duration("campaign", 0, "how long TestCampaign draws cases")

// TestCampaign draws cases for as long as -campaign says, other ones each time.
func TestCampaign(t *testing.T) {
	if *campaign == 0 {
		t.Skip("a campaign has no end of its own: go test -run Campaign -campaign 10m")
	}
	all, seed := engines(t), uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 2))
	cases := 0
	for end := time.Now().Add(*campaign); time.Now().Before(end) && !t.Failed(); cases++ {
		size := func() int { return int(min(700, r.ExpFloat64()*90)) }
		check(t, randomShape(r, size(), size(), size()), all)
	}
	t.Logf("%d cases from seed %d", cases, seed)
}

// TestNearestArena: a call takes the smallest scratch memory that has room, and where none has, the largest grows; so
// memory of different calls does not grow to the size of the largest one's in every place.
func TestNearestArena(t *testing.T) {
	var l arenas
	small, large := l.take(1<<10), l.take(1<<20)
	l.put(large)
	l.put(small)
	if s := l.take(1 << 9); s != small {
		t.Errorf("for 512 bytes memory of %d was taken", len(s.memory))
	}
	l.put(small)
	if s := l.take(1 << 19); s != large {
		t.Errorf("for 512 KiB memory of %d was taken", len(s.memory))
	}
	l.put(large)
	if s := l.take(1 << 21); s != large || len(s.memory) < 1<<21 || len(small.memory) > 1<<12 {
		t.Errorf("for 2 MiB memory of %d was taken", len(s.memory))
	}
}

// unitOf names an engine in errors.
func unitOf(e *Engine) string { return fmt.Sprintf("%T", e.units[kernels.MathBF16]) }
