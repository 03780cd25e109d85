package noise

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Normal is rng.Key.Normal.
func Normal(p isa.Path, k rng.Key, dst []float32, start uint64) {
	draw(p, normals, k, dst, start, k.Normal)
}

// kind is the kind of a loop's results in memory.
type kind int

const (
	words kind = iota
	normals
)

// job is the argument of a loop of assembly.
type job struct {
	block, stream uint64     // the first counter
	keys          [20]uint32 // two for each round
	groups        int        // at least 1
}

// draw fills dst: whole groups of blocks in assembly, the rest by slow, their definition.
func draw[T uint32 | float32](p isa.Path, what kind, k rng.Key, dst []T, start uint64, slow func([]T, uint64)) {
	size := 4 * groupBlocks(p)
	head := min(len(dst), int(-start%4)) // up to the first whole block
	if size == 0 || len(dst)-head < size {
		slow(dst, start)
		return
	}
	slow(dst[:head], start)
	dst, start = dst[head:], start+uint64(head)

	// A running assembly function delays the collector, so each call is kept to
	// some ten microseconds.
	const longest = 512
	j := job{block: start / 4, stream: k.Stream, keys: schedule(k.Philox)}
	for len(dst) >= size {
		j.groups = min(longest, len(dst)/size)
		n := j.groups * size
		fill(p, what, unsafe.Pointer(&dst[0]), &j)
		j.block += uint64(n / 4)
		dst, start = dst[n:], start+uint64(n)
	}
	slow(dst, start)
}

// schedule is the key of each of Philox's rounds.
func schedule(key uint64) (keys [20]uint32) {
	k0, k1 := uint32(key), uint32(key>>32)
	for r := range 10 {
		keys[2*r], keys[2*r+1] = k0, k1
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return keys
}
