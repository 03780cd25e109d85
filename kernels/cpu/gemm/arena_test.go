package gemm

import "testing"

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
