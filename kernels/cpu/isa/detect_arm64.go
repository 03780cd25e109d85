//go:build arm64 && !noasm

package isa

// features is one that every 64-bit Arm CPU has that Go's programs run on; the kernels use no
// more of it than Armv8.0 defines.
func features() []Feature { return []Feature{{"asimd", NEON, true}} }
