package vlm

import "github.com/darkroom-rl/darkroom/kernels/autograd"

// segments are stretches of a list that attend to themselves alone: windows, frames. They are
// computed side by side, the shorter ones filled up, which changes no bit of them.
type segments struct {
	longest int
	lengths []int32
	in, out []int32 // rows of the padded list, and back; nil where all are as long
}

func segmentsOf(ends []int) segments {
	var s segments
	equal := true
	for i := 1; i < len(ends); i++ {
		n := ends[i] - ends[i-1]
		s.lengths = append(s.lengths, int32(n))
		s.longest = max(s.longest, n)
		equal = equal && n == ends[1]-ends[0]
	}
	if equal {
		return s
	}
	for i, n := range s.lengths {
		for j := range int32(s.longest) {
			s.in = append(s.in, int32(ends[i])+min(j, n-1))
			if j < n {
				s.out = append(s.out, int32(i*s.longest)+j)
			}
		}
	}
	return s
}

// attention is that of [1, rows, C] within segments.
func (s segments) attention(tp *autograd.Tape, q, k, v *autograd.Value, how autograd.Attend) *autograd.Value {
	if len(s.lengths) == 1 {
		return tp.Attention(q, k, v, how)
	}
	rows, width := q.Dim(1), q.Dim(2)
	pad := func(x *autograd.Value) *autograd.Value {
		if s.in != nil {
			return tp.Gather(x, s.in, len(s.lengths), s.longest)
		}
		return tp.Reshape(x, len(s.lengths), s.longest, x.Dim(2))
	}
	how.KeyLens = s.lengths
	y := tp.Attention(pad(q), pad(k), pad(v), how)
	if s.out != nil {
		return tp.Gather(y, s.out, 1, rows)
	}
	return tp.Reshape(y, 1, rows, width)
}
