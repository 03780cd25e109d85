package flow

// Each pixel's flow from the patches that hold it: their mean, with weights 1/max(1, |d|),
// where d is the pixel's difference from the pixel to which the patch leads.

func (s *search) densify(x, y *plane) {
	rows(s.height, s.d.Threads, func(from, to int) {
		for i := from; i < to; i++ {
			s.denseRow(i, x.row(i), y.row(i))
		}
	})
}

// holders are the first and the last place of the grid whose patches hold pixel i of n. Near
// the far edge, where the grid ends, the last patches reach further.
func (d *DIS) holders(i, n, places int) (first, last int) {
	last = min(i/d.PatchStride, places-1)
	if i >= d.PatchSize {
		first = (i-d.PatchSize)/d.PatchStride + 1
	}
	return min(first, last), last
}

func (s *search) denseRow(i int, x, y []float32) {
	firstLine, lastLine := s.d.holders(i, s.height, s.lines)
	right, bottom := float32(s.width)-1-0.001, float32(s.height)-1-0.001
	first, last := 0, 0 // places whose patches hold pixel j, and where the next ones begin
	nextFirst, nextLast := s.d.PatchSize, s.d.PatchStride
	for j := range s.width {
		for j >= nextFirst && first < s.columns-1 {
			first, nextFirst = first+1, nextFirst+s.d.PatchStride
		}
		for j >= nextLast && last < s.columns-1 {
			last, nextLast = last+1, nextLast+s.d.PatchStride
		}
		own := float32(s.first[i*s.width+j])
		var sum, sumX, sumY float32
		for line := firstLine; line <= lastLine; line++ {
			for at := line*s.columns + first; at <= line*s.columns+last; at++ {
				u, v := s.x[at], s.y[at]
				jm, im := clamped(float32(j)+u, right), clamped(float32(i)+v, bottom)
				jl, il := int(jm), int(im)
				fj, fi := jm-float32(jl), im-float32(il)
				ej, ei := float32(jl+1)-jm, float32(il+1)-im
				p := il*s.width + jl
				up, down := (*[2]uint8)(s.plain[p:]), (*[2]uint8)(s.plain[p+s.width:])
				d := float32(float32(fj*fi)*float32(down[1])) + float32(float32(ej*fi)*float32(down[0])) +
					float32(float32(fj*ei)*float32(up[1])) + float32(float32(ej*ei)*float32(up[0])) - own
				if d < 0 {
					d = -d
				}
				w := 1 / max(1, d)
				sumX += float32(w * u)
				sumY += float32(w * v)
				sum += w
			}
		}
		x[j], y[j] = sumX/sum, sumY/sum
	}
}

// clamped returns x in 0..high; NaN becomes 0.
func clamped(x, high float32) float32 {
	if !(x >= 0) {
		return 0
	}
	return min(x, high)
}
