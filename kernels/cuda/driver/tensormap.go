package driver

import "unsafe"

// A TensorMap is a CUtensorMap: 128 bytes, opaque, at a multiple of 64.
type TensorMap [16]uint64

// A Block of bf16 in device memory, as a tensor map describes it: numbers of four dimensions, the innermost first,
// the distances in bytes of the other three, and how much of each one copy brings.
type Block struct {
	Addr    uintptr
	Dims    [4]uint64
	Strides [3]uint64
	Box     [4]uint32
}

// What cuTensorMapEncodeTiled is asked for: bf16, no interleave, the swizzle of 128 bytes, whole lines of the
// second cache, zeros beyond.
const (
	mapBF16       = 9
	mapSwizzle128 = 3
	mapPromote256 = 3
)

// tensorShape is what the driver reads when it encodes a map: part of the driver's struct, where nothing moves.
type tensorShape struct {
	Block
	steps [4]uint32
}

// Encode writes the map of a block.
func (d *Driver) Encode(to *TensorMap, x Block) error {
	a := &d.tensor
	a.Block, a.steps = x, [4]uint32{1, 1, 1, 1}
	return d.Do("cuTensorMapEncodeTiled", uintptr(unsafe.Pointer(to)), mapBF16, 4, x.Addr,
		uintptr(unsafe.Pointer(&a.Dims)), uintptr(unsafe.Pointer(&a.Strides)),
		uintptr(unsafe.Pointer(&a.Box)), uintptr(unsafe.Pointer(&a.steps)), 0, mapSwizzle128, mapPromote256, 0)
}
