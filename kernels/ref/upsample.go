package ref

import "github.com/darkroom-rl/darkroom/kernels"

// Upsample repeats pixels; rows lo to hi-1 are the N·H·Factor picture rows of Y.
// Between equal types bits are moved as they are; a cast goes through fp32.
func Upsample(a *kernels.Upsample, lo, hi int) {
	row, size := make([]float32, a.C), a.X.DType.Size()
	for r := lo; r < hi; r++ {
		for w := range a.W * a.Factor {
			from, to := (r/a.Factor*a.W+w/a.Factor)*a.C, (r*a.W*a.Factor+w)*a.C
			if a.X.DType == a.Y.DType {
				copy(a.Y.Raw()[to*size:(to+a.C)*size], a.X.Raw()[from*size:])
				continue
			}
			Load(row, a.X, from)
			Store(a.Y, to, row)
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
