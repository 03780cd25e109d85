// Command gen writes the assembly of package gemm. Run it with go generate.
package main

import (
	"log"
	"os"
	"path/filepath"
)

// files are the outputs by name.
func files() map[string][]byte {
	bf16 := newFile()
	for rows := 1; rows <= 6; rows++ {
		bf16.bf16Dot(rows, 2)
	}
	for rows := 1; rows <= 12; rows++ {
		bf16.bf16Dot(rows, 1)
	}
	f32 := newFile()
	for rows := 1; rows <= 14; rows++ {
		f32.f32Dot(rows, 2)
	}
	for rows := 1; rows <= 14; rows++ {
		f32.f32Dot(rows, 1)
	}
	wide, avx2 := newFile(), newFile()
	for rows := 1; rows <= 6; rows++ {
		wide.wideDot(rows)
		avx2.f32Dot2(rows)
		avx2.wideDot2(rows)
	}
	return map[string][]byte{
		"wide_amd64.s":       wide.Bytes(),
		"avx2_amd64.s":       avx2.Bytes(),
		"rounding_amd64.s":   roundingFile().Bytes(),
		"f32_amd64.s":        f32.Bytes(),
		"pack_amd64.s":       packFile().Bytes(),
		"finish_amd64.s":     finishFile().Bytes(),
		"avx2passes_amd64.s": avx2PassesFile().Bytes(),
		"avx2pack_amd64.s":   avx2PackFile().Bytes(),
		"bf16_amd64.s":       bf16.Bytes(),
		"amx_amd64.s":        amxFile().Bytes(),
		"neon_arm64.s":       neonFile(),
		"neonpack_arm64.s":   neonPackFile(),
	}
}

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	for name, text := range files() {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
