package tensor

import (
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

func TestSizeClasses(t *testing.T) {
	for _, kind := range []struct {
		of           func(n int) int
		first, spare int
	}{{classOf, 0, 4}, {lastingClassOf, coarseOnes, 16}} {
		last := kind.first
		for n := 1; n < 1<<20; n = n + 1 + n/97 {
			c := kind.of(n)
			if size := classBytes(c); size < n || n > smallest && size > n+n/kind.spare+1 {
				t.Fatalf("%d bytes get a piece of %d", n, size)
			}
			if c > kind.first && classBytes(c-1) >= n {
				t.Fatalf("%d bytes would fit class %d, and get %d", n, c-1, c)
			}
			if c < last {
				t.Fatalf("classes fall at %d bytes", n)
			}
			last = c
		}
	}
	if lastingClassOf(1) <= classOf(1<<47) {
		t.Error("what lasts has classes of what does not")
	}
}

func TestMemoryIsUsedAgain(t *testing.T) {
	p := NewPool(ref.Backend{})
	for range 5 {
		a, b := p.New(kernels.F32, 30, 40), p.New(kernels.BF16, 1000)
		a.Free()
		b.Free()
	}
	s := p.Stats()
	if s.Allocs != 2 || s.InUse != 0 || s.Live != 0 || s.Peak < 4*1200+2000 || s.Held != s.Peak {
		t.Errorf("after five rounds of two tensors: %+v", s)
	}
	p.Trim()
	if s := p.Stats(); s.Held != 0 {
		t.Errorf("after Trim: %+v", s)
	}
}

// narrow is a backend with little memory.
type narrow struct {
	ref.Backend
	left *int
}

type full struct{ error }

func (full) MemoryIsOut() bool { return true }

func (n narrow) Alloc(size int) *kernels.Buffer {
	if size > *n.left {
		panic(full{})
	}
	*n.left -= size
	return n.Backend.Alloc(size)
}

func (n narrow) Free(b *kernels.Buffer) {
	*n.left += b.Bytes
	n.Backend.Free(b)
}

// TestWaitingMemoryIsGivenBack: waiting memory of one class makes room for another; where nothing waits, memory is
// out.
func TestWaitingMemoryIsGivenBack(t *testing.T) {
	left := 1 << 16
	p := NewPool(narrow{left: &left})
	kept := p.New(kernels.F32, 1<<10)
	p.New(kernels.F32, 10<<10).Free()
	large := p.New(kernels.F32, 14<<10)
	if s := p.Stats(); s.Held != s.InUse || s.InUse != 60<<10 {
		t.Errorf("after room was made: %+v", s)
	}
	defer func() {
		if _, ok := recover().(full); !ok {
			t.Error("memory that nobody has was lent")
		}
		kept.Free()
		large.Free()
	}()
	p.New(kernels.F32, 14<<10)
}

// TestLimitCountsPacked: packed weights count to the limit until they are gone, and while their memory waits; where
// memory is out, all that waits makes room.
func TestLimitCountsPacked(t *testing.T) {
	left := 1 << 20
	p := NewPool(narrow{left: &left})
	p.Limit = 64 << 10
	m := p.New(kernels.F32, 64, 64)
	p.New(kernels.F32, 10<<10).Free()
	w := p.Pack(m.Mat(), kernels.MathF32) // 16 KiB, beside 56
	if s := p.Stats(); s.Held != 16<<10 {
		t.Errorf("a packed weight left %d bytes waiting beside it", s.Held-s.InUse)
	}
	p.New(kernels.F32, 8<<10).Free() // 64 KiB in all
	if s := p.Stats(); s.Held != 48<<10 {
		t.Errorf("within the limit %d bytes are held", s.Held)
	}
	p.Keep(w)
	if s := p.Stats(); s.Held != 64<<10 {
		t.Errorf("with the weight's memory %d bytes are held", s.Held)
	}
	p.New(kernels.F32, 1<<10).Free()
	if s := p.Stats(); s.Held != 52<<10 {
		t.Errorf("beside the weight's memory %d bytes are held", s.Held)
	}
	p.Limit = 0
	p.Keep(p.Pack(m.Mat(), kernels.MathF32))
	left = 0
	y := p.New(kernels.F32, 8<<10)
	left = 0
	z := p.New(kernels.F32, 3<<10)
	if s := p.Stats(); s.Held != s.InUse {
		t.Errorf("memory is out, and %d bytes wait", s.Held-s.InUse)
	}
	y.Free()
	z.Free()
	m.Free()
}

// TestKeep: the next weight of the same shape and arithmetic is packed into the memory of a former one, and has the
// bytes of one in memory of its own.
func TestKeep(t *testing.T) {
	p := NewPool(ref.Backend{})
	x := p.New(kernels.F32, 8, 16)
	x.UploadF32(make([]float32, 128))
	w := p.Pack(x.Mat(), kernels.MathF32)
	for i := range w.Buf.Host {
		w.Buf.Host[i] = 0xff
	}
	first := w.Buf
	p.Keep(w)
	for _, other := range []*kernels.Packed{p.Pack(x.Slice(0, 4).Mat(), kernels.MathF32), p.Pack(x.Mat(), kernels.MathBF16)} {
		if other.Buf == first {
			t.Error("a weight of another size took the memory")
		}
		p.Drop(other)
	}
	w = p.Pack(x.Mat(), kernels.MathF32)
	if w.Buf != first || slices.ContainsFunc(w.Buf.Host, func(b byte) bool { return b != 0 }) {
		t.Errorf("the weight lies in other memory: %v, or has bytes of the former one: %v", w.Buf != first, w.Buf.Host)
	}
	p.Keep(w)
	p.DropKept()
	if s := p.Stats(); s.Held != 512 {
		t.Errorf("%d bytes are held", s.Held)
	}
}

// TestKeepApart: the memory of weights waits on the host, and not where work is counted for a device.
func TestKeepApart(t *testing.T) {
	for _, apart := range []bool{false, true} {
		on := cpu.NewDry(cpu.Options{})
		on.Apart(apart)
		p := NewPool(on)
		x := p.New(kernels.F32, 64, 64)
		before := p.Stats().Held
		p.Keep(p.Pack(x.Mat(), kernels.MathF32))
		if waits := p.Stats().Held > before; waits == apart {
			t.Errorf("apart: %v, and the memory waits: %v", apart, waits)
		}
	}
}

// repacking is a narrow backend that takes memory for the time of packing.
type repacking struct{ narrow }

func (r repacking) PackIn(memory *kernels.Buffer, w kernels.Mat, m kernels.Math) *kernels.Packed {
	defer r.Free(r.Alloc(16 << 10))
	return r.narrow.PackIn(memory, w, m)
}

// TestKeptMakesRoom: where memory is out while a weight is packed into that of a former one, all else that waits makes
// room. Where nothing else waits, memory is out, and that of the former one still waits.
func TestKeptMakesRoom(t *testing.T) {
	left := 1 << 20
	p := NewPool(repacking{narrow{left: &left}})
	x := p.New(kernels.F32, 8, 16)
	w := p.Pack(x.Mat(), kernels.MathF32)
	first := w.Buf
	p.Keep(w)
	p.New(kernels.F32, 4<<10).Free()
	left = 0
	if w = p.Pack(x.Mat(), kernels.MathF32); w.Buf != first || left != 16<<10 {
		t.Errorf("the weight lies in other memory: %v, and %d bytes are left", w.Buf != first, left)
	}
	p.Keep(w)
	left = 0
	if err := p.Attempt(func() error { p.Pack(x.Mat(), kernels.MathF32); return nil }); err == nil {
		t.Error("a weight was packed without memory")
	}
	if s := p.Stats(); s.Held != s.InUse || left != 512 || p.beside != 0 {
		t.Errorf("%d bytes wait, %d are left, and weights have %d", s.Held-s.InUse, left, p.beside)
	}
}

// TestLimit: waiting memory goes back before more than the limit is held, and a limit refuses nothing.
func TestLimit(t *testing.T) {
	p := NewPool(ref.Backend{})
	p.Limit = 64 << 10
	p.New(kernels.F32, 10<<10).Free()
	kept := p.New(kernels.F32, 6<<10)
	if s := p.Stats(); s.Held != 64<<10 {
		t.Errorf("within the limit something went back: %+v", s)
	}
	large := p.New(kernels.F32, 8<<10)
	if s := p.Stats(); s.Held != s.InUse || s.Held != 56<<10 {
		t.Errorf("beyond the limit: %+v", s)
	}
	larger := p.New(kernels.F32, 16<<10)
	if s := p.Stats(); s.Held != 120<<10 {
		t.Errorf("all is lent, and more was asked for: %+v", s)
	}
	for _, x := range []*Tensor{kept, large, larger} {
		x.Free()
	}
	p.Trim()
	if s := p.Stats(); s.Held != 0 {
		t.Errorf("after Trim: %+v", s)
	}
	some := []*Tensor{p.New(kernels.F32, 8<<10), p.New(kernels.F32, 4<<10), p.New(kernels.F32, 2<<10)}
	for _, x := range some {
		x.Free()
	}
	p.New(kernels.F32, 5<<10).Free() // 56 KiB wait, 12 of them too many: the largest piece goes, the others stay
	if s := p.Stats(); s.Held != (4+2+5)<<12 {
		t.Errorf("more went back than was needed: %+v", s)
	}
}

func TestViewsKeepMemoryAlive(t *testing.T) {
	p := NewPool(ref.Backend{})
	x := make([]float32, 24)
	for i := range x {
		x[i] = float32(i)
	}
	a := p.FromF32(kernels.F32, x, 2, 3, 4)
	mid := a.Columns(1, 3)
	second := a.Slice(1, 2)
	flat := a.Reshape(6, 4)
	half := mid.Slice(1, 2)
	a.Free()
	if got := mid.F32(); !slices.Equal(got, []float32{1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22}) {
		t.Errorf("columns: %v", got)
	}
	if got := second.F32(); !slices.Equal(got, x[12:]) {
		t.Errorf("slice: %v", got)
	}
	if got := half.F32(); !slices.Equal(got, []float32{13, 14, 17, 18, 21, 22}) {
		t.Errorf("slice of columns: %v", got)
	}
	if h := flat.Heads(2); h.D != 2 || h.S != 6 || h.B != 1 || h.SS != 4 {
		t.Errorf("heads: %+v", h)
	}
	if p.Stats().Live != 1 {
		t.Errorf("the parent's memory went back under its views")
	}
	for _, v := range []*Tensor{mid, second, flat, half} {
		v.Free()
	}
	if p.Stats().Live != 0 {
		t.Errorf("memory did not go back with the last view")
	}
}

func TestMisuseIsCaught(t *testing.T) {
	p := NewPool(ref.Backend{})
	for name, f := range map[string]func(){
		"weights f32[2 2] is used after it was freed":  func() { a := p.New(kernels.F32, 2, 2).Named("weights"); a.Free(); a.Mat() },
		"weights f32[2 2] is freed after it was freed": func() { a := p.New(kernels.F32, 2, 2).Named("weights"); a.Free(); a.Free() },
		"retained after it was freed":                  func() { a := p.New(kernels.F32, 2); a.Free(); a.Retain() },
		"has gaps between its rows":                    func() { p.New(kernels.F32, 2, 4).Columns(0, 2).Span() },
		"cannot be seen as":                            func() { p.New(kernels.F32, 2, 4).Reshape(3, 3) },
		"at most 6 axes":                               func() { p.New(kernels.F32, 1, 1, 1, 1, 1, 1, 1) },
		"used after it was freed": func() { // its memory is another's by now
			a := p.New(kernels.F32, 77)
			a.Free()
			p.New(kernels.F32, 77)
			a.F32()
		},
	} {
		if got := panicOf(f); !strings.Contains(got, name) {
			t.Errorf("want a panic with %q, got %q", name, got)
		}
	}
}

func panicOf(f func()) (s string) {
	defer func() { s, _ = recover().(string) }()
	f()
	return ""
}

func TestScope(t *testing.T) {
	p := NewPool(ref.Backend{})
	s := p.Scope()
	s.New(kernels.F32, 8)
	b := s.New(kernels.F32, 8)
	s.New(kernels.F32, 8).Free()
	s.Keep(b)
	s.End()
	if p.Stats().Live != 1 {
		t.Errorf("a scope left %d pieces; one was kept", p.Stats().Live)
	}
	b.Free()
}

func TestTransfers(t *testing.T) {
	p := NewPool(ref.Backend{})
	x := []float32{1, -2.5, 3.14159, 1e-3}
	if got := p.FromF32(kernels.F32, x, 2, 2).F32(); !slices.Equal(got, x) {
		t.Errorf("f32: %v", got)
	}
	got := p.FromF32(kernels.BF16, x, 4).F32()
	for i, v := range x {
		if got[i] != ref.RoundBF16(v) {
			t.Errorf("bf16: %v became %v", v, got[i])
		}
	}
}

// joining is a backend that joins pieces itself.
type joining struct {
	ref.Backend
	held, most int
}

func (*joining) Joins() bool { return true }

func (j *joining) Alloc(n int) *kernels.Buffer {
	j.held += n
	j.most = max(j.most, j.held)
	return j.Backend.Alloc(n)
}

func (j *joining) Free(b *kernels.Buffer) { j.held -= b.Bytes }

// TestJoiningBackend: a backend that joins pieces gets them back at once, and is asked for a tensor's bytes alone.
func TestJoiningBackend(t *testing.T) {
	j := &joining{}
	p := NewPool(j)
	for n := 1000; n < 3000; n += 100 {
		a := p.New(kernels.F32, n)
		b := a.Reshape(1, n)
		a.Free()
		if j.held < 4*n || j.held >= 4*n+256 {
			t.Errorf("%d bytes are held for %d", j.held, 4*n)
		}
		b.Free()
	}
	if s := p.Stats(); j.held != 0 || s.Held != 0 || s.InUse != 0 || s.Live != 0 || s.Peak != j.most {
		t.Errorf("%d bytes are held, %+v", j.held, s)
	}
}
