//go:build amd64 && !noasm

package isa

import "golang.org/x/sys/cpu"

func detect() Path {
	x := &cpu.X86
	switch {
	case !(x.HasAVX2 && x.HasFMA):
		return Plain
	case !(x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL):
		return AVX2
	case !x.HasAVX512BF16:
		return AVX512
	case !(x.HasAMXTile && x.HasAMXBF16 && allowTiles()):
		return BF16
	}
	return AMX
}
