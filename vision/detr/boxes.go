package detr

import (
	"cmp"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/portable"
)

// A Box is an answer of a detector without masks.
type Box struct {
	Label int
	Score float64
	Box   [4]float64 // x0, y0, x1, y1, in the picture's pixels; it is not cut off at the border
}

// Sigmoid is 1/(1 + exp(-x)).
func Sigmoid(x float64) float64 { return 1 / (1 + portable.Exp(-x)) }

// Logit is its inverse, of numbers no nearer to 0 and 1 than 1e-5.
func Logit(x float64) float64 {
	const eps = 1e-5
	x = min(max(x, 0), 1)
	return portable.Log(max(x, eps) / max(1-x, eps))
}

// Corners are a box (cx, cy, w, h) as corners, times the sides of a picture.
func Corners(b []float32, width, height float64) [4]float64 {
	cx, cy, w, h := float64(b[0]), float64(b[1]), float64(b[2]), float64(b[3])
	return [4]float64{(cx - w/2) * width, (cy - h/2) * height, (cx + w/2) * width, (cy + h/2) * height}
}

// IoU is the intersection over union of corners.
func IoU(a, b [4]float64) float64 {
	w, h := min(a[2], b[2])-max(a[0], b[0]), min(a[3], b[3])-max(a[1], b[1])
	if !(w > 0 && h > 0) {
		return 0
	}
	area := func(b [4]float64) float64 { return float64((b[2] - b[0]) * (b[3] - b[1])) }
	return float64(w*h) / (area(a) + area(b) - float64(w*h))
}

// Top are the likeliest pairs of a query and a class, as many as there are queries, with scores above least: one
// query may answer twice. Boxes are those of queries, as shares.
func Top(logits, boxes []float32, queries int, shown Size, least float64) []Box {
	classes := len(logits) / queries
	order := Falling(logits)
	var found []Box
	for _, at := range order[:min(queries, len(order))] {
		if score := Sigmoid(float64(logits[at])); score > least {
			found = append(found, Box{at % classes, score, Corners(boxes[at/classes*4:][:4], float64(shown.W), float64(shown.H))})
		}
	}
	return found
}

// Falling are places of numbers, the largest first; equal ones in their order.
func Falling(x []float32) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[b], x[a]) })
	return order
}

// Most is the largest number of each row.
func Most(x []float32, cols int) []float32 {
	out := make([]float32, 0, len(x)/cols)
	for ; len(x) >= cols; x = x[cols:] {
		out = append(out, slices.Max(x[:cols]))
	}
	return out
}

// MaxPool is the largest of size x size pixels, padded by pad, at every stride-th place.
func MaxPool(tp *autograd.Tape, x *autograd.Value, size, stride, pad int) *autograd.Value {
	out := func(n int) int { return (n+2*pad-size)/stride + 1 }
	return pool(tp, x, "max pool", Size{out(x.Dim(1)), out(x.Dim(2))}, size, stride, pad, func(in []float32) float32 { return slices.Max(in) })
}

// LargestHalf is the largest of 2 x 2 pixels; those beyond an odd side do not count.
func LargestHalf(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return pool(tp, x, "max pool", Size{(x.Dim(1) + 1) / 2, (x.Dim(2) + 1) / 2}, 2, 2, 0, func(in []float32) float32 { return slices.Max(in) })
}

// MeanPool is the mean of 2 x 2 pixels; those beyond an odd side do not count.
func MeanPool(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return pool(tp, x, "mean pool", Size{(x.Dim(1) + 1) / 2, (x.Dim(2) + 1) / 2}, 2, 2, 0, func(in []float32) float32 {
		sum := 0.0
		for _, v := range in {
			sum += float64(v)
		}
		return float32(sum / float64(len(in)))
	})
}

func pool(tp *autograd.Tape, x *autograd.Value, name string, to Size, size, stride, pad int, of func(in []float32) float32) *autograd.Value {
	n, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	return tp.Host(autograd.Host{Name: name, In: []*autograd.Value{x}, Shape: []int{n, to.H, to.W, c}, Forward: func(in, _ [][]float32) []float32 {
		out := make([]float32, n*to.H*to.W*c)
		Share(n*to.H, func(row int) {
			m, y := row/to.H, row%to.H
			seen := make([]float32, 0, size*size)
			for i := range to.W {
				for k := range c {
					seen = seen[:0]
					for dy := max(y*stride-pad, 0); dy < min(y*stride-pad+size, h); dy++ {
						for dx := max(i*stride-pad, 0); dx < min(i*stride-pad+size, w); dx++ {
							seen = append(seen, in[0][((m*h+dy)*w+dx)*c+k])
						}
					}
					out[(row*to.W+i)*c+k] = of(seen)
				}
			}
		})
		return out
	}})
}

// Anchors are boxes at the middles of the pixels of maps, as logits, of a side that doubles from level to level; a
// box with a number within 1e-2 of 0 or 1 is left out: its logits are infinite.
func Anchors(levels []Size) (logits []float32, inside []bool) {
	const side, edge = 0.05, 1e-2
	for l, s := range levels {
		wh := float64(side * float64(int(1)<<l))
		for y := range s.H {
			for x := range s.W {
				b := [4]float64{(float64(x) + 0.5) / float64(s.W), (float64(y) + 0.5) / float64(s.H), wh, wh}
				ok := !slices.ContainsFunc(b[:], func(v float64) bool { return !(v > edge && v < 1-edge) })
				for _, v := range b {
					if ok {
						logits = append(logits, float32(portable.Log(v/(1-v))))
					} else {
						logits = append(logits, float32(math.Inf(1)))
					}
				}
				inside = append(inside, ok)
			}
		}
	}
	return logits, inside
}
