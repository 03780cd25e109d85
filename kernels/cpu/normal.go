package cpu

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/noise"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Normal draws normals.
func (b *Backend) Normal(a *kernels.Normal) {
	const piece = 1 << 16 // some 60 microseconds; a multiple of a block
	key := rng.Key{Philox: a.Key, Stream: a.Stream}
	b.pool.run((a.Y.Len+piece-1)/piece, func(i int) {
		lo := i * piece
		hi := min(lo+piece, a.Y.Len)
		if a.Y.DType == kernels.F32 {
			noise.Normal(b.path, key, a.Y.F32()[lo:hi], a.Start+uint64(lo))
			return
		}
		z := make([]float32, hi-lo)
		noise.Normal(b.path, key, z, a.Start+uint64(lo))
		ref.Store(a.Y, lo, z)
	})
}
