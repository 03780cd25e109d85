package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels/cuda/blas"
)

// Several ranks decide together which algorithm computes a shape (choice.go): what one samples, another
// trains on, so that a shape has one algorithm on all of them or our own kernel on all.
//
//   - Rank 0's library proposes. The first of its algorithms is taken that keeps its promises on every rank
//     (selfcheck.go), and whose sums of the check's product have the same bits on every rank; where none
//     does, the shape is our own kernel's, on every rank.
//   - Whichever rank comes to a shape first decides it for all, before its product counts: so the decision is
//     a function of the shape and the devices, and of no rank's share of the work. A backend's driver is
//     locked call by call for that: the check runs on another rank's stream between that rank's own work,
//     in memory of its own.
//   - Rank 0's record is the run's, as with one device.
//
// One device is an agreement with itself.
//
// Invariants (tests): a library that breaks a promise on one rank alone, whichever it is, computes
// nothing on any; ranks have the bits of one device where the library keeps its promises.

// agreement is what ranks share. Its lock is held while a shape is decided, and comes before those of
// the backends.
type agreement struct {
	sync.Mutex
	ranks []*Backend // rank 0 first
}

// Alike makes backends give one another's bits, or says why they cannot. cuBLASLt's algorithms are those
// of a device's model, so devices of several models do without; tensor cores of one compute capability
// add in one order; exact kernels give the same bits everywhere. Attention by wgmma is all ranks' or none's.
func Alike(ranks ...*Backend) error {
	first := ranks[0]
	for _, b := range ranks[1:] {
		if !(first.exact && b.exact) && (first.device.Major != b.device.Major || first.device.Minor != b.device.Minor || first.image != b.image) {
			return fmt.Errorf("%s (%d.%d) and %s (%d.%d) have tensor cores of their own kind, and what one samples, another trains on; %s=exact gives all the same bits",
				first.Name(), first.device.Major, first.device.Minor, b.Name(), b.device.Major, b.device.Minor, ModeVariable)
		}
	}
	why := apart(ranks)
	if why != "" && first.mode.products == "lt" {
		return fmt.Errorf("%s=lt asks for cuBLASLt, and %s", ModeVariable, why)
	}
	if why != "" {
		first.withoutLibrary(why)
		for _, b := range ranks[1:] {
			b.withoutLibrary(why)
		}
	}
	hopperAlike(ranks)
	together := &agreement{ranks: ranks}
	for _, b := range ranks {
		b.agreed = together
	}
	return nil
}

// apart is why ranks cannot share cuBLASLt's algorithms, "" where they can or none has the library.
func apart(ranks []*Backend) string {
	for _, b := range ranks[1:] {
		first := ranks[0]
		switch {
		case (first.products == nil) != (b.products == nil):
			if first.products != nil {
				first = b
			}
			return fmt.Sprintf("%s is without it: %s", first.Name(), first.without)
		case b.products != nil && first.device.Name != b.device.Name:
			return fmt.Sprintf("%s is a %s and %s a %s, where its algorithms are others", first.Name(), first.device.Name, b.Name(), b.device.Name)
		}
	}
	return ""
}

// choose is what computes a shape, decided at its first product on any rank.
func (b *Backend) choose(op string, s blas.Shape) *choice {
	if c := b.products.of(s); c != nil {
		return c
	}
	b.agreed.Lock()
	defer b.agreed.Unlock()
	if c := b.products.of(s); c != nil { // another rank came to it meanwhile
		return c
	}
	b.agreed.decide(op, s)
	return b.products.of(s)
}

// decide decides a shape for all ranks.
func (g *agreement) decide(op string, s blas.Shape) {
	all := make([]*choice, len(g.ranks))
	for r, b := range g.ranks {
		all[r] = &choice{Shape: s}
		b.must(op, func() (err error) {
			all[r].at, err = b.products.Describe(s, b.products.wholeOf(s))
			return err
		})
	}
	first := g.ranks[0]
	if old := first.products.recorded[s]; old != nil {
		g.again(op, all, old)
	} else {
		g.anew(op, all)
	}
	for r, b := range g.ranks {
		b.products.keep(all[r])
	}
}

// anew takes the first of the library's algorithms that keeps its promise everywhere.
func (g *agreement) anew(op string, all []*choice) {
	first := g.ranks[0]
	list, err := first.candidates(op, all[0])
	why := ""
	if err != nil {
		why = err.Error()
	}
	for _, a := range list {
		refused := g.check(op, all, &a.Algorithm)
		if refused == nil {
			for _, c := range all {
				c.algorithm = &a.Algorithm
			}
			return
		}
		if why == "" {
			why = refused.Error() // of the first: the library would have run that one
		}
	}
	if why == "" {
		why = "the library has no algorithm without sums across blocks"
	}
	for _, c := range all {
		c.why = why
	}
	first.products.tell(fmt.Sprintf("products with weights %s run on our own kernel: %s", all[0].Shape, why))
}

// again takes what the run chose before.
func (g *agreement) again(op string, all []*choice, old *choice) {
	for _, c := range all {
		c.algorithm, c.why = old.algorithm, old.why
	}
	if old.algorithm == nil {
		return
	}
	if refused := g.check(op, all, old.algorithm); refused != nil {
		g.ranks[0].must(op, func() error {
			return fmt.Errorf("the run's algorithm for products with weights %s no longer keeps its promise: %w", old.Shape, refused)
		})
	}
}

// check says why an algorithm may not compute a shape.
func (g *agreement) check(op string, all []*choice, a *blas.Algorithm) error {
	var want digest
	for r, b := range g.ranks {
		got, refused := b.selfCheck(op, all[r], a)
		if refused == nil && r > 0 && got != want {
			refused = errors.New("the same product has other bits than on " + g.ranks[0].Name())
		}
		if refused != nil && len(g.ranks) > 1 {
			return fmt.Errorf("%s: %w", b.Name(), refused)
		}
		if refused != nil {
			return refused
		}
		want = got
	}
	return nil
}
