package cpu

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/attention"
	"github.com/darkroom-rl/darkroom/kernels/cpu/gemm"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/cpu/rows"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Backend computes on the processor's cores.
type Backend struct {
	ref.Backend // operations that have no method here run by definition
	path        isa.Path
	mix         Mix
	pool        *pool
	gemm        *gemm.Engine
	attention   *attention.Engine
	rows        *rows.Engine
	inFull      map[*kernels.Packed]bool // fetched weights whose home has codes
}

var _ kernels.Repacker = (*Backend)(nil)

// Options say how a Backend is made.
type Options struct {
	Threads int // 0: as Threads returns
	Path    isa.Path
	Mix     *Mix // paths of some families; nil: Path
}

// Mix has a path for each arithmetic (kernels.Math) of the families that differ most by CPU. All other operations
// have the path of the options. Bits do not depend on it.
type Mix struct{ Products, Attention, Convolutions [2]isa.Path }

// Paths is the mix that the options ask for.
func (o Options) Paths() Mix {
	if o.Mix != nil {
		return *o.Mix
	}
	all := [2]isa.Path{o.Path, o.Path}
	return Mix{all, all, all}
}

// New makes a backend for the best path by features, or the one that DARKROOM_CPU names. Package choice finds the
// fastest paths by measurement.
func New() (*Backend, error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	return NewWith(Options{Path: path}), nil
}

// NewWith makes a backend for a path that the machine has.
func NewWith(o Options) *Backend {
	if o.Threads <= 0 {
		o.Threads = Threads()
	}
	b := &Backend{path: o.Path, mix: o.Paths(), pool: newPool(o.Threads), rows: rows.New(o.Path)}
	b.gemm = gemm.NewMixed(b.mix.Products, b.mix.Convolutions, o.Threads)
	b.gemm.Activate = b.rows.Activate
	b.attention = attention.New(b.mix.Attention, o.Path, o.Threads)
	return b
}

// Close ends the backend's workers. Its memory lives on.
func (b *Backend) Close() { b.pool.close() }

// Name says the path: "cpu/avx512".
func (b *Backend) Name() string { return "cpu/" + b.path.String() }

// Path is the set of kernels of all operations to which Mix gives no other.
func (b *Backend) Path() isa.Path { return b.path }

// Mix is the paths of families.
func (b *Backend) Mix() Mix { return b.mix }

// Threads is the number of goroutines that compute.
func (b *Backend) Threads() int { return b.pool.threads }

func (b *Backend) String() string {
	return fmt.Sprintf("%s, %d threads", b.Name(), b.Threads())
}
