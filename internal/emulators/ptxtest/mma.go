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

// pair are the two numbers of a register.
func pair(u uint32) (lo, hi float64) {
	return float64(widened(u & 0xffff)), float64(widened(u >> 16))
}

func multiply(w *warp, in *instruction, m uint32) {
	whole(m)
	const d, a, b, c = 0, 4, 8, 10
	var left [16][16]float64
	var right [8][16]float64 // by columns
	for i := range 4 {
		of := w.r(in.args[a+i])
		for lane, u := range of {
			r, k := lane/4+i%2*8, lane%4*2+i/2*8
			left[r][k], left[r][k+1] = pair(u)
		}
	}
	for i := range 2 {
		of := w.r(in.args[b+i])
		for lane, u := range of {
			k := lane%4*2 + i*8
			right[lane/4][k], right[lane/4][k+1] = pair(u)
		}
	}
	var sums [4]words
	for i := range 4 {
		before := w.r(in.args[c+i])
		for lane := range lanes {
			sums[i][lane] = dot(&left[lane/4+i/2*8], &right[lane%4*2+i%2], before[lane])
		}
	}
	for i := range 4 {
		*w.r(in.args[d+i]) = sums[i]
	}
}

// dot adds sixteen products to a sum. Products are exact; the document leaves the order and the roundings of the sum
// open, and here it is rounded once.
func dot(a, b *[16]float64, c uint32) uint32 {
	// No bit of a product is lost, and none of the sums' is promised. Four sums go beside each other.
	s0 := float64(number32(c)) + float64(a[0]*b[0]) + float64(a[4]*b[4]) + float64(a[8]*b[8]) + float64(a[12]*b[12])
	s1 := float64(a[1]*b[1]) + float64(a[5]*b[5]) + float64(a[9]*b[9]) + float64(a[13]*b[13])
	s2 := float64(a[2]*b[2]) + float64(a[6]*b[6]) + float64(a[10]*b[10]) + float64(a[14]*b[14])
	s3 := float64(a[3]*b[3]) + float64(a[7]*b[7]) + float64(a[11]*b[11]) + float64(a[15]*b[15])
	return bitsOf(float32((s0 + s1) + (s2 + s3)))
}

// loadMatrices: four matrices of 8 x 8 elements of 16 bits. Lanes 8i to 8i+7 say where the rows of matrix i are; a lane
// gets elements 2*in and the next of row group, or with .trans of column group.
func loadMatrices(turned bool) func(*warp, *instruction, uint32) {
	return func(w *warp, in *instruction, m uint32) {
		whole(m)
		at := w.addresses(in.args[4])
		var rows [lanes][]byte
		for lane := range rows {
			var r region
			rows[lane], r = w.place(shared, lane, at[lane], 16, false)
			w.reads(r, w.now(everyLane), allLanes)
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
