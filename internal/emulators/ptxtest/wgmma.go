package ptxtest

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// Products of a warpgroup (wgmma, 9.7.15): four warps multiply 64 rows of A, 16 to each, with N columns of B. A is in
// shared memory or in registers, B in shared memory. Products run beside the threads: their sums are there after the
// wait for their group. In one of three orders of a launch they run at that wait, so that operands overwritten
// before it, and sums read before it, show.
//
// Fragments are those of mma.m16n8k16 (mma.go), 8 columns after another. A descriptor (9.7.15.5.1.2.2) has the start in
// its bits 0 to 13, the leading distance in 16 to 29, the stride distance in 32 to 45, each in units of 16 bytes, and
// the swizzle in 62 and 63: 1 is that of 128 bytes. With it an element lies, before pieces are moved about,
//
//	along k       at start + row/8 * stride + row%8 * 128 + 2*k
//	across (.trans: k outside) at start + row/64 * leading + k/8 * stride + k%8 * 128 + row%64 * 2

var products = map[string]row{
	"wgmma.fence.sync.aligned":        {"", func(w *warp, in *instruction, m uint32) { w.fenced = true }, together},
	"wgmma.commit_group.sync.aligned": {"", func(w *warp, in *instruction, m uint32) { w.batch++ }, together},
	"wgmma.wait_group.sync.aligned": {"i", func(w *warp, in *instruction, m uint32) {
		w.fenced = false
		w.finish(w.batch - int(w.r(in.args[0])[0]))
	}, together},
}

// A product was begun and has not run. Its descriptors and whether it adds to its sums are read when it begins; its
// other registers belong to it until the wait.
type product struct {
	in    *instruction
	batch int
	n     int
	held  bool
	a, b  descriptor
	adds  uint32 // a bit for each lane
}

// warpgroup is the row of mma_async.sync.aligned.m64nNk16.f32.bf16.bf16, and of .held: A in registers.
func warpgroup(rest string) (row, bool) {
	size, found := strings.CutPrefix(rest, "mma_async.sync.aligned.m64n")
	size, held := strings.CutSuffix(size, ".held")
	size, typed := strings.CutSuffix(size, "k16.f32.bf16.bf16")
	n, err := strconv.Atoi(size)
	if !found || !typed || err != nil || n%8 != 0 || n < 8 || n > 256 {
		return row{}, false
	}
	a, signs := "q", "iiii"
	if held {
		a, signs = "rrrr", "iii"
	}
	return row{strings.Repeat("r", n/2) + a + "qx" + signs, func(w *warp, in *instruction, m uint32) {
		if whole(m); !w.fenced {
			fail(-1, "a product without wgmma.fence after the last wait")
		}
		p := w.product(in, n, held)
		s := w.now(everyLane)
		s.late, s.clock = true, uint32(w.batch)
		if !held {
			p.a.pieces(w.id%4*16, 16, func(_, _ int, at uint64) { w.reads(w.b.sharedRegion(at, 16), s, allLanes) })
		}
		p.b.pieces(0, n, func(_, _ int, at uint64) { w.reads(w.b.sharedRegion(at, 16), s, allLanes) })
		if w.b.late {
			w.products = append(w.products, p)
			return
		}
		p.run(w)
	}, together}, true
}

// finish runs the products of batches before one.
func (w *warp) finish(before int) {
	for len(w.waited) < before {
		w.waited = append(w.waited, moment{w.b.era, w.clock})
	}
	n := 0
	for ; n < len(w.products) && w.products[n].batch < before; n++ {
		w.products[n].run(w)
	}
	w.products = w.products[n:]
}

func (w *warp) product(in *instruction, n int, held bool) product {
	p := product{in: in, batch: w.batch, n: n, held: held}
	args, last := in.args[n/2:], len(in.args)-1
	if held {
		args = args[4:]
	} else {
		p.a = descriptorOf(w.q(args[0])[0], w.r(in.args[last-1])[0] != 0)
		args = args[1:]
	}
	p.b = descriptorOf(w.q(args[0])[0], w.r(in.args[last])[0] != 0)
	p.adds = w.mask(args[1])
	for i := 2; i < 4; i++ {
		if v := int32(w.r(args[i])[0]); v != 1 {
			fail(-1, "a sign of %d", v)
		}
	}
	return p
}

// run multiplies this warp's rows.
func (p product) run(w *warp) {
	var left [16][16]float64
	if p.held {
		left = w.heldRows(p.in, p.n/2)
	} else {
		p.a.load(w.b, w.id%4*16, left[:])
	}
	right := make([][16]float64, p.n)
	p.b.load(w.b, 0, right)
	for i := range p.n / 2 {
		sum := w.r(p.in.args[i])
		for lane := range lanes {
			r, c := lane/4+i%4/2*8, i/4*8+lane%4*2+i%2
			if p.adds>>lane&1 == 0 {
				sum[lane] = 0
			}
			sum[lane] = dot(&left[r], &right[c], sum[lane])
		}
	}
}

// heldRows are the rows of A that a warp's registers hold.
func (w *warp) heldRows(in *instruction, first int) (left [16][16]float64) {
	for i := range 4 {
		of := w.r(in.args[first+i])
		for lane, u := range of {
			r, k := lane/4+i%2*8, lane%4*2+i/2*8
			left[r][k], left[r][k+1] = pair(u)
		}
	}
	return left
}

// A descriptor says where an operand lies in shared memory.
type descriptor struct {
	start, leading, stride uint64
	across                 bool
}

func descriptorOf(u uint64, across bool) descriptor {
	if u>>62 != 1 || u>>49&7 != 0 {
		fail(-1, "a descriptor %#x: its swizzle is not that of 128 bytes, or it begins inside a pattern", u)
	}
	return descriptor{u & 0x3fff << 4, u >> 16 & 0x3fff << 4, u >> 32 & 0x3fff << 4, across}
}

// pieces calls f with each piece of 16 bytes that n rows of A (columns of B) have in 16 of k, and with the row and the
// k of its first element; the seven others are further along k, or across further rows.
func (d descriptor) pieces(first, n int, f func(row, k int, at uint64)) {
	for row := first; row < first+n; row++ {
		r := uint64(row)
		switch {
		case !d.across:
			at := d.start + r/8*d.stride + r%8*128
			f(row, 0, swizzled(at))
			f(row, 8, swizzled(at+16))
		case row%8 == 0:
			for k := range uint64(16) {
				f(row, int(k), swizzled(d.start+r/64*d.leading+k/8*d.stride+k%8*128+r%64*2))
			}
		}
	}
}

// load reads rows of A or columns of B from the first on.
func (d descriptor) load(b *block, first int, x [][16]float64) {
	d.pieces(first, len(x), func(row, k int, at uint64) {
		for i, piece := 0, b.unit(at); i < 8; i++ {
			v := float64(widened(uint32(binary.LittleEndian.Uint16(piece[2*i:]))))
			if d.across {
				x[row-first+i][k] = v
			} else {
				x[row-first][k+i] = v
			}
		}
	})
}
