package ref

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Normal fills elements lo to hi-1 of Y with package rng's normals: element i is the
// stream's normal Start + i, rounded to Y's type. So any part can be drawn alone.
func Normal(a *kernels.Normal, lo, hi int) {
	z := make([]float32, hi-lo)
	rng.Key{Philox: a.Key, Stream: a.Stream}.Normal(z, a.Start+uint64(lo))
	Store(a.Y, lo, z)
}

// Normal draws normals.
func (Backend) Normal(a *kernels.Normal) { Normal(a, 0, a.Y.Len) }
