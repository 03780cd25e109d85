package vision

import "math"

// The two passes of 8-bit resizing, in whole numbers.

// pillowBits are the binary places of Pillow's weights: 32 less 8 for a pixel and 2 for sums
// that overshoot.
const pillowBits = 22

// whole is taps in whole numbers.
type whole struct {
	first   int
	weights []int32
}

func wholeTaps(all []taps, bits int) []whole {
	out := make([]whole, len(all))
	for i, t := range all {
		w := make([]int32, len(t.weights))
		for j, v := range t.weights {
			w[j] = int32(math.Round(v * float64(int(1)<<bits))) // half away from zero
		}
		out[i] = whole{t.first, w}
	}
	return out
}

// shifted counts the same taps from another row.
func shifted(all []whole, by int) []whole {
	out := make([]whole, len(all))
	for i, t := range all {
		out[i] = whole{t.first - by, t.weights}
	}
	return out
}

func clamp8(v int32) uint8 {
	if uint32(v) > 255 {
		if v < 0 {
			return 0
		}
		return 255
	}
	return uint8(v)
}

// across resizes the rows from first to last horizontally.
func (r *Raster) across(columns []whole, bits, first, last int) *Raster {
	out := NewRaster(len(columns), last-first, r.Channels)
	for y := first; y < last; y++ {
		switch r.Channels {
		case 1:
			across1(out.Row(y-first), r.Row(y), columns, bits)
		case 3:
			across3(out.Row(y-first), r.Row(y), columns, bits)
		default:
			across4(out.Row(y-first), r.Row(y), columns, bits)
		}
	}
	return out
}

// One loop a number of channels: the sums stay in registers.

func across1(to, from []uint8, columns []whole, bits int) {
	for x, t := range columns {
		a := int32(1) << (bits - 1)
		p := from[t.first:]
		p = p[:len(t.weights)]
		for j, w := range t.weights {
			a += w * int32(p[j])
		}
		to[x] = clamp8(a >> bits)
	}
}

func across3(to, from []uint8, columns []whole, bits int) {
	for x, t := range columns {
		half := int32(1) << (bits - 1)
		a, b, c := half, half, half
		p := from[3*t.first:]
		for _, w := range t.weights {
			q := p[:3]
			a += w * int32(q[0])
			b += w * int32(q[1])
			c += w * int32(q[2])
			p = p[3:]
		}
		q := to[3*x : 3*x+3]
		q[0], q[1], q[2] = clamp8(a>>bits), clamp8(b>>bits), clamp8(c>>bits)
	}
}

func across4(to, from []uint8, columns []whole, bits int) {
	for x, t := range columns {
		half := int32(1) << (bits - 1)
		a, b, c, d := half, half, half, half
		p := from[4*t.first:]
		for _, w := range t.weights {
			q := p[:4]
			a += w * int32(q[0])
			b += w * int32(q[1])
			c += w * int32(q[2])
			d += w * int32(q[3])
			p = p[4:]
		}
		q := to[4*x : 4*x+4]
		q[0], q[1], q[2], q[3] = clamp8(a>>bits), clamp8(b>>bits), clamp8(c>>bits), clamp8(d>>bits)
	}
}

// down resizes vertically: a row of sums takes one input row after the other.
func (r *Raster) down(rows []whole, bits int) *Raster {
	out := NewRaster(r.Width, len(rows), r.Channels)
	sums := make([]int32, r.Width*r.Channels)
	for y, t := range rows {
		for i := range sums {
			sums[i] = 1 << (bits - 1)
		}
		for j, w := range t.weights {
			from := r.Row(t.first + j)[:len(sums)]
			for i := range sums {
				sums[i] += w * int32(from[i])
			}
		}
		to := out.Row(y)[:len(sums)]
		for i, v := range sums {
			to[i] = clamp8(v >> bits)
		}
	}
	return out
}
