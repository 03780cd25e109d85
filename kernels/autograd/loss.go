package autograd

import "fmt"

// A loss is numbers: it takes outputs (Value.F32), and gives its value and its gradient
// at them. These are the simplest; what trains lives in trainer/loss.

// Sum is the sum of v's elements.
func Sum(v *Value) (float64, Seed) { return weighted(v, func(int) float64 { return 1 }) }

// Mean is the mean of v's elements.
func Mean(v *Value) (float64, Seed) {
	n := float64(v.t.Len())
	return weighted(v, func(int) float64 { return 1 / n })
}

// Dot is the sum of v's elements times constants.
func Dot(v *Value, c []float32) (float64, Seed) {
	if len(c) != v.t.Len() {
		panic(fmt.Sprintf("autograd: Dot of %v with %d constants", v.t, len(c)))
	}
	return weighted(v, func(i int) float64 { return float64(c[i]) })
}

func weighted(v *Value, c func(i int) float64) (float64, Seed) {
	x := v.F32()
	sum := 0.0
	for i, e := range x {
		sum += float64(float64(e) * c(i))
		x[i] = float32(c(i))
	}
	return sum, Seed{Of: v, Grad: x}
}
