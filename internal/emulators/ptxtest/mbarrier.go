package ptxtest

// Barriers in shared memory (mbarrier, 9.7.13.15) count arrivals and the bytes of copies. A phase ends when all
// expected arrivals have come and no bytes are outstanding; the next begins at once. A wait for the end of a phase
// names its parity, and ends when the present phase has the other one.

var objects = map[string]row{
	"mbarrier.init.shared::cta.b64": {"mr", func(w *warp, in *instruction, m uint32) {
		at, n := w.addresses(in.args[0]), w.r(in.args[1])
		each(m, func(l int) {
			w.bytes(shared, l, at[l], 8, true)
			if n[l] == 0 || n[l] >= 1<<20 {
				fail(l, "a barrier for %d arrivals", n[l])
			}
			w.b.objects[at[l]] = w.b.object(int(n[l]), l)
		})
	}, onwards},
	"mbarrier.arrive.shared::cta.b64": {"qm", func(w *warp, in *instruction, m uint32) {
		at := w.addresses(in.args[1])
		each(m, func(l int) { w.object(l, at[l]).arrive(w, l) })
	}, onwards},
	"mbarrier.arrive.expect_tx.shared::cta.b64": {"qmr", func(w *warp, in *instruction, m uint32) {
		at, n := w.addresses(in.args[1]), w.r(in.args[2])
		each(m, func(l int) {
			o := w.object(l, at[l])
			o.bytes += int(n[l])
			o.arrive(w, l)
		})
	}, onwards},
	"mbarrier.try_wait.parity.shared::cta.b64": {"pmr", func(w *warp, in *instruction, m uint32) {
		at, parity := w.addresses(in.args[1]), w.r(in.args[2])
		w.decide(in.args[0], m, func(l int) bool {
			o := w.object(l, at[l])
			if o.phase&1 == int(parity[l]&1) {
				w.gaveWay = true
				return false
			}
			later(w.known[l], o.ended)
			return true
		})
	}, spinning},
	"fence.mbarrier_init.release.cluster": {"", nothing, onwards},
	"fence.proxy.async.shared::cta":       {"", func(w *warp, in *instruction, m uint32) { each(m, w.publish) }, onwards},

	// Registers that warps hand to each other: there are as many here as anybody wants.
	"setmaxnreg.inc.sync.aligned.u32": {"i", nothing, together},
	"setmaxnreg.dec.sync.aligned.u32": {"i", nothing, together},
}

// An object is a barrier of shared memory.
type object struct {
	expected, pending int
	bytes             int // promised and not come; below zero where they came before their promise
	phase             int

	index       int      // among the block's
	come, ended []uint32 // the accesses of the arrived: all of them, and those of phases that have ended
}

// object is a new one.
func (b *block) object(arrivals, lane int) *object {
	if b.made++; b.made > mostObjects {
		fail(lane, "more than %d barriers in shared memory", mostObjects)
	}
	return &object{expected: arrivals, pending: arrivals, index: b.made - 1, come: b.times(), ended: b.times()}
}

func (w *warp) object(lane int, at uint64) *object {
	o := w.b.objects[at]
	if o == nil {
		fail(lane, "there is no barrier at %#x of shared memory", at)
	}
	w.reads(w.b.sharedRegion(at, 8), w.now(1<<lane), lane)
	return o
}

func (o *object) arrive(w *warp, lane int) {
	if o.pending == 0 {
		fail(lane, "an arrival more than the %d of its phase", o.expected)
	}
	o.pending--
	w.release(1<<lane, o.come)
	o.settle(w.b)
}

func (o *object) settle(b *block) {
	b.progress++
	if o.pending == 0 && o.bytes == 0 {
		o.phase++
		o.pending = o.expected
		later(o.ended, o.come)
		o.ended[len(b.warps)*lanes+o.index] = uint32(o.phase)
	}
}

// Threads' stores to shared memory are visible to other units (wgmma, the copy engine) only after a fence of these
// threads. wrote notes a thread's stores, publish is the fence.
func (w *warp) wrote(lane int, at uint64, n int) {
	if w.b.unseen == nil {
		return
	}
	for i := (at - sharedBase) / 4; i < (at-sharedBase+uint64(n)+3)/4; i++ {
		w.b.unseen[i] = int32(w.id*lanes+lane) + 1
		w.stored[lane] = append(w.stored[lane], int32(i))
	}
}

func (w *warp) publish(lane int) {
	for _, i := range w.stored[lane] {
		if w.b.unseen[i] == int32(w.id*lanes+lane)+1 {
			w.b.unseen[i] = 0
		}
	}
	w.stored[lane] = w.stored[lane][:0]
}

// unit reads 16 bytes of shared memory as those units do.
func (b *block) unit(at uint64) []byte {
	found := within(b.shared, at-sharedBase, 16)
	if found == nil {
		fail(-1, "a unit reads 16 bytes at %#x, beyond shared memory", at)
	}
	for _, by := range b.unseen[(at-sharedBase)/4:][:4] {
		if by != 0 {
			fail(-1, "a unit reads at %#x what thread %d stored and has not fenced (fence.proxy.async)", at, by-1)
		}
	}
	return found
}
