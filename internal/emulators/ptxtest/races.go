package ptxtest

import (
	"fmt"
	"math/bits"
)

// Races: two accesses to one place, of which one writes, that nothing orders. A shadow of memory keeps for each cell
// its last write and the reads since; an access that is not after those that it meets ends the launch with both lines.
// So a missing barrier shows whatever the order of the warps was.
//
// A cell is as wide as the kernel's narrowest access of that memory, 16 bytes at most, so that neighbours never share
// one.

// A stamp is an access: its lanes, warp, line and time.
type stamp struct {
	era   uint32 // a barrier of all threads begins the next; 0: no access
	clock uint32 // of the warp; of a late access its group, batch or phase
	lanes uint32
	line  int32
	warp  int16 // beyond the block's: a barrier whose copies write
	late  bool  // it may go on until its warp waits for it
}

// A cell is the shadow of a few bytes.
type cell struct {
	write, read stamp
	more        int32  // reads that read is not after: a place in block.chain, 0 for none
	other       uint32 // the era in which another block of the launch read
}

// A link is a read of a cell that has several.
type link struct {
	stamp
	next int32
}

// A shadow is that of an allocation or of a block's shared memory.
type shadow struct {
	cells []cell
	shift uint8 // a cell has 1<<shift bytes
}

// of are the cells of n bytes; size is the memory's.
func (s *shadow) of(at uint64, n, size int, shift uint8) []cell {
	if s.cells == nil || s.shift != shift {
		*s = shadow{make([]cell, size>>shift+1), shift}
	}
	return s.cells[at>>shift : (at+uint64(n)-1)>>shift+1]
}

// A region is part of a memory, with its shadow.
type region struct {
	cells []cell
	since uint32 // accesses of eras before do not count
}

// now is an access that lanes make here.
func (w *warp) now(m uint32) stamp {
	return stamp{era: w.b.era, clock: w.clock, lanes: m, line: int32(w.b.place.line), warp: int16(w.id)}
}

// allLanes stands for a lane where a warp acts as one.
const allLanes = -1

// reads and writes hold an access to those before it.

func (w *warp) reads(r region, s stamp, lane int) {
	if w.b.global.blind {
		return
	}
	for i := range r.cells {
		c := &r.cells[i]
		if c.write.era >= r.since && !w.after(&c.write, true, lane) {
			w.race(c.write, true, false, lane)
		}
		if last := &c.read; last.era == s.era && last.clock == s.clock && last.warp == s.warp && last.late == s.late {
			last.lanes |= s.lanes
			continue
		}
		w.keep(c, s, r.since, lane)
	}
}

// keep adds a read to a cell. It takes the place of one that it is after: a later access is after both.
func (w *warp) keep(c *cell, s stamp, since uint32, lane int) {
	last, b := &c.read, w.b
	switch {
	case last.era < since:
		c.more = 0
	case last.era < b.first:
		c.other, c.more = last.era, 0
	case w.after(last, false, lane):
	default:
		for k := c.more; k != 0; k = b.chain[k-1].next {
			e := &b.chain[k-1].stamp
			if e.era == s.era && e.clock == s.clock && e.warp == s.warp && e.late == s.late {
				e.lanes |= s.lanes
				return
			}
			if w.after(e, false, lane) {
				*e = s
				return
			}
		}
		b.chain = append(b.chain, link{*last, c.more})
		c.more = int32(len(b.chain))
	}
	*last = s
}

func (w *warp) writes(r region, s stamp, lane int) {
	if w.b.global.blind {
		return
	}
	for i := range r.cells {
		c := &r.cells[i]
		if c.write.era >= r.since && !w.after(&c.write, true, lane) {
			w.race(c.write, true, true, lane)
		}
		if c.read.era >= r.since && !w.after(&c.read, false, lane) {
			w.race(c.read, false, true, lane)
		}
		for k := c.more; k != 0 && c.read.era >= r.since; k = w.b.chain[k-1].next {
			if !w.after(&w.b.chain[k-1].stamp, false, lane) {
				w.race(w.b.chain[k-1].stamp, false, true, lane)
			}
		}
		if c.other >= r.since && c.other != 0 {
			w.race(stamp{era: c.other}, false, true, lane)
		}
		*c = cell{write: s}
	}
}

// after reports whether a lane's present access is after another.
func (w *warp) after(s *stamp, write bool, lane int) bool {
	b, own := w.b, int(s.warp) == w.id
	switch {
	case s.era < b.first: // another block's
		return false
	case int(s.warp) >= len(b.warps): // the copy engine's
		return w.known[max(lane, 0)][int(s.warp)-len(b.warps)+len(b.warps)*lanes] >= s.clock
	case s.late:
		return w.afterLate(s, write, lane)
	case s.era < b.era, own && (s.clock < w.synced || lane >= 0 && s.lanes == 1<<lane):
		return true
	}
	if !b.p.partly {
		return false
	}
	known := w.known[max(lane, 0)][int(s.warp)*lanes:]
	for m := s.lanes; m != 0; m &= m - 1 {
		if l := bits.TrailingZeros32(m); known[l] < s.clock && !(own && l == lane) {
			return false
		}
	}
	return true
}

// afterLate: a late access is made when its warp has waited for it. Copies (cp.async) are a lane's; products read for
// the warp as one.
func (w *warp) afterLate(s *stamp, write bool, lane int) bool {
	by := w.b.warps[s.warp]
	waits := by.waited
	if write {
		waits = by.begun[bits.TrailingZeros32(s.lanes)].waited
	}
	if int(s.clock) >= len(waits) {
		return false
	}
	at := waits[s.clock]
	made := stamp{era: at.era, clock: at.clock, lanes: s.lanes, warp: s.warp}
	if write {
		return w.after(&made, write, lane)
	}
	if by == w {
		return true
	}
	for l := range lanes {
		if made.lanes = 1 << l; w.after(&made, write, lane) {
			return true
		}
	}
	return false
}

// race ends the launch.
func (w *warp) race(s stamp, wrote, writes bool, lane int) {
	verb, did := "reads", "read"
	if writes {
		verb = "writes"
	}
	if wrote {
		did = "wrote"
	}
	who := "this block's copy engine"
	switch {
	case s.era < w.b.first:
		who = "a thread of another block"
	case int(s.warp) < len(w.b.warps) && s.lanes == everyLane:
		who = fmt.Sprintf("warp %d", s.warp)
	case int(s.warp) < len(w.b.warps):
		who = fmt.Sprintf("thread %d", int(s.warp)*lanes+bits.TrailingZeros32(s.lanes))
	}
	if in := w.p.atLine(int(s.line)); in != nil {
		did += " in " + in.at()
	}
	fail(lane, "a race: it %s what %s %s, and nothing orders the two", verb, who, did)
}

func (p *program) atLine(line int) *instruction {
	for i := range p.code {
		if p.code[i].line == line {
			return &p.code[i]
		}
	}
	return nil
}

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
