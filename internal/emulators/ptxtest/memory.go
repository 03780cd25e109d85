package ptxtest

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strings"
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
	era  uint32 // the present one (races.go)

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

// Loads and stores: SPACE.vN.TYPE, where the space may be missing (generic) and the vector, too.

// An access is the meaning of a load's or a store's name.
type access struct {
	space  space
	n      int // elements
	size   int // bytes of each
	letter string
	signed bool
}

func accessOf(rest string) (a access, ok bool) {
	a.n = 1
	parts := strings.Split(rest, ".")
	if s, ok := spaces[parts[0]]; ok {
		a.space, parts = s, parts[1:]
	}
	if len(parts) == 2 && (parts[0] == "v2" || parts[0] == "v4") {
		a.n, parts = int(parts[0][1]-'0'), parts[1:]
	}
	if len(parts) != 1 {
		return a, false
	}
	switch parts[0] {
	case "u8":
		a.size, a.letter = 1, "w"
	case "u16", "b16":
		a.size, a.letter = 2, "w"
	case "u32", "s32", "b32", "f32":
		a.size, a.letter, a.signed = 4, "v", parts[0] == "s32"
	case "u64", "s64", "b64", "f64":
		a.size, a.letter = 8, "q"
	default:
		return a, false
	}
	return a, true
}

func load(rest string) (row, bool) {
	a, ok := accessOf(rest)
	return row{strings.Repeat(a.letter, a.n) + "m", func(w *warp, in *instruction, m uint32) {
		at, bytes := w.addresses(in.args[a.n]), a.n*a.size
		each(m, func(l int) { a.take(w, in, l, w.bytes(a.space, l, at[l], bytes, false)) })
	}, onwards}, ok
}

// take puts the bytes read into a lane's registers.
func (a access) take(w *warp, in *instruction, l int, b []byte) {
	for i := range a.n {
		switch b := b[i*a.size:]; a.size {
		case 1:
			w.r(in.args[i])[l] = uint32(b[0])
		case 2:
			w.r(in.args[i])[l] = uint32(binary.LittleEndian.Uint16(b))
		case 4:
			a.take32(w, in.args[i], l, binary.LittleEndian.Uint32(b))
		case 8:
			w.q(in.args[i])[l] = binary.LittleEndian.Uint64(b)
		}
	}
}

// take32 lets a register of 64 bits have the number as its type says.
func (a access) take32(w *warp, o operand, l int, v uint32) {
	switch {
	case o.class != double:
		w.r(o)[l] = v
	case a.signed:
		w.q(o)[l] = uint64(int64(int32(v)))
	default:
		w.q(o)[l] = uint64(v)
	}
}

func store(rest string) (row, bool) {
	a, ok := accessOf(rest)
	letter := strings.Replace(a.letter, "v", "r", 1)
	return row{"m" + strings.Repeat(letter, a.n), func(w *warp, in *instruction, m uint32) {
		at := w.addresses(in.args[0])
		each(m, func(l int) {
			a.put(w, in, l, w.bytes(a.space, l, at[l], a.n*a.size, true))
			if a.space == shared {
				w.wrote(l, at[l], a.n*a.size)
			}
		})
	}, onwards}, ok
}

func (a access) put(w *warp, in *instruction, l int, b []byte) {
	for i := range a.n {
		o := in.args[1+i]
		switch b := b[i*a.size:]; a.size {
		case 1:
			b[0] = byte(w.r(o)[l])
		case 2:
			binary.LittleEndian.PutUint16(b, uint16(w.r(o)[l]))
		case 4:
			binary.LittleEndian.PutUint32(b, w.r(o)[l])
		case 8:
			binary.LittleEndian.PutUint64(b, w.q(o)[l])
		}
	}
}

// addresses are an operand's in all lanes; they hold until the next call.
func (w *warp) addresses(o operand) *doubles {
	d := &w.at
	switch o.base {
	case word:
		a, offset := &w.words[o.i], uint32(o.offset)
		for l := range d {
			d[l] = uint64(a[l] + offset)
		}
	case double:
		a, offset := &w.doubles[o.i], uint64(o.offset)
		for l := range d {
			d[l] = a[l] + offset
		}
	default:
		for l := range d {
			d[l] = w.p.wide[o.i][l] + uint64(o.offset)
		}
	}
	return d
}
