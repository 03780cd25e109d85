package ptxtest

import (
	"fmt"
	"sort"
)

// Where spaces lie. A generic address is a global one, or lies in a window.
const (
	sharedWindow = 1 << 56
	localWindow  = 2 << 56
	paramWindow  = 3 << 56
	windowMask   = 0xff << 56

	// Dynamic shared memory begins at a multiple of 128, as the images ask for, and of no more.
	sharedBase = 1024 + 128

	firstGlobal = 0x7000_0000_0000
	pageBytes   = 4096
)

// A deviceMemory holds a device's allocations with gaps between them, so that an access beyond one fails. No address is
// used again.
type deviceMemory struct {
	live []*allocation // ascending
	last *allocation
	next uint64
	used int
	era  uint32 // the present one (order.go)

	blind bool // races go unseen
}

type allocation struct {
	at   uint64
	data []byte
	shadow
}

func newMemory() *deviceMemory { return &deviceMemory{next: firstGlobal} }

// take is n bytes, each 0xFF: NaN in every type.
func (g *deviceMemory) take(n int) uint64 {
	a := &allocation{at: g.next, data: make([]byte, n)}
	unset(a.data)
	g.live = append(g.live, a)
	g.next += uint64(n+2*pageBytes-1) / pageBytes * pageBytes
	g.used += n
	return a.at
}

func (g *deviceMemory) give(at uint64) bool {
	i := g.search(at)
	if i < 0 || g.live[i].at != at {
		return false
	}
	g.used -= len(g.live[i].data)
	g.live = append(g.live[:i], g.live[i+1:]...)
	g.last = nil
	return true
}

// search is the last allocation that begins at an address or before it.
func (g *deviceMemory) search(at uint64) int {
	return sort.Search(len(g.live), func(i int) bool { return g.live[i].at > at }) - 1
}

// bytes are n from an address on, nil where there is no such memory.
func (g *deviceMemory) bytes(at uint64, n int) []byte {
	a := g.find(at, n)
	if a == nil {
		return nil
	}
	i := at - a.at
	return a.data[i : i+uint64(n) : i+uint64(n)]
}

// find is the allocation that n bytes lie in.
func (g *deviceMemory) find(at uint64, n int) *allocation {
	a := g.last
	if a == nil || at < a.at || at-a.at+uint64(n) > uint64(len(a.data)) {
		i := g.search(at)
		if i < 0 {
			return nil
		}
		if a = g.live[i]; at-a.at > uint64(len(a.data)) || at-a.at+uint64(n) > uint64(len(a.data)) {
			return nil
		}
		g.last = a
	}
	return a
}

// A space is where an access goes.
type space byte

const (
	generic space = iota
	global
	shared
	local
	param
)

var spaces = map[string]space{"global": global, "shared": shared, "shared::cta": shared, "local": local, "param": param}

// A fault is the error that ends a launch.
type fault struct {
	lane int // -1: no lane's own
	text string
}

func fail(lane int, format string, args ...any) { panic(fault{lane, fmt.Sprintf(format, args...)}) }

// bytes are n of a space at an address, for a lane that reads or writes them.
func (w *warp) bytes(s space, lane int, at uint64, n int, writes bool) []byte {
	found, r := w.place(s, lane, at, n, writes)
	switch {
	case r.cells == nil:
	case writes:
		w.writes(r, w.now(1<<lane), lane)
	default:
		w.reads(r, w.now(1<<lane), lane)
	}
	return found
}

// place is where n bytes of a space are, and their shadow, which parameters and a lane's own memory lack.
func (w *warp) place(s space, lane int, at uint64, n int, writes bool) (found []byte, r region) {
	if at&uint64(n-1) != 0 {
		fail(lane, "%d bytes at %#x, which is no multiple of them", n, at)
	}
	if s == generic {
		switch at & windowMask {
		case sharedWindow:
			s, at = shared, at-sharedWindow
		case localWindow:
			s, at = local, at-localWindow
		case paramWindow:
			s, at = param, at-paramWindow
		default:
			s = global
		}
	}
	switch s {
	case global:
		found, r = w.global(at, n, lane)
	case shared:
		if found = within(w.b.shared, at-sharedBase, n); found != nil {
			r = region{w.b.shadow.of(at-sharedBase, n, len(w.b.shared), w.p.cells[shared]), w.b.first}
		}
	case local:
		found = within(w.local[lane*w.p.localBytes:(lane+1)*w.p.localBytes], at, n)
	case param:
		if !writes {
			found = within(w.b.args, at, n)
		}
	}
	if found == nil {
		name := [...]string{"", "global", "shared", "local", "parameters"}[s]
		fail(lane, "%d bytes at %#x are in no memory of its own (%s)", n, at, name)
	}
	return found, r
}

// global is memory of the device. Before griddepcontrol.wait, stores of earlier kernels may be missing.
func (w *warp) global(at uint64, n, lane int) ([]byte, region) {
	if w.p.waits && !w.followed {
		fail(lane, "global memory is touched before griddepcontrol.wait")
	}
	a := w.b.global.find(at, n)
	if a == nil {
		return nil, region{}
	}
	i := at - a.at
	return a.data[i : i+uint64(n) : i+uint64(n)], region{a.of(i, n, len(a.data), w.p.cells[global]), w.b.launched}
}

func (b *block) sharedRegion(at uint64, n int) region {
	if within(b.shared, at-sharedBase, n) == nil {
		fail(-1, "%d bytes at %#x reach beyond shared memory", n, at)
	}
	return region{b.shadow.of(at-sharedBase, n, len(b.shared), b.p.cells[shared]), b.first}
}

func within(b []byte, at uint64, n int) []byte {
	if at > uint64(len(b)) || at+uint64(n) > uint64(len(b)) {
		return nil
	}
	return b[at : at+uint64(n) : at+uint64(n)]
}
