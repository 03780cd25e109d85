package ptxtest

import "encoding/binary"

// Matrices of a warp: section 9.7.14.5 of the document, "Matrix Fragments for mma.m16n8k16" of f16 and bf16, and
// "ldmatrix". With group = lane/4 and in = lane%4, element i of a lane's fragment is
//
//	of A (16 x 16)   row group where i is 0, 1, 4, 5, else group + 8; column 2*in + i%2, and 8 more from i = 4 on
//	of B (16 x 8)    row 2*in + i%2, and 8 more from i = 2 on; column group
//	of C, D (16 x 8) row group, and 8 more from i = 2 on; column 2*in + i%2
//
// Registers of A and B hold two elements, the lower one first.

var matrices = map[string]row{
	"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": {"rrrrrrrrrrrrrr", multiply, together},
	"ldmatrix.sync.aligned.m8n8.x4.shared.b16":            {"rrrrm", loadMatrices(false), together},
	"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16":      {"rrrrm", loadMatrices(true), together},
}

func whole(m uint32) {
	if m != everyLane {
		fail(-1, "lanes %08x have ended before an instruction of the whole warp", ^m)
	}
}

// element is a lane's i-th of a fragment that begins at an operand.
func (w *warp) element(in *instruction, first, i, lane int) float32 {
	return widened(w.r(in.args[first+i/2])[lane] >> (i % 2 * 16) & 0xffff)
}

func multiply(w *warp, in *instruction, m uint32) {
	whole(m)
	const d, a, b, c = 0, 4, 8, 10
	var left [16][16]float32
	var right [8][16]float32 // by columns
	for lane := range lanes {
		group, two := lane/4, lane%4*2
		for i := range 8 {
			r, k := group, two+i%2
			if i&2 != 0 {
				r += 8
			}
			if i >= 4 {
				k += 8
			}
			left[r][k] = w.element(in, a, i, lane)
		}
		for i := range 4 {
			k := two + i%2
			if i >= 2 {
				k += 8
			}
			right[group][k] = w.element(in, b, i, lane)
		}
	}
	var sums [4]words
	for lane := range lanes {
		group, two := lane/4, lane%4*2
		for i := range 4 {
			r := group
			if i >= 2 {
				r += 8
			}
			sums[i][lane] = dot(&left[r], &right[two+i%2], w.r(in.args[c+i])[lane])
		}
	}
	for i := range 4 {
		*w.r(in.args[d+i]) = sums[i]
	}
}

// dot adds sixteen products to a sum. Products are exact; the document leaves the order and the roundings of the sum
// open, and here it is rounded once.
func dot(a, b *[16]float32, c uint32) uint32 {
	s := float64(number32(c))
	for k := range a {
		s += float64(a[k]) * float64(b[k]) // exact: no bit of a product is lost, and none of the sums' is promised
	}
	return bitsOf(float32(s))
}

// loadMatrices: four matrices of 8 x 8 elements of 16 bits. Lanes 8i to 8i+7 say where the rows of matrix i are; a lane
// gets elements 2*in and the next of row group, or with .trans of column group.
func loadMatrices(turned bool) func(*warp, *instruction, uint32) {
	return func(w *warp, in *instruction, m uint32) {
		whole(m)
		at := w.addresses(in.args[4])
		var rows [lanes][]byte
		for lane := range rows {
			rows[lane] = w.bytes(shared, lane, at[lane], 16, false)
		}
		for i := range 4 {
			d := w.r(in.args[i])
			for lane := range d {
				group, two := lane/4, lane%4*2
				pick := func(k int) uint32 {
					r, c := group, two+k
					if turned {
						r, c = c, r
					}
					return uint32(binary.LittleEndian.Uint16(rows[8*i+r][2*c:]))
				}
				d[lane] = pick(0) | pick(1)<<16
			}
		}
	}
}
