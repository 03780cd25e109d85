package ptxtest

import (
	"fmt"
	"slices"
)

// A block of a launch: its warps, their shared memory and barriers.
type block struct {
	p       *program
	global  *deviceMemory
	args    []byte
	shared  []byte
	threads int
	x, y    int
	grid    [2]int
	warps   []*warp

	objects map[uint64]*object // barriers in shared memory, by their address
	boxes   []boxCopy
	shadow  shadow  // of shared memory
	chain   []link  // reads of cells that have several
	made    int     // barriers in shared memory, ever
	unseen  []int32 // for each four bytes of shared memory: who stored there and has not fenced, from 1 on

	launched, first, era uint32 // the eras in which the launch and the block began, and the present one

	late     bool // late copies and products come at their wait
	numbered [16]numbered
	progress int          // counts the events that others may wait for
	place    *instruction // the running warp
	running  *warp
}

// A numbered barrier: who has come in this turn, in threads.
type numbered struct {
	come, want int
	waiting    []*warp
	times      []uint32 // the accesses of the arrived lanes
}

// An arrangement is in which order the warps of a launch run. A device may choose any.
type arrangement int

const (
	beside arrangement = iota // by turns of few instructions; copies come late
	ahead                     // each as far as it can go, from the first on; copies come at once
	behind                    // from the last on
	arrangements
)

// run runs the block to its end.
func (b *block) run(order arrangement) {
	turn := 1 << 30
	if b.late = order == beside; b.late {
		turn = 48
	}
	b.numbered, b.progress = [16]numbered{}, 0
	b.objects, b.boxes, b.made = map[uint64]*object{}, nil, 0
	b.global.era++
	b.first, b.era, b.chain = b.global.era, b.global.era, b.chain[:0]
	if b.p.units {
		b.unseen = make([]int32, len(b.shared)/4+1)
	}
	for _, w := range b.warps {
		w.begin()
	}
	warps := slices.Clone(b.warps)
	if order == behind || order == beside && b.x&1 == 1 {
		slices.Reverse(warps)
	}
	for idle := 0; b.alive(); {
		before, free := b.progress, false
		for _, w := range warps {
			if b.running = w; w.live == 0 || w.waits {
				continue
			}
			w.run(turn)
			free = free || w.live != 0 && !w.waits && !w.gaveWay
		}
		if idle++; free || b.progress != before {
			idle = 0
		}
		if idle > 1 && len(b.boxes) > 0 { // late copies and products come now
			b.boxes[0].land(b)
			b.boxes, idle = b.boxes[1:], 0
		}
		if idle > 1 {
			b.running = nil
			fail(-1, "%s", b.stuck())
		}
	}
}

func (b *block) alive() bool {
	return slices.ContainsFunc(b.warps, func(w *warp) bool { return w.live != 0 })
}

// stuck lists the waiting warps with their places.
func (b *block) stuck() string {
	text := "warps wait at a barrier that others never reach:"
	for _, w := range b.warps {
		pc, _, _ := w.lowest()
		switch {
		case w.live == 0:
			text += " ended"
		case int(pc) < len(w.p.code):
			text += " " + w.p.code[max(pc-1, 0)].at()
		}
	}
	return text
}

// arrive counts a warp at a numbered barrier, which ends its turn when `want` threads have come; 0 is all that live.
func (b *block) arrive(w *warp, id uint32, want int, waits bool) {
	if id >= uint32(len(b.numbered)) {
		fail(-1, "barrier %d; there are %d", id, len(b.numbered))
	}
	n := &b.numbered[id]
	if n.come > 0 && n.want != want {
		fail(-1, "barrier %d is waited for by %d threads and by %d (0: all)", id, n.want, want)
	}
	if n.want = want; want%lanes != 0 {
		fail(-1, "barrier %d for %d threads, which are no whole warps", id, want)
	}
	n.come += lanes
	if b.p.partly {
		if n.times == nil {
			n.times = b.times()
		}
		w.release(w.live, n.times)
	}
	if waits {
		w.together()
		w.waits = true
		n.waiting = append(n.waiting, w)
	}
	b.progress++
	b.settle()
}

// settle ends the turns of barriers to which all have come.
func (b *block) settle() {
	living := 0
	for _, w := range b.warps {
		if w.live != 0 {
			living += lanes
		}
	}
	for i := range b.numbered {
		n := &b.numbered[i]
		want := n.want
		if want == 0 {
			want = living
		}
		if n.come == 0 || n.come < want {
			continue
		}
		all := len(n.waiting)*lanes == living && (n.want == 0 || living == len(b.warps)*lanes)
		for _, w := range n.waiting {
			if w.waits = false; !all {
				each(w.live, func(l int) { later(w.known[l], n.times) })
			}
		}
		if all {
			b.nextEra()
		}
		*n = numbered{}
		b.progress++
	}
}

var barriers = map[string]row{
	"bar.sync":   {"i", func(w *warp, in *instruction, m uint32) { w.b.arrive(w, w.r(in.args[0])[0], 0, true) }, barrier},
	"bar.sync.n": {"rr", func(w *warp, in *instruction, m uint32) { w.counted(in, m, true) }, barrier},
	"bar.arrive": {"rr", func(w *warp, in *instruction, m uint32) { w.counted(in, m, false) }, barrier},
}

// counted is a barrier of a number of threads. Its number and theirs are the same in all lanes.
func (w *warp) counted(in *instruction, m uint32, waits bool) {
	id, n := w.same(in.args[0], m), w.same(in.args[1], m)
	w.b.arrive(w, id, int(n), waits)
}

// same is an operand's value, which must be that of all lanes.
func (w *warp) same(o operand, m uint32) (v uint32) {
	all := w.r(o)
	first := true
	each(m, func(l int) {
		if !first && all[l] != v {
			fail(l, "lanes of a warp name different barriers or counts")
		}
		v, first = all[l], false
	})
	return v
}

// A launch is a kernel's start.
type launch struct {
	p       *program
	grid    [2]int
	threads int
	shared  int
	args    []byte
}

func (in *instruction) at() string { return fmt.Sprintf("line %d (%s)", in.line, in.op) }

// run runs a launch's blocks one after another.
func (g *deviceMemory) run(l launch) (err error) {
	order := arrangement(l.p.launches % int(arrangements))
	l.p.launches++
	b := &block{p: l.p, global: g, launched: g.era + 1, args: l.args, shared: make([]byte, l.shared), threads: l.threads,
		grid: l.grid}
	for i := range (l.threads + lanes - 1) / lanes {
		b.warps = append(b.warps, newWarp(l.p, b, i))
	}
	defer func() {
		switch f := recover().(type) {
		case nil:
		case fault:
			err = b.explain(f)
		default:
			panic(f)
		}
	}()
	for b.y = range l.grid[1] {
		for b.x = range l.grid[0] {
			unset(b.shared)
			b.run(order)
		}
	}
	return nil
}

// explain says where a launch ended.
func (b *block) explain(f fault) error {
	where := fmt.Sprintf("%s, block %d,%d", b.p.name, b.x, b.y)
	if b.running != nil {
		where += fmt.Sprintf(", warp %d", b.running.id)
	}
	if f.lane >= 0 {
		where += fmt.Sprintf(", lane %d", f.lane)
	}
	if b.running != nil && b.place != nil {
		where += ", " + b.place.at()
	}
	return fmt.Errorf("%s: %s", where, f.text)
}
