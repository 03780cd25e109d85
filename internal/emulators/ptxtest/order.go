package ptxtest

// The order of accesses of a block's threads (8, the memory consistency model; 9.7.13):
//
//   - a thread's own order;
//   - a barrier of all threads that live: it begins an era, and all of an era is after those before it;
//   - bar.warp.sync of all lanes that live. Exchanges (shfl), products and ldmatrix order nothing;
//   - a numbered barrier of some warps: waiting warps are after arrived ones;
//   - a barrier in shared memory: a lane that sees the end of a phase is after those that arrived in it, and after
//   copies whose
//     bytes it counted;
//   - the wait for a copy or a product of one's own.
//
// Blocks of a launch are ordered by nothing; launches by their sequence.
//
// A warp has a clock, which goes on with each arrival and barrier. A lane knows for every thread the time of that
// thread's warp up to which it is after the thread's accesses, and for every barrier in shared memory the phase up to
// which it is after its copies. Kernels that have barriers of all threads alone need no such knowledge.

// mostObjects is how many barriers in shared memory a block may have.
const mostObjects = 64

// A moment is when a wait ended.
type moment struct{ era, clock uint32 }

// times is knowledge of nothing.
func (b *block) times() []uint32 { return make([]uint32, len(b.warps)*lanes+mostObjects) }

func later(t, other []uint32) {
	for i, v := range other {
		t[i] = max(t[i], v)
	}
}

// nextEra begins an era.
func (b *block) nextEra() {
	b.global.era++
	b.era = b.global.era
	if !b.p.partly {
		return
	}
	copies := make([]uint32, mostObjects)
	for _, w := range b.warps {
		for l := range lanes {
			later(copies, w.known[l][len(b.warps)*lanes:])
		}
	}
	for _, w := range b.warps {
		for l := range lanes {
			copy(w.known[l][len(b.warps)*lanes:], copies)
		}
	}
}

// release adds the lanes' clocks and knowledge to times.
func (w *warp) release(m uint32, to []uint32) {
	own := to[w.id*lanes:][:lanes]
	each(m, func(l int) {
		later(to, w.known[l])
		own[l] = max(own[l], w.clock)
	})
	for l := range own {
		if w.synced > 0 {
			own[l] = max(own[l], w.synced-1)
		}
	}
	w.clock++
}

// together lets the lanes of a warp be after each other.
func (w *warp) together() {
	w.clock++
	w.synced = w.clock
	if !w.b.p.partly {
		return
	}
	all := w.known[0]
	for _, k := range w.known[1:] {
		later(all, k)
	}
	for _, k := range w.known[1:] {
		copy(k, all)
	}
}

// forget is a warp's knowledge at its beginning.
func (w *warp) forget() {
	w.clock, w.synced, w.waited = 1, 0, nil
	if !w.b.p.partly {
		return
	}
	for l := range w.known {
		w.known[l] = w.b.times()
	}
}
