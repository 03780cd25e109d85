//go:build amd64 && !noasm

package isa

import "golang.org/x/sys/cpu"

func features() []Feature {
	x := &cpu.X86
	return []Feature{
		{"avx2", AVX2, x.HasAVX2},
		{"fma", AVX2, x.HasFMA},
		{"avx512f", AVX512, x.HasAVX512F},
		{"avx512bw", AVX512, x.HasAVX512BW},
		{"avx512dq", AVX512, x.HasAVX512DQ},
		{"avx512vl", AVX512, x.HasAVX512VL},
		{"avx512bf16", BF16, x.HasAVX512BF16},
		{"amx-tile", AMX, x.HasAMXTile},
		{"amx-bf16", AMX, x.HasAMXBF16},
		{"the system's permission for amx", AMX, x.HasAMXTile && allowTiles()},
	}
}
