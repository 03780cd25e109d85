package ptxtest

// Copies to shared memory that go on beside a thread's work (cp.async, 9.7.9.25). They are seen by nobody before the
// thread has waited for their group: here they come with the wait, and their target is NaN until then. In
// two of three orders of a launch they come at once, which a device may do as well.

var copies = map[string]row{
	"cp.async.cg.shared.global": {"mmir", copyAsync, onwards},
	"cp.async.commit_group": {"", func(w *warp, in *instruction, m uint32) {
		each(m, func(l int) { w.begun[l].group++ })
	}, onwards},
	"cp.async.wait_group": {"i", func(w *warp, in *instruction, m uint32) {
		n := int(w.r(in.args[0])[0])
		each(m, func(l int) {
			b := &w.begun[l]
			b.land(w, l, b.group-n)
			for len(b.waited) < b.group-n {
				b.waited = append(b.waited, moment{w.b.era, w.clock})
			}
		})
	}, onwards},
}

// A copying was begun and has not come.
type copying struct {
	to       []byte
	from     uint64
	n, group int
}

// begun are a thread's, and the group that the next belongs to.
type begun struct {
	copies []copying
	group  int
	waited []moment // when each group was waited for
}

// copyAsync begins to copy 16 bytes, of which those beyond the last operand are zeros. Nothing is read where that is 0.
func copyAsync(w *warp, in *instruction, m uint32) {
	to, sizes := *w.addresses(in.args[0]), w.r(in.args[3])
	from := w.addresses(in.args[1])
	each(m, func(l int) {
		n := int(sizes[l])
		if n > 16 {
			fail(l, "%d bytes to be read for 16", n)
		}
		if n > 0 && from[l]%16 != 0 {
			fail(l, "a copy of 16 bytes from %#x, which is no multiple of them", from[l])
		}
		place, r := w.place(shared, l, to[l], 16, true)
		s := w.now(1 << l)
		s.late, s.clock = true, uint32(w.begun[l].group)
		w.writes(r, s, l)
		if n > 0 {
			if _, r := w.global(from[l], n, l); r.cells != nil {
				w.reads(r, w.now(1<<l), l)
			}
		}
		c := copying{place, from[l], n, w.begun[l].group}
		if !w.b.late {
			c.land(w, l)
			return
		}
		for i := range c.to {
			c.to[i] = 0xff
		}
		w.begun[l].copies = append(w.begun[l].copies, c)
	})
}

func (c copying) land(w *warp, lane int) {
	clear(c.to)
	if c.n == 0 {
		return
	}
	from := w.b.global.bytes(c.from, c.n)
	if from == nil {
		fail(lane, "a copy of %d bytes from %#x, where there is no memory", c.n, c.from)
	}
	copy(c.to, from)
}

// land lets a thread's copies of groups before one come.
func (b *begun) land(w *warp, lane, before int) {
	n := 0
	for ; n < len(b.copies) && b.copies[n].group < before; n++ {
		b.copies[n].land(w, lane)
	}
	b.copies = b.copies[n:]
}
