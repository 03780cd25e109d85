package ref

// The statistics of a group norm, from one pass over memory.
//
// Pixels are taken in blocks of MomentBlock. In a block of n pixels a channel's numbers
// are measured from the one in the block's middle, y:
//
//	s = sum of x - y, q = sum of (x - y)² (fused): fp32 from +0, one pixel after another
//
// From there on it is float64. With k = y - first, where first is the group's first
// channel in the sample's first pixel, a block adds for each channel of the group,
// in order,
//
//	S += s + n·k,  Q += q + k·(2·s + n·k)
//
// which are the sums of x - first and of its square; blocks are added in order, and
//
//	mean = first + S/count,  variance = Q/count - (S/count)²   (rounded once)
//
// Both measures are among the numbers that are measured: the square of their distance from the mean is at most as
// many times the variance as there are numbers, so the cancellation is bounded, whatever the mean: 8 bits of fp32 in
// a block, and that only where its middle lies apart from all the rest; 30 of float64's 53 for a thousand million.

// MomentBlock is the number of pixels whose distances are added in fp32.
const MomentBlock = 256

// Moments are the sums of x - first and of its square.
type Moments struct{ Sum, Squares float64 }

// BlockMoments are those of one group in a block of n pixels, from its channels' middle
// numbers, sums and squares.
func BlockMoments(first float32, middle, sums, squares []float32, n int) Moments {
	var m Moments
	sums, squares = sums[:len(middle)], squares[:len(middle)]
	for c, y := range middle {
		k, s := float64(y)-float64(first), float64(sums[c])
		nk := float64(float64(n) * k)
		m.Sum += s + nk
		m.Squares += float64(squares[c]) + float64(k*(s+s+nk))
	}
	return m
}

// Statistics are the mean and the variance of count numbers, from the blocks' moments.
func Statistics(first float32, blocks []Moments, count int) (mean, variance float32) {
	var t Moments
	for _, b := range blocks {
		t.Sum += b.Sum
		t.Squares += b.Squares
	}
	d := t.Sum / float64(count)
	return Flush(float32(float64(first) + d)), Flush(float32(t.Squares/float64(count) - float64(d*d)))
}

// moments are those of the blocks of a group of sample n.
func (g *groups) moments(n, group int) (first float32, blocks []Moments) {
	a, per := g.a, g.per
	pixel := func(x []float32, p int) []float32 {
		Load(x, a.X, (n*a.HW+p)*a.C+group*per)
		return x
	}
	x, middle := make([]float32, per), make([]float32, per)
	if a.HW > 0 {
		first = pixel(x, 0)[0]
	}
	for lo := 0; lo < a.HW; lo += MomentBlock {
		hi := min(lo+MomentBlock, a.HW)
		pixel(middle, Middle(lo, hi))
		s, q := make([]float32, per), make([]float32, per)
		for p := lo; p < hi; p++ {
			for c, v := range pixel(x, p) {
				d := Sub(v, middle[c])
				s[c], q[c] = Add(s[c], d), FMA(d, d, q[c])
			}
		}
		blocks = append(blocks, BlockMoments(first, middle, s, q, hi-lo))
	}
	return first, blocks
}

// Middle is the pixel that a block from lo to hi-1 is measured from.
func Middle(lo, hi int) int { return lo + (hi-lo)/2 }
