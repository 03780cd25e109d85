package ptxtest

import "math"

// A warp is 32 lanes, each at its own place of the program. Those at the lowest place go on together; a compiler lays
// out a branch before the place where its ways meet, so lanes meet there again. Lanes that wait for others of the warp
// are parked until these come to the same place.
type warp struct {
	p          *program
	b          *block
	id         int
	words      []words
	doubles    []doubles
	predicates []uint32
	local      []byte

	pc     [lanes]int32
	live   uint32 // lanes that have not ended
	parked uint32
	begun  [lanes]begun // copies (copies.go)

	// Of the units that work beside a warp (wgmma.go, mbarrier.go).
	products []product
	batch    int
	fenced   bool
	waited   []moment       // when each batch was waited for
	stored   [lanes][]int32 // places of shared memory, since the last fence

	clock    uint32 // of its accesses (races.go)
	synced   uint32 // earlier accesses of its lanes are before each one's present access
	known    [lanes][]uint32
	followed bool // it has waited for earlier kernels

	waits    bool // at a barrier of the block
	gaveWay  bool // in its last turn, to others that it waits for
	at       doubles
	unread32 words
	unread64 doubles
}

func newWarp(p *program, b *block, id int) *warp {
	w := &warp{p: p, b: b, id: id, words: make([]words, p.registers[word]), doubles: make([]doubles, p.registers[double]),
		predicates: make([]uint32, p.registers[predicate]), local: make([]byte, lanes*p.localBytes)}
	return w
}

var (
	arbitrary32 = func() (x words) {
		for l := range x {
			x[l] = 0xffbadbad
		}
		return x
	}()
	arbitrary64 = func() (x doubles) {
		for l := range x {
			x[l] = 0xffbadbad_ffbadbad
		}
		return x
	}()
)

