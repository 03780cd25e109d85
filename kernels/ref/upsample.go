package ref

import "github.com/darkroom-rl/darkroom/kernels"

// Upsample repeats pixels; rows lo to hi-1 are the N·H·Factor picture rows of Y.
func Upsample(a *kernels.Upsample, lo, hi int) {
	row := make([]float32, a.C)
	for r := lo; r < hi; r++ {
		from := (r / a.Factor) * a.W * a.C
		for w := range a.W * a.Factor {
			Load(row, a.X, from+(w/a.Factor)*a.C)
			Store(a.Y, (r*a.W*a.Factor+w)*a.C, row)
		}
	}
}

// UpsampleBackward adds each block of DY, its rows from the top and each row from the
// left, from +0; rows lo to hi-1 are the N·H picture rows of DX.
func UpsampleBackward(a *kernels.UpsampleBackward, lo, hi int) {
	row, acc := make([]float32, a.C), make([]float32, a.C)
	wide := a.W * a.Factor
	for r := lo; r < hi; r++ {
		for w := range a.W {
			clear(acc)
			for i := range a.Factor * a.Factor {
				Load(row, a.DY, ((r*a.Factor+i/a.Factor)*wide+w*a.Factor+i%a.Factor)*a.C)
				combine(Add, acc, row)
			}
			Store(a.DX, (r*a.W+w)*a.C, acc)
		}
	}
}

// Upsample computes every row.
func (Backend) Upsample(a *kernels.Upsample) { Upsample(a, 0, a.N*a.H*a.Factor) }

// UpsampleBackward computes every row.
func (Backend) UpsampleBackward(a *kernels.UpsampleBackward) { UpsampleBackward(a, 0, a.N*a.H) }
