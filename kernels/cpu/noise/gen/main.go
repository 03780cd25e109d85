// Command gen writes the assembly of package noise. Run it with go generate; a test compares the committed files with
// its output.
//
// One description serves AVX2 and AVX-512: vector.go has the operations that
// differ, vector.go follows package rng line by line. neon.go does so for Arm.
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

func files() map[string][]byte {
	out := map[string][]byte{}
	for _, v := range []*vector{{width: 32, letter: "Y", path: "AVX2"}, {width: 64, letter: "Z", path: "AVX512"}} {
		v.start()
		v.fill("words", nil)
		v.fill("normals", boxMuller)
		v.constants()
		out["noise_"+map[int]string{32: "avx2", 64: "avx512"}[v.width]+"_amd64.s"] = v.Bytes()
	}
	out["noise_neon_arm64.s"] = neonFile()
	return out
}