// unset makes memory NaN in every type.
func unset(b []byte) {
	if len(b) > 0 {
		b[0] = 0xff
	}
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// begin puts a warp at a kernel's first instruction. A register has an arbitrary number before it is written.
func (w *warp) begin() {
	for i := range w.words {
		w.words[i] = arbitrary32
	}
	for i := range w.doubles {
		w.doubles[i] = arbitrary64
	}
	for i := range w.predicates {
		w.predicates[i] = 0x5a5a5a5a
	}
	unset(w.local)
	w.live, w.parked, w.waits, w.followed = 0, 0, false, false
	w.forget()
	w.products, w.batch, w.fenced, w.stored = nil, 0, false, [lanes][]int32{}
	for l := range lanes {
		t := w.id*lanes + l
		w.pc[l], w.begun[l] = w.p.start, begun{}
		if t < w.b.threads {
			w.live |= 1 << l
		}
		for i, v := range [...]int{t, w.b.x, w.b.y, w.b.threads, w.b.grid[0], w.b.grid[1], l} {
			w.words[i][l] = uint32(v)
		}
	}
}

// lowest are the lanes that go on, where, and the place at which others are met.
func (w *warp) lowest() (pc int32, m uint32, limit int32) {
	pc, limit = math.MaxInt32, math.MaxInt32
	for ready, l := w.live&^w.parked, 0; ready != 0; ready, l = ready>>1, l+1 {
		if ready&1 == 0 {
			continue
		}
		switch at := w.pc[l]; {
		case at < pc:
			limit, pc, m = pc, at, 1<<l
		case at == pc:
			m |= 1 << l
		case at < limit:
			limit = at
		}
	}
	return pc, m, limit
}

func (w *warp) move(m uint32, pc int32) {
	each(m, func(l int) { w.pc[l] = pc })
}

// run goes on for about a number of instructions, until the warp ends, waits, or gives way.
func (w *warp) run(budget int) {
	w.gaveWay = false
	for w.live != 0 && !w.waits && !w.gaveWay && budget > 0 {
		pc, m, limit := w.lowest()
		if m == 0 {
			fail(-1, "lanes %08x wait for lanes of their warp that never come", w.parked)
		}
		budget -= w.straight(pc, m, limit, budget)
	}
}

// straight runs lanes from one place on until their ways part, others are met, or something is waited for. It returns
// how many instructions that took.
func (w *warp) straight(pc int32, m uint32, limit int32, budget int) (n int) {
	for ; pc < limit; pc++ {
		in := &w.p.code[pc]
		w.b.place = in
		n++
		g := m & w.guard(in)
		if g == 0 {
			continue
		}
		in.runs++
		switch in.row.flow {
		case onwards:
			in.row.run(w, in, g)
		case branch, call, back, exit:
			if in.row.flow == branch && g == m && limit == math.MaxInt32 && n < budget { // all of them, and there are no others
				pc = in.target - 1
				continue
			}
			m = w.jump(in, pc, m, g)
		default:
			m = w.meet(in, pc, m, g)
		}
		if m == 0 {
			return n
		}
	}
	w.move(m, pc)
	return n
}

// guard are the lanes whose predicate lets them run an instruction.
func (w *warp) guard(in *instruction) uint32 {
	switch {
	case in.guard < 0:
		return everyLane
	case in.negate:
		return ^w.predicates[in.guard]
	}
	return w.predicates[in.guard]
}

// jump lets those of g among lanes go elsewhere, and returns the lanes that go straight on, or none where all are to be
// grouped anew.
func (w *warp) jump(in *instruction, pc int32, m, g uint32) uint32 {
	if in.row.flow == exit {
		w.end(g)
		return m &^ g
	}
	w.move(m, pc+1)
	switch in.row.flow {
	case branch:
		w.move(g, in.target)
	case call:
		from := &w.words[in.args[0].i]
		each(g, func(l int) { from[l] = uint32(pc + 1) })
		w.move(g, in.target)
	case back:
		in.row.run(w, in, g)
	}
	return 0
}

// meet runs an instruction for several lanes together when those that it needs have come; until then these are parked.
// It returns the lanes that go straight on, or none.
func (w *warp) meet(in *instruction, pc int32, m, g uint32) uint32 {
	if g != m {
		fail(-1, "lanes %08x of %08x alone come to an instruction of the whole warp", g, m)
	}
	if in.row.flow != spinning && m != w.live {
		w.move(m, pc)
		w.parked |= m
		m = w.parked & w.here(pc)
		if needed := w.needed(in, m); m&needed != needed {
			return 0
		}
		w.parked &^= m
	}
	in.row.run(w, in, m)
	if w.waits || w.gaveWay || m != w.live {
		w.move(m, pc+1)
		return 0
	}
	return m
}

// here are the lanes at a place.
func (w *warp) here(pc int32) (m uint32) {
	each(w.live, func(l int) {
		if w.pc[l] == pc {
			m |= 1 << l
		}
	})
	return m
}

// needed are the lanes that must come: those of a mask, or all.
func (w *warp) needed(in *instruction, come uint32) uint32 {
	if in.row.flow != named {
		return w.live
	}
	mask := uint32(0)
	all := w.r(in.args[len(in.args)-1])
	each(come, func(l int) { mask |= all[l] })
	return mask & w.live
}

// end ends lanes. Their copies come.
func (w *warp) end(m uint32) {
	each(m, func(l int) { w.begun[l].land(w, l, math.MaxInt) })
	if w.live &^= m; w.live == 0 {
		w.b.settle()
	}
	w.b.progress++
}

// Instructions by which the lanes of a warp meet (9.7.9.6, 9.7.13).

var exchanges = map[string]row{
	"shfl.sync.bfly.b32": {"rprrrr", shuffle(func(lane, b, segment, high uint32) (uint32, bool) {
		return lane ^ b, lane^b <= high
	}), named},
	"shfl.sync.idx.b32": {"rprrrr", shuffle(func(lane, b, segment, high uint32) (uint32, bool) {
		j := lane&segment | b&^segment
		return j, j <= high
	}), named},
	"bar.warp.sync": {"r", func(w *warp, in *instruction, m uint32) {
		if m == w.live {
			w.together()
		}
	}, named},
}

// shuffle reads a lane's value of its segment, and says whether there is such a lane; otherwise a
// lane has its own. A lane that has not come has no value: an error here.
func shuffle(from func(lane, b, segment, high uint32) (uint32, bool)) func(*warp, *instruction, uint32) {
	return func(w *warp, in *instruction, m uint32) {
		d, a, b, c := w.r(in.args[0]), *w.r(in.args[2]), *w.r(in.args[3]), *w.r(in.args[4])
		w.decide(in.args[1], m, func(l int) bool {
			lane, clamp, segment := uint32(l), c[l]&31, c[l]>>8&31
			j, inside := from(lane, b[l]&31, segment, lane&segment|clamp&^segment)
			if !inside {
				j = lane
			}
			if m>>j&1 == 0 {
				fail(l, "the value of lane %d, which is not there", j)
			}
			d[l] = a[j]
			return inside
		})
	}
}
