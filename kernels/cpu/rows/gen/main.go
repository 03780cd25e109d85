// Command gen writes the assembly of package rows and its table of kernels. Run it
// with go generate; a test compares what is committed with what it writes.
//
// A kernel's arithmetic is described once, over a register of any width (arithmetic.go,
// activations.go); vector.go spells it for AVX2 and AVX-512, loops.go puts the loop
// around it. neon.go and neonloops.go do both for Arm.
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
	all := kernels()
	out := map[string][]byte{"table_amd64.go": table(all), "table_arm64.go": tableNEON(all), "names.go": names(all)}
	for _, p := range paths() {
		v := newVector(p)
		for _, k := range all {
			for _, types := range k.variants {
				if p.has(k, types) {
					v.kernel(k, types)
				}
			}
		}
		v.constants()
		out["rows_"+p.file+"_"+p.machine()+".s"] = v.Bytes()
	}
	return out
}
