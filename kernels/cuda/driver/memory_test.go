package driver

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// counting is a driver that hands out addresses below a limit and counts its calls.
type counting struct {
	allocated, freed, used, limit int
	sizes                         map[uintptr]int
}

func (c *counting) Call(name string, args ...uintptr) (int32, error) {
	switch name {
	case "cuMemAlloc_v2":
		n := int(args[1])
		if c.limit > 0 && c.used+n > c.limit {
			return OutOfMemory, nil
		}
		c.allocated++
		p := uintptr(c.allocated) << 40
		*(*uintptr)(*(*unsafe.Pointer)(unsafe.Pointer(&args[0]))) = p
		if c.sizes == nil {
			c.sizes = map[uintptr]int{}
		}
		c.used += n
		c.sizes[p] = n
	case "cuMemFree_v2":
		n, ok := c.sizes[args[0]]
		if !ok {
			return 1, nil
		}
		delete(c.sizes, args[0])
		c.used -= n
		c.freed++
	}
	return 0, nil
}

func newCounting(limit int) (*counting, *Memory) {
	c := &counting{limit: limit}
	return c, NewMemory(New(c), 0, func() error { return nil })
}

// TestRounded: small pieces are of few sizes, at most a quarter too large, and large ones take their own size.
func TestRounded(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, 5000, 100_000, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3 << 19, 1<<21 + 1, 10 << 30} {
		got := rounded(n)
		most := max(n+511, n+n/4, 512)
		if n >= smallPiece {
			most = n + 511
		}
		if got < n || got > most || got%256 != 0 || rounded(got) != got {
			t.Errorf("%d bytes take %d, at most %d; those take %d", n, got, most, rounded(got))
		}
	}
}

// TestPiecesJoin: pieces of any order and size lie apart, and chunks are whole again when all came back.
func TestPiecesJoin(t *testing.T) {
	c, m := newCounting(0)
	r := rand.New(rand.NewPCG(1, 2))
	lent := map[uintptr]int{}
	for range 20_000 {
		if len(lent) < 60 && r.IntN(2) == 0 {
			n := 1 << r.IntN(28)
			n += r.IntN(n)
			p, err := m.Take(n)
			if err != nil {
				t.Fatal(err)
			}
			for q, k := range lent {
				if p < q+uintptr(k) && q < p+uintptr(n) {
					t.Fatalf("%d bytes at %x are lent, and %d at %x", k, q, n, p)
				}
			}
			lent[p] = n
			continue
		}
		for p := range lent {
			m.Give(p)
			delete(lent, p)
			break
		}
	}
	for p := range lent {
		m.Give(p)
	}
	if len(m.free) != len(m.chunks) || !slices.IsSortedFunc(m.free, block.compare) {
		t.Errorf("%d blocks are free in %d chunks", len(m.free), len(m.chunks))
	}
	for _, b := range m.free {
		if m.chunks[b.at] != b.bytes {
			t.Errorf("a block of %d bytes in a chunk of %d", b.bytes, m.chunks[b.at])
		}
	}
	if err := m.Close(); err != nil || c.used != 0 || m.Held() != 0 || c.allocated != c.freed {
		t.Errorf("%d bytes are left, %d held, %d of %d pieces freed, %v", c.used, m.Held(), c.freed, c.allocated, err)
	}
}

// TestPassesShareMemory: passes over one, two and four samples, whose tensors have other sizes each time, take little
// more than the largest of them needs.
func TestPassesShareMemory(t *testing.T) {
	c, m := newCounting(0)
	lent, most := 0, 0
	use := func(n int) uintptr {
		p, err := m.Take(n)
		if err != nil {
			t.Fatal(err)
		}
		lent += m.sizes[p]
		most = max(most, lent)
		return p
	}
	give := func(p uintptr) {
		lent -= m.sizes[p]
		m.Give(p)
	}
	// Forward keeps three tensors a layer beside two that come and go, backward frees them beside gradients.
	for _, samples := range []int{1, 2, 4, 3} {
		var kept []uintptr
		sizes := []int{samples * 2537 * 3072 * 2, samples * 2537 * 9216 * 2, samples * 2537 * 12288 * 2}
		for range 30 {
			passing := []uintptr{use(sizes[1] * 2), use(sizes[0] * 2)}
			for _, n := range sizes {
				kept = append(kept, use(n))
			}
			for _, p := range passing {
				give(p)
			}
		}
		for i, p := range slices.Backward(kept) {
			gradient := use(sizes[i%3] * 2)
			give(p)
			give(gradient)
		}
	}
	before := c.allocated
	for _, n := range []int{5 << 20, 300 << 20, 70 << 20} {
		p, _ := m.Take(n)
		m.Give(p)
	}
	if c.allocated != before {
		t.Error("the driver was asked for memory that is free")
	}
}

// TestMemoryGivenBack: where the driver has no more, free chunks and small pieces go back to it, and a chunk is as
// small as the piece needs.
func TestMemoryGivenBack(t *testing.T) {
	c, m := newCounting(100 << 20)
	small, _ := m.Take(1000)
	big, err := m.Take(60 << 20)
	if err != nil {
		t.Fatal(err)
	}
	m.Give(small)
	m.Give(big)
	if big, err = m.Take(99 << 20); err != nil || c.used > 100<<20 {
		t.Fatalf("99 of 100 MiB: %v, %d bytes are taken", err, c.used)
	}
	if _, err = m.Take(2 << 20); Code(err) != OutOfMemory || !errors.As(err, new(*CallError)) {
		t.Errorf("2 more MiB: %v", err)
	}
	m.Give(big)
	if alone, err := m.TakeAlone(90 << 20); err != nil || m.Drop(alone) != nil || m.Held() != 0 {
		t.Errorf("%v, %d bytes are held", err, m.Held())
	}
}
