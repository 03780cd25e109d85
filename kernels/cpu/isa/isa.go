// Package isa says which instruction sets the CPU backend may use.
//
// A Path is one complete set of kernels. Every path returns the same bits
// (package ref spells them out), so choosing one is a matter of speed alone.
package isa

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// Path names a set of kernels, in ascending order of speed.
type Path int

// The paths. Each one may use everything that the paths before it use.
const (
	Plain  Path = iota // plain Go: the loops of package ref
	AVX2               // AVX2, FMA, F16C
	AVX512             // AVX-512 F, BW, DQ, VL
	BF16               // AVX-512 plus VDPBF16PS and VCVTNE2PS2BF16
	AMX                // BF16 plus AMX tiles with bf16 products
)

var names = [...]string{"plain", "avx2", "avx512", "bf16", "amx"}

func (p Path) String() string { return names[p] }

// Parse reads a path's name, as written in DARKROOM_CPU.
func Parse(s string) (Path, error) {
	for i, n := range names {
		if n == s {
			return Path(i), nil
		}
	}
	return 0, fmt.Errorf("unknown CPU path %q; it must be one of %s", s, strings.Join(names[:], ", "))
}

// A Feature is something that a path needs of the CPU or the system.
type Feature struct {
	Name    string
	Path    Path // the first path that needs it
	Present bool
}

// Features lists what the paths need, in their order. It is empty in a binary
// that holds no assembly: another architecture, or the build tag noasm.
var Features = sync.OnceValue(features)

// Best is the fastest path that this machine can run, without regard to DARKROOM_CPU.
var Best = sync.OnceValue(func() Path { return best(Features()) })

// best is the path below the first one that lacks something.
func best(all []Feature) Path {
	p := Plain
	for _, f := range all {
		if !f.Present {
			return min(p, f.Path-1)
		}
		p = f.Path
	}
	return p
}

// Choose returns the path named by the environment variable DARKROOM_CPU, or
// the best one where it is unset or empty. A path that the machine lacks is an error.
func Choose() (Path, error) {
	s := os.Getenv("DARKROOM_CPU")
	if s == "" {
		return Best(), nil
	}
	p, err := Parse(s)
	if err != nil {
		return Plain, fmt.Errorf("DARKROOM_CPU: %w", err)
	}
	if p > Best() {
		return Plain, fmt.Errorf("DARKROOM_CPU=%s: this CPU offers at most %s", p, Best())
	}
	return p, nil
}
