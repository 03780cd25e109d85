package ptxtest

import "encoding/binary"

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

// The copy engine (cp.async.bulk.tensor, 9.7.9.27): a box of a tensor comes to shared memory, row by row, and its bytes
// are counted at a barrier. Beyond the tensor are zeros, which count as well. With the 128-byte swizzle, pieces of 16
// bytes have bits 4 to 6 of their address changed by its bits 7 to 9 (5.5.6).

var engine = map[string]row{
	"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes": {"mmrrrrm", bring, onwards},
}

// A tensorMap is the output of cuTensorMapEncodeTiled, in a form of ours: 128 bytes.
type tensorMap struct {
	Magic, At uint64
	Dims      [4]uint64
	Strides   [3]uint64
	Box       [4]uint32
	_         [5]uint64
}

const mapMagic = 0x7e45_0a9d_ab0c_0001

// A boxCopy was begun and has not come.
type boxCopy struct {
	tensorMap
	to      uint64
	corner  [4]int32
	barrier *object
	by      *warp
	lane    int
	begun   stamp
}

func bring(w *warp, in *instruction, m uint32) {
	to := *w.addresses(in.args[0])
	maps := *w.addresses(in.args[1])
	barriers := *w.addresses(in.args[6])
	each(m, func(l int) {
		c := boxCopy{to: to[l], barrier: w.object(l, barriers[l]), by: w, lane: l, begun: w.now(1 << l)}
		raw := append([]byte{}, w.bytes(generic, l, maps[l], 64, false)...)
		raw = append(raw, w.bytes(generic, l, maps[l]+64, 64, false)...)
		if _, err := binary.Decode(raw, binary.LittleEndian, &c.tensorMap); err != nil || c.Magic != mapMagic {
			fail(l, "there is no tensor map at %#x", maps[l])
		}
		if to[l]%128 != 0 {
			fail(l, "a box is brought to %#x, which is no multiple of 128", to[l])
		}
		for i := range c.corner {
			c.corner[i] = int32(w.r(in.args[2+i])[l])
		}
		c.claim(c.begun)
		if !w.b.late {
			c.land(w.b)
			return
		}
		w.b.boxes = append(w.b.boxes, c)
	})
}

// claim gives the box's places to its barrier's present phase. They are NaN until then.
func (c *boxCopy) claim(s stamp) {
	b := c.by.b
	s.warp, s.clock = int16(len(b.warps)+c.barrier.index), uint32(c.barrier.phase+1)
	c.rows(func(at uint64, _ [4]int64) {
		for i := uint64(0); i < uint64(c.Box[0])*2; i += 16 {
			place := swizzled(at + i)
			room := b.room(place, 16)
			c.by.writes(b.sharedRegion(place, 16), s, c.lane)
			for i := range room {
				room[i] = 0xff
			}
		}
	})
}

// room is shared memory that the engine writes.
func (b *block) room(at uint64, n int) []byte {
	found := within(b.shared, at-sharedBase, n)
	if found == nil {
		fail(-1, "a box reaches beyond shared memory, to %#x", at)
	}
	return found
}

// rows calls f with each row of the box: where it comes to, and where it is in the tensor.
func (c *boxCopy) rows(f func(at uint64, from [4]int64)) {
	at := c.to
	for i3 := range int64(c.Box[3]) {
		for i2 := range int64(c.Box[2]) {
			for i1 := range int64(c.Box[1]) {
				f(at, [4]int64{int64(c.corner[0]), int64(c.corner[1]) + i1, int64(c.corner[2]) + i2, int64(c.corner[3]) + i3})
				at += uint64(c.Box[0]) * 2
			}
		}
	}
}

// land brings the box, and counts it.
func (c *boxCopy) land(b *block) {
	total := 0
	c.rows(func(at uint64, from [4]int64) {
		row := make([]byte, c.Box[0]*2)
		inside, start := true, c.At
		for i := 1; i < 4; i++ {
			inside = inside && from[i] >= 0 && from[i] < int64(c.Dims[i])
			start += uint64(from[i]) * c.Strides[i-1]
		}
		first, last := max(from[0], 0), min(from[0]+int64(c.Box[0]), int64(c.Dims[0]))
		if inside && first < last {
			elements, r := c.by.global(start+uint64(2*first), int(2*(last-first)), c.lane)
			if elements == nil {
				fail(-1, "a box of a tensor whose memory was given back")
			}
			c.by.reads(r, c.begun, c.lane)
			copy(row[2*(first-from[0]):], elements)
		}
		for i := 0; i < len(row); i += 16 {
			copy(b.room(swizzled(at+uint64(i)), 16), row[i:i+16])
		}
		total += len(row)
	})
	c.barrier.bytes -= total
	c.barrier.settle(b)
}

// swizzled is where a piece of 16 bytes lies that belongs at an address.
func swizzled(at uint64) uint64 { return at ^ at>>7&7<<4 }

// encode is cuTensorMapEncodeTiled.
func (d *Device) encode(a []uintptr) int32 {
	const bf16, swizzle128 = 9, 3
	if a[0]%64 != 0 || a[1] != bf16 || a[2] != 4 || a[3]%16 != 0 || a[8] != 0 || a[9] != swizzle128 || a[11] != 0 {
		return invalidValue
	}
	m := tensorMap{Magic: mapMagic, At: uint64(a[3])}
	extent := uint64(2)
	for i := range 4 {
		m.Dims[i] = binary.LittleEndian.Uint64(memoryAt(a[4]+uintptr(8*i), 8))
		m.Box[i] = binary.LittleEndian.Uint32(memoryAt(a[6]+uintptr(4*i), 4))
		step := binary.LittleEndian.Uint32(memoryAt(a[7]+uintptr(4*i), 4))
		stride := uint64(2)
		if i > 0 {
			stride = binary.LittleEndian.Uint64(memoryAt(a[5]+uintptr(8*(i-1)), 8))
			m.Strides[i-1] = stride
		}
		if m.Dims[i] < 1 || m.Dims[i] > 1<<32 || m.Box[i] < 1 || m.Box[i] > 256 || step != 1 {
			return invalidValue
		}
		if i > 0 && (stride%16 != 0 || stride == 0 || stride >= 1<<40) {
			return invalidValue
		}
		extent += (m.Dims[i] - 1) * stride
	}
	if m.Box[0]*2%16 != 0 || m.Box[0]*2 > 128 || d.memory.bytes(m.At, int(extent)) == nil {
		return invalidValue
	}
	_, err := binary.Encode(memoryAt(a[0], 128), binary.LittleEndian, m)
	if err != nil {
		panic(err)
	}
	return 0
}
