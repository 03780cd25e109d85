package noise

import (
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Words is rng.Key.Words, on which normals stand.
func Words(p isa.Path, k rng.Key, dst []uint32, start uint64) {
	draw(p, words, k, dst, start, k.Words)
}
