package cuda

import (
	"cmp"
	"errors"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels/cuda/blas"
)

// Which algorithm of cuBLASLt computes a product, and whether any does.
//
// The library's own choice is a function of the whole shape, the number of rows among it, and two of
// its algorithms add the same products in different orders. Left to itself it would give a row other
// bits in a batch of 8 than alone (measured on an L20: NVIDIA/TransformerEngine issue 2986, five of
// seven batch sizes), and the first ratio of an update would not be 1. So:
//
//   - One algorithm serves a weight of [N,K] (a turned one, [K,N], has its own) at every number of rows.
//     It is asked for once, at `whole` rows, the first time that the shape is computed, and is then passed
//     by name to every call: the library decides nothing any more.
//   - Nothing may be summed across blocks: the heuristic is asked for reduction scheme NONE alone, and
//     what it returns is read back (one split, scheme 0). Algorithms that share work by other means
//     (stream-K) have no mark in the interface, but blocks can only hand sums on through a workspace: it
//     has 1 KiB, less than the sums of any tile that computes bf16. vLLM's batch-invariant mode does the
//     same on Hopper (CUBLASLT_WORKSPACE_SIZE=1), and found it not to be enough on Ampere. Therefore:
//   - What was promised is measured (selfcheck.go) before the algorithm computes anything that counts. One
//     whose rows depend on the batch is passed over for the library's next; a shape without any goes to
//     our own kernel, which has no such freedom, from its first product on.
//
// Several ranks choose together (agree.go). A choice never changes while a backend lives. Rollout and update run on one
// backend, so they agree. It is a function of the library's version, the device's model and the shape: no operand, no
// clock and no other shape enters, so a run that is resumed on its machine chooses as before. A run does not rely on
// that: what was chosen is recorded with it (record.go), is taken from there when it goes on, and
// a library of another version is refused then. If the library refuses a number of rows later, after rows
// were computed by it, that is an error and no change of mind.
//
// How an operand is passed is a function of shapes and of Packed as well, never of an address: rows are
// multiples of 8 wide (zeros beyond K where they had to be gathered anyway), and a turned weight is
// read as it lies only if it is packed.

// workspaceBytes is what an algorithm may write beside its result.
const workspaceBytes = 1 << 10

// leastSide is the least N and K that the library is asked for: below it most of a tile is padding,
// and our kernel does without the trip through fp32 in memory.
const leastSide = 64

// wholeRows is the number of rows that algorithms are asked for and checked with; fewer where sums of
// so many would take more than mostChecked bytes (the head of a language model).
const (
	wholeRows   = 2048
	mostChecked = 256 << 20
)

// A choice is what computes a shape.
type choice struct {
	blas.Shape
	algorithm *blas.Algorithm // nil: our own kernel
	why       string          // not the library
	at        blas.Layouts
}

// products are those of the library.
type products struct {
	*blas.Library
	workspace uintptr
	lock      sync.RWMutex // of chosen and news, to which other ranks write (agree.go)
	chosen    map[blas.Shape]*choice
	recorded  map[blas.Shape]*choice // by the run that goes on
	least     int64                  // the least N and K
	whole     int64                  // rows to ask and check with
	news      []string               // not yet said
	calls     int                    // products computed, for tests
}

// openLibraryProducts opens the library for a backend that has its context and its memory.
func (b *Backend) openLibraryProducts(version int) (*products, error) {
	l, err := blas.OpenLibrary(version)
	if err != nil {
		return nil, err
	}
	p := &products{chosen: map[blas.Shape]*choice{}, recorded: map[blas.Shape]*choice{}, least: leastSide, whole: wholeRows}
	if p.Library, err = blas.Open(l, l.Path, workspaceBytes); err != nil {
		return nil, err
	}
	if p.workspace, err = b.memory.Take(workspaceBytes); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *products) close() (err error) {
	for _, c := range p.chosen {
		err = cmp.Or(err, p.Forget(&c.at))
	}
	return cmp.Or(err, p.Library.Close())
}

func (p *products) wholeOf(s blas.Shape) int64 { return min(p.whole, max(64, mostChecked/(4*s.N))) }

// of is what was decided for a shape, nil where nothing is yet.
func (p *products) of(s blas.Shape) *choice {
	p.lock.RLock()
	defer p.lock.RUnlock()
	return p.chosen[s]
}

// keep is what was decided for a shape.
func (p *products) keep(c *choice) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.chosen[c.Shape] = c
}

// tell says something to people, once.
func (p *products) tell(s string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.news = append(p.news, s)
}

// candidates are the library's algorithms for a shape that sum nothing across blocks.
func (b *Backend) candidates(op string, c *choice) (list []blas.Candidate, refused error) {
	b.must(op, func() error {
		list, refused = b.products.Whole(c.Shape, &c.at, workspaceBytes)
		return nil
	})
	return list, refused
}
