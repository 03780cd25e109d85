package ref

// Horizontal sums. There is one tree for rows of fp32:
//
// element i goes to lane i mod 64, each lane adds its elements one after another
// from +0; then lanes j, j+16, j+32, j+48 are added as (0+1)+(2+3), and the sixteen
// sums by halves: 16, 8, 4, 2, 1. An FMA may take the place of the lane's addition.
//
// And one for sums in float64 (Reduce, Row): 32 lanes, then halves.

// Lanes are the 64 sums.
type Lanes [64]float32

// Total adds the lanes.
func (l *Lanes) Total() float32 {
	var s [16]float32
	for j := range s {
		s[j] = Add(Add(l[j], l[j+16]), Add(l[j+32], l[j+48]))
	}
	for h := 8; h > 0; h /= 2 {
		for j := range h {
			s[j] = Add(s[j], s[j+h])
		}
	}
	return s[0]
}

// sum is the sum of x.
func sum(x []float32) float32 {
	var l Lanes
	for i, v := range x {
		l[i%64] = Add(l[i%64], v)
	}
	return l.Total()
}

// dot is the sum of x·y, each product fused into its lane.
func dot(x, y []float32) float32 {
	var l Lanes
	for i, v := range x {
		l[i%64] = FMA(v, y[i], l[i%64])
	}
	return l.Total()
}

// lanes64 adds float64 terms.
type lanes64 [32]float64

func (l *lanes64) add(i int, v float32) { l[i%32] += float64(v) }

func (l *lanes64) total() float64 {
	for h := 16; h > 0; h /= 2 {
		for j := range h {
			l[j] += l[j+h]
		}
	}
	return l[0]
}

// Dot is the sum of x·y, as Norm and AttentionBackward form it.
func Dot(x, y []float32) float32 { return dot(x, y) }
