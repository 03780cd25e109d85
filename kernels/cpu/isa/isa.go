// Package isa says which instruction sets the CPU backend may use.
//
// A Path is one complete set of kernels. Every path returns the same bits
// (package ref spells them out), so choosing one is a matter of speed alone.
package isa

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// Path names a set of kernels.
type Path int

// The paths: plain Go, then those of amd64, each of which may use everything that the ones
// before it use, then that of arm64.
const (
	Plain  Path = iota // plain Go: the loops of package ref
	AVX2               // AVX2, FMA, F16C
	AVX512             // AVX-512 F, BW, DQ, VL
	BF16               // AVX-512 plus VDPBF16PS and VCVTNE2PS2BF16
	AMX                // BF16 plus AMX tiles with bf16 products
	NEON               // arm64's Advanced SIMD
)

var names = [...]string{"plain", "avx2", "avx512", "bf16", "amx", "neon"}

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

// Features lists the paths' requirements, in their order. It is empty in a binary that holds no assembly: another
// architecture, or the build tag noasm.
var Features = sync.OnceValue(features)

// Paths are those that this machine can run, the slowest first, without regard to
// DARKROOM_CPU.
var Paths = sync.OnceValue(func() []Path { return paths(Features()) })

// Best is the fastest of Paths.
func Best() Path { return Paths()[len(Paths())-1] }

// paths are those below the first one that lacks something.
func paths(all []Feature) []Path {
	have := []Path{Plain}
	for i, f := range all {
		if !f.Present {
			break
		}
		if i+1 == len(all) || all[i+1].Path != f.Path {
			have = append(have, f.Path)
		}
	}
	return have
}

// Forced says whether DARKROOM_CPU names a path.
func Forced() bool { return os.Getenv("DARKROOM_CPU") != "" }

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
	if !slices.Contains(Paths(), p) {
		return Plain, fmt.Errorf("DARKROOM_CPU=%s: this CPU offers at most %s", p, Best())
	}
	return p, nil
}
