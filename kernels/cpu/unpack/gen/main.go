// Command gen writes the assembly of package unpack. Run it with go generate; a test compares the committed text with
// its output.
//
// vector.go is for AVX2 and AVX-512, neon.go for Arm.
package main

import (
	"log"
	"os"
)

func main() {
	for name, text := range files() {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// results are the types of destinations.
var results = []string{"F32", "BF16", "F16"}

func files() map[string][]byte {
	return map[string][]byte{"unpack_avx2_amd64.s": avx2(), "unpack_avx512_amd64.s": avx512(), "unpack_neon_arm64.s": neonFile()}
}
