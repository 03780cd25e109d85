// Command gen writes the assembly of package attention. Run it with go generate; a test compares the committed files
// with its output.
package main

import (
	"log"
	"os"
)

func files() map[string][]byte {
	f32, bf16, wide := newFile(false), newFile(true), newFile(false)
	for _, f := range []*file{f32, bf16, wide} {
		f.exponents()
	}
	f32.end()
	f32.weigh("weighF32", true)
	f32.grade("gradeF32", true)
	f32.dotRows("dotRowsF32", true)
	f32.dotRows("dotRowsBF16", false)
	bf16.tables()
	bf16.tableOfPairs()
	bf16.grade("gradeBF16", false)
	wide.grade("gradeWide", false)
	bf16.weigh("weighBF16", false)
	wide.weigh("weighWide", false)
	return map[string][]byte{
		"f32_amd64.s":  f32.Bytes(),
		"bf16_amd64.s": bf16.Bytes(),
		"wide_amd64.s": wide.Bytes(),
		"avx2_amd64.s": avx2File().Bytes(),
		"rope_amd64.s": ropeFile().Bytes(),
		"neon_arm64.s": neonFile(),
	}
}

func main() {
	for name, text := range files() {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
