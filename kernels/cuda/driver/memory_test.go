package driver

import (
	"testing"
	"unsafe"
)

// counting is a driver that hands out addresses and counts what is asked of it.
type counting struct{ allocated, freed int }

func (c *counting) Call(name string, args ...uintptr) (int32, error) {
	switch name {
	case "cuMemAlloc_v2":
		c.allocated++
		*(*uintptr)(*(*unsafe.Pointer)(unsafe.Pointer(&args[0]))) = uintptr(c.allocated) << 40
	case "cuMemFree_v2":
		c.freed++
	}
	return 0, nil
}

// TestClasses: pieces of nearly one size serve one another, and none is more than a sixteenth too large.
func TestClasses(t *testing.T) {
	for _, n := range []int{1, 511, 512, 513, 100_000, 1 << 20, 1<<20 + 1, 3 << 19, 1<<21 - 1, 1 << 21, 1<<21 + 1, 10 << 30} {
		got := class(n)
		if most := max(n+511, n+n/16); got < n || got > most {
			t.Errorf("%d bytes: a class of %d, at most %d", n, got, most)
		}
		if class(got) != got {
			t.Errorf("%d bytes: a class of %d, whose own is %d", n, got, class(got))
		}
	}
	for _, pair := range [][2]int{{3<<19 - 60_000, 3 << 19}, {100<<20 - 1<<20, 100 << 20}, {1<<20 - 5, 1 << 20}} {
		c := &counting{}
		m := NewMemory(New(c), 0, func() error { return nil })
		for _, n := range pair {
			p, err := m.Take(n)
			if err != nil {
				t.Fatal(err)
			}
			m.Give(p)
		}
		if c.allocated != 1 {
			t.Errorf("%d and then %d bytes: %d pieces were asked of the driver", pair[0], pair[1], c.allocated)
		}
		if err := m.Close(); err != nil || c.freed != 1 || m.Held() != 0 {
			t.Errorf("%d freed, %d bytes held, %v", c.freed, m.Held(), err)
		}
	}
}
