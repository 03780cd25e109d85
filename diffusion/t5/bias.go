package t5

import "github.com/darkroom-rl/darkroom/portable"

// Relative positions: a query at i looks at a key at j through the number of a bucket of
// j - i, which is a row of a table with a bias for each head. Half of the buckets are for
// keys that come later; in each half, half are for distances 0, 1, 2, ... and the rest grow
// as the logarithm up to Distance:
//
//	exact + floor(log(d/exact) / log(Distance/exact) · (half - exact))
//
// in fp32, as upstream computes it: borders between buckets depend on it.
func (c Config) bucket(offset int) int32 {
	half := c.Buckets / 2
	at, d := 0, offset
	if offset > 0 {
		at = half
	} else {
		d = -offset
	}
	exact := half / 2
	if d < exact {
		return int32(at + d)
	}
	ratio := float32(portable.Log(float64(float32(d)/float32(exact)))) / float32(portable.Log(float64(c.Distance)/float64(exact)))
	far := exact + int(ratio*float32(half-exact))
	return int32(at + min(far, half-1))
}

// buckets are those of all pairs of n tokens, row by query.
func (c Config) buckets(n int) []int32 {
	byOffset := make([]int32, 2*n-1)
	for o := range byOffset {
		byOffset[o] = c.bucket(o - n + 1)
	}
	all := make([]int32, 0, n*n)
	for i := range n {
		all = append(all, byOffset[n-1-i:2*n-1-i]...)
	}
	return all
}
