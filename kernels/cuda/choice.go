package cuda

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
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
//   - What was promised is measured (selfCheck) before the algorithm computes anything that counts. One
//     whose rows depend on the batch is passed over for the library's next; a shape without any goes to
//     our own kernel, which has no such freedom, from its first product on.
//
// Several ranks choose together (agreement). A choice never changes while a backend lives. Rollout and update run on
// one backend, so they agree. It is a function of the library's version, the device's model and the shape: no operand,
// no clock and no other shape enters, so a run that is resumed on its machine chooses as before. A run does not rely on
// that: what was chosen is recorded with it (recorded), is taken from there when it goes on, and a library of another
// version is refused then. If the library refuses a number of rows later, after rows were computed by it, that is an
// error and no change of mind.
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
	lock      sync.RWMutex // of chosen and news, to which other ranks write (agreement)
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

// What selfCheck measures: an algorithm is run on normals at the rows it was asked for and at
// fewer, and is taken only if
//
//   - every part has the bits that its rows have in the whole: 1, 2 and 8 rows, a part that ends inside
//     a tile and one of several tiles, at other places (and so at other alignments) than in the whole;
//   - the last of them has these bits at an address that is a multiple of 16 bytes and no more, too;
//   - the whole, computed again, has the same bits;
//   - the library says that it supports the algorithm at many other numbers of rows, in the same workspace;
//   - the numbers are those of our own kernel, within what the order of sums may change: a weight that was
//     read the wrong way about, or a tail of k that was dropped, is off by about 1 (libraries had
//     such tails: facebookexperimental/triton pull request 2767).
//
// It costs a dozen products of each shape, once a process, and room for the operands while it runs.

// part is so many rows from a row on.
type part struct{ from, rows int64 }

// parts of a whole; the last is compared again at the end, and with our own kernel.
func parts(whole int64) []part {
	return []part{{0, 1}, {whole - 1, 1}, {whole/2 + 1, 2}, {3, 8}, {whole / 3, 77 * whole / wholeRows}, {whole/4 + 5, whole / 4}}
}

// A digest is of a product's bits.
type digest [sha256.Size]byte

// selfCheck says why an algorithm may not compute a shape; nil is that it may. The digest is what another
// device must have, too.
func (b *Backend) selfCheck(op string, c *choice, a *blas.Algorithm) (sum digest, refused error) {
	whole, ld := b.products.wholeOf(c.Shape), blas.SumsWide(c.N)
	most := whole / 4
	room := b.scratch(op, int(2*whole*c.K), int(2*c.N*c.K), int(4*whole*ld), int(4*max(most, 8)*ld), int(2*most*c.K)+16)
	defer b.giveBack(room)
	rows, weight, sums, few, moved := room[0], room[1], room[2], room[3], room[4]+16
	for i, n := range []int64{whole * c.K, c.N * c.K} {
		b.Normal(&kernels.Normal{Key: 0x5eed, Stream: uint64(i), Y: spanAt(room[i], int(n), kernels.BF16)})
	}
	right := operand{p: weight, stride: c.K, kind: int32(kernels.BF16), form: operandRows}
	if c.Turned {
		right.stride, right.form = c.N, operandColumns
	}
	left := func(row int64) operand {
		return operand{p: rows + uintptr(2*row*c.K), stride: c.K, kind: int32(kernels.BF16), form: operandRows}
	}
	multiply := func(row, m int64, to uintptr) error { return b.multiply(op, c, a, right, left(row), m, to) }
	if err := multiply(0, whole, sums); err != nil {
		return sum, err
	}
	read := func(from uintptr, n int64) []byte {
		raw := make([]byte, 4*n*ld)
		b.Download(raw, spanAt(from, int(n*ld), kernels.F32))
		return raw
	}
	var last part
	for _, last = range parts(whole) {
		if last.rows = max(last.rows, 1); last.from+last.rows > whole {
			last.from = whole - last.rows
		}
		if err := multiply(last.from, last.rows, few); err != nil {
			return sum, fmt.Errorf("%d rows: %w", last.rows, err)
		}
		if at := differs(read(sums+uintptr(4*last.from*ld), last.rows), read(few, last.rows), c.N, ld); at >= 0 {
			return sum, fmt.Errorf("a row's bits depend on its batch (row %d of %d has others among %d)", last.from+at, whole, last.rows)
		}
	}
	n := int(last.rows * c.K)
	b.Copy(&kernels.Copy{Src: spanAt(left(last.from).p, n, kernels.BF16), Dst: spanAt(moved, n, kernels.BF16),
		Shape: [5]int{1, 1, 1, 1, n}, SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}})
	elsewhere := left(last.from)
	elsewhere.p = moved
	if err := b.multiply(op, c, a, right, elsewhere, last.rows, few); err != nil {
		return sum, err
	}
	if differs(read(sums+uintptr(4*last.from*ld), last.rows), read(few, last.rows), c.N, ld) >= 0 {
		return sum, errors.New("a row's bits depend on its address")
	}
	if err := multiply(0, whole, sums); err != nil {
		return sum, err
	}
	again := read(sums+uintptr(4*last.from*ld), last.rows)
	if at := differs(again, read(few, last.rows), c.N, ld); at >= 0 {
		return sum, errors.New("the same product has other bits the second time")
	}
	if err := b.nearOwn(op, c, left(last.from), right, few, again); err != nil {
		return sum, err
	}
	h := sha256.New()
	for at := int64(0); at < last.rows*4*ld; at += 4 * ld {
		h.Write(again[at : at+4*c.N]) // what lies between rows was never written
	}
	return digest(h.Sum(nil)), b.supported(op, c, a)
}

// supported asks about numbers of rows that were not run.
func (b *Backend) supported(op string, c *choice, a *blas.Algorithm) (refused error) {
	p := b.products
	for m := int64(1); m <= 1<<17 && refused == nil; m = max(m+1, m*9/8) {
		b.must(op, func() error {
			if err := p.Fit(&c.at, c.at.LDWeight, c.at.LDRows, m); err != nil {
				return err
			}
			if need, err := p.Supports(c.Shape, &c.at, a); err != nil {
				refused = fmt.Errorf("%d rows: %w", m, err)
			} else if need > workspaceBytes {
				refused = fmt.Errorf("%d rows need a workspace of %d bytes", m, need)
			}
			return nil
		})
	}
	return refused
}

// differs is the first row whose n numbers are not the same bits, -1 where there is none.
func differs(x, y []byte, n, ld int64) int64 {
	for row := int64(0); row*4*ld < int64(len(x)); row++ {
		if at := row * 4 * ld; !bytes.Equal(x[at:at+4*n], y[at:at+4*n]) {
			return row
		}
	}
	return -1
}

// nearOwn compares some rows of sums with our own kernel's.
func (b *Backend) nearOwn(op string, c *choice, rows, weight operand, to uintptr, sums []byte) error {
	ld := blas.SumsWide(c.N)
	m := min(8, int64(len(sums))/4/ld)
	b.tensorProduct(op, &productArgs{a: rows, b: weight, m: m, n: c.N, k: c.K, run: c.K, runs: 1, alpha: 1, gateRows: 1,
		c: mat{p: to, stride: ld, rows: int32(m), cols: int32(c.N), kind: int32(kernels.F32)}})
	own := make([]byte, 4*m*ld)
	b.Download(own, spanAt(to, int(m*ld), kernels.F32))
	most := 1e-3 * math.Sqrt(float64(c.K))
	for row := range m {
		for i := row * ld; i < row*ld+c.N; i++ {
			x, y := float64(number(sums, i)), float64(number(own, i))
			if !(math.Abs(x-y) <= most) {
				return fmt.Errorf("the library's product is wrong: %g where our own kernel has %g", x, y)
			}
		}
	}
	return nil
}

func number(raw []byte, i int64) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
}

// spanAt is device memory as a span.
func spanAt(p uintptr, n int, d kernels.DType) kernels.Span {
	return kernels.Span{Buf: &kernels.Buffer{Addr: p, Bytes: n * d.Size()}, Len: n, DType: d}
}

// Several ranks decide together which algorithm computes a shape: what one samples, another
// trains on, so that a shape has one algorithm on all of them or our own kernel on all.
//
//   - Rank 0's library proposes. The first of its algorithms is taken that keeps its promises on every rank
//     (selfCheck), and whose sums of the check's product have the same bits on every rank; where none
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

// Whether a Hopper's attention goes by wgmma, decided when a backend opens.
//
// The kernels for Hopper have run on one model of device, so nothing takes them unseen: some small attentions, forward
// and backward, are computed by them and by the mma.sync kernels. One that is off by more than
// the roundings of weights may make it (as the conformance suite allows), or that has other bits the second time,
// leaves them all out, and the backend's String says why. What cannot be told by results - a wait that is missing and
// did no harm this time - is the suite's and the double's to find.

// hopperCase is an attention of the check: a whole tile, ragged ones, hidden keys, grouped heads.
type hopperCase struct {
	batch, sq, sk, h, kh, d int
	causal                  bool
	lens                    []int32
}

var hopperCases = []hopperCase{
	{batch: 1, sq: 128, sk: 128, h: 1, kh: 1, d: 128},
	{batch: 2, sq: 70, sk: 140, h: 2, kh: 1, d: 40, causal: true, lens: []int32{140, 131}},
	{batch: 1, sq: 140, sk: 150, h: 1, kh: 1, d: 80, causal: true, lens: []int32{133}},
}

// chooseHopper decides. The error is a device that can go on no more.
func (b *Backend) chooseHopper() (err error) {
	w := &b.hopper
	if w.module == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", errHopper, err)
		}
	}()
	defer kernels.Recover(&err)
	for _, c := range hopperCases {
		w.attention.fail(b.checkHopper(c))
	}
	for _, layout := range []kernels.Layout{kernels.NT, kernels.NN} {
		w.products.fail(b.checkHopperProduct(layout))
	}
	w.attention.use, w.products.use = w.attention.why == "", w.products.why == ""
	for _, layout := range []kernels.Layout{kernels.NT, kernels.NN} {
		for _, c := range checkPairs {
			if w.products.use {
				w.pairs.fail(b.checkHopperPair(layout, c.n, c.terms))
			}
		}
	}
	w.pairs.use = w.products.use && w.pairs.why == ""
	b.useGradients()
	return nil
}

// useGradients takes gradients of weights by wgmma where products go there and the check passes.
func (b *Backend) useGradients() {
	w := &b.hopper
	if !w.products.use {
		w.gradients.why = w.products.why
		return
	}
	w.gradients.fail(b.checkHopperGradient())
	w.gradients.use = w.gradients.why == ""
}

// fail says why kernels are left out, if anything does; what was said first stays.
func (f *family) fail(why string) {
	if why != "" && f.why == "" {
		f.why = "the check of wgmma kernels failed: " + why
	}
}

// checkHopper says what is wrong with a case, "" where nothing is.
func (b *Backend) checkHopper(c hopperCase) string {
	const op = "Open"
	nq, nk, stats := c.batch*c.sq*c.h*c.d, c.batch*c.sk*c.kh*c.d, c.batch*c.h*c.sq
	room := b.scratch(op, 2*nq, 2*nk, 2*nk, 2*nq, 4*nq, 4*stats, 4*stats, 4*nq, 4*nk, 4*nk)
	defer b.giveBack(room)
	span := func(i, n int, d kernels.DType) kernels.Span { return spanAt(room[i], n, d) }
	for i, n := range []int{nq, nk, nk, nq} {
		b.Normal(&kernels.Normal{Key: 0x40bbe5, Stream: uint64(i), Y: span(i, n, kernels.BF16)})
	}
	query := func(i int, d kernels.DType) kernels.Heads {
		return kernels.NewHeads(span(i, nq, d), c.batch, c.sq, c.h, c.d)
	}
	key := func(i int, d kernels.DType) kernels.Heads {
		return kernels.NewHeads(span(i, nk, d), c.batch, c.sk, c.kh, c.d)
	}
	a := &kernels.AttentionBackward{Attention: kernels.Attention{Math: kernels.MathBF16, Scale: float32(1 / math.Sqrt(float64(c.d))), Causal: c.causal, KeyLens: c.lens,
		Q: query(0, kernels.BF16), K: key(1, kernels.BF16), V: key(2, kernels.BF16), O: query(4, kernels.F32), LSE: span(5, stats, kernels.F32)},
		DO: query(3, kernels.BF16), Delta: span(6, stats, kernels.F32), DQ: query(7, kernels.F32), DK: key(8, kernels.F32), DV: key(9, kernels.F32)}
	play := func(use bool) (all [][]byte) {
		defer func() { b.hopper.attention.use = false }()
		for b.hopper.attention.use = use; len(all) < 5; {
			b.Attention(&a.Attention)
			b.AttentionBackward(a)
			for _, s := range []kernels.Span{a.O.Span, a.LSE, a.DQ.Span, a.DK.Span, a.DV.Span} {
				raw := make([]byte, 4*s.Len)
				b.Download(raw, s)
				all = append(all, raw)
			}
		}
		return all
	}
	own, got, again := play(false), play(true), play(true)
	for i, name := range []string{"O", "LSE", "DQ", "DK", "DV"} {
		if at := unlike(got[i], own[i], hopperNear); at >= 0 {
			return fmt.Sprintf("%s[%d] is %g and not %g (%d queries, %d keys, head dimension %d)", name, at, number(got[i], at), number(own[i], at), c.sq, c.sk, c.d)
		}
		if string(again[i]) != string(got[i]) {
			return name + " has other bits the second time"
		}
	}
	return ""
}

// hopperAlike leaves the kernels out of all ranks where one is without.
func hopperAlike(ranks []*Backend) {
	for _, without := range ranks {
		for _, b := range ranks {
			b.hopper.attention.follow(&without.hopper.attention, without)
			b.hopper.products.follow(&without.hopper.products, without)
			b.hopper.pairs.follow(&without.hopper.pairs, without)
			b.hopper.gradients.follow(&without.hopper.gradients, without)
		}
	}
}

// follow leaves kernels out that another rank is without.
func (f *family) follow(other *family, rank *Backend) {
	if f.use && !other.use {
		f.use, f.why = false, rank.Name()+" is without wgmma: "+other.why
	}
}

// hopperNear is what the rounding of weights to bf16 under another maximum may change of numbers about 1.
const hopperNear = 1e-2

// unlike is the first number that is not near the other's, within so much of its size, -1 where there is none.
func unlike(got, want []byte, near float64) int64 {
	for i := range int64(len(want) / 4) {
		x, y := float64(number(got, i)), float64(number(want, i))
		if x != y && !(math.Abs(x-y) <= near*(1+math.Abs(y))) {
			return i
		}
	}
	return -1
}

// Whether our own products go by wgmma on a Hopper, decided when a backend opens, as attention is
// (checkHopper): a product of each layout is computed by each tile, and must be near that of the mma.sync kernels,
// the same bits from every tile and the second time, and a row of it alone the bits that it has in the whole.

// The check's product ends inside tiles and slices, and goes round the ring of stages of each tile.
const checkM, checkN, checkK = 66, 136, 584

// checkHopperProduct says what is wrong with a layout, "" where nothing is.
func (b *Backend) checkHopperProduct(layout kernels.Layout) string {
	const op = "Open"
	defer func(tile string) { b.hopper.onlyTile = tile }(b.hopper.onlyTile)
	room := b.scratch(op, 2*checkM*checkK, 2*checkN*checkK, 4*checkM*checkN)
	defer b.giveBack(room)
	for i, n := range []int{checkM * checkK, checkN * checkK} {
		b.Normal(&kernels.Normal{Key: 0x40bbe5, Stream: uint64(i), Y: spanAt(room[i], n, kernels.BF16)})
	}
	product := func(use bool, tile string, from, rows int) []byte {
		out := spanAt(room[2], rows*checkN, kernels.F32)
		g := &kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: kernels.NewMat(spanAt(room[0], checkM*checkK, kernels.BF16).Slice(from*checkK, (from+rows)*checkK), rows, checkK),
			B: kernels.NewMat(spanAt(room[1], checkN*checkK, kernels.BF16), checkN, checkK), C: kernels.NewMat(out, rows, checkN)}
		if layout == kernels.NN {
			g.B = kernels.NewMat(g.B.Span, checkK, checkN)
		}
		b.hopper.products.use, b.hopper.onlyTile = use, tile
		b.Gemm(g)
		raw := make([]byte, 4*rows*checkN)
		b.Download(raw, out)
		return raw
	}
	near := product(false, "", 0, checkM)
	var whole []byte
	for _, t := range hopperTiles {
		if t.trial && !b.mode.trial {
			continue
		}
		got := product(true, t.name, 0, checkM)
		if at := unlike(got, near, productNear); at >= 0 {
			return fmt.Sprintf("C[%d,%d] is %g and not %g (layout %s, tiles of %d x %d)", at/checkN, at%checkN, number(got, at), number(near, at), layout, t.rows, t.cols)
		}
		if whole == nil {
			whole = got
		}
		if !bytes.Equal(got, whole) {
			return fmt.Sprintf("tiles of %d x %d have other bits than those of %d x %d", t.rows, t.cols, hopperTiles[0].rows, hopperTiles[0].cols)
		}
		if from, n := 43, 4*checkN; !bytes.Equal(product(true, t.name, from, 1), whole[from*n:(from+1)*n]) {
			return fmt.Sprintf("a row alone has other bits (tiles of %d x %d)", t.rows, t.cols)
		}
	}
	if !bytes.Equal(product(true, hopperTiles[0].name, 0, checkM), whole) {
		return "the same product has other bits the second time"
	}
	return ""
}

// productNear is what the order of sums may change, of numbers about 24.
const productNear = 1e-3

// The check's pairs have fewer terms than a slice, and more; its products more columns than leastWhole, and fewer.
var checkPairs = []struct{ n, terms int }{{checkN, 24}, {40, 72}}

// checkHopperPair says what is wrong with products of adapters in a layout, "" where nothing is: each must be near the
// products apart, by mma.sync where there are few columns, with the same bits from every tile and for a row alone, and
// a pair of zeros must change no bit.
func (b *Backend) checkHopperPair(layout kernels.Layout, checkN, r int) string {
	const op, factor = "Open", 1.375
	defer func(tile string) { b.hopper.onlyTile, b.hopper.pairs.use = tile, false }(b.hopper.onlyTile)
	numbers := []int{checkM * checkK, checkN * checkK, checkM * r, checkN * r, checkN * r}
	room := b.scratch(op, 2*numbers[0], 2*numbers[1], 2*numbers[2], 2*numbers[3], 2*numbers[4], 4*checkM*checkN)
	defer b.giveBack(room)
	for i, n := range numbers[:4] {
		b.Normal(&kernels.Normal{Key: 0x40bbe5, Stream: uint64(i), Y: spanAt(room[i], n, kernels.BF16)})
	}
	b.Fill(spanAt(room[4], numbers[4], kernels.BF16), 0)
	side := func(i, rows, cols int) kernels.Mat {
		if layout == kernels.NN && (i == 1 || i > 2) {
			rows, cols = cols, rows
		}
		return kernels.NewMat(spanAt(room[i], rows*cols, kernels.BF16), rows, cols)
	}
	product := func(use bool, tile string, from, rows, factors int) []byte {
		out := spanAt(room[5], rows*checkN, kernels.F32)
		g := &kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: side(0, checkM, checkK).RowRange(from, from+rows), B: side(1, checkN, checkK), C: kernels.NewMat(out, rows, checkN)}
		if factors > 0 {
			g.Pair = &kernels.Pair{A: side(2, checkM, r).RowRange(from, from+rows), B: side(factors, checkN, r), Alpha: factor}
		}
		b.hopper.pairs.use, b.hopper.onlyTile = use, tile
		b.Gemm(g)
		raw := make([]byte, 4*rows*checkN)
		b.Download(raw, out)
		return raw
	}
	near := product(false, "", 0, checkM, 3)
	var whole []byte
	for _, t := range hopperTiles {
		if t.trial && !b.mode.trial {
			continue
		}
		got := product(true, t.name, 0, checkM, 3)
		if at := unlike(got, near, productNear); at >= 0 {
			return fmt.Sprintf("with a pair, C[%d,%d] is %g and not %g (layout %s, tiles of %d x %d)", at/int64(checkN), at%int64(checkN), number(got, at), number(near, at), layout, t.rows, t.cols)
		}
		if whole == nil {
			whole = got
		}
		if !bytes.Equal(got, whole) {
			return fmt.Sprintf("with a pair, tiles of %d x %d have other bits than those of %d x %d", t.rows, t.cols, hopperTiles[0].rows, hopperTiles[0].cols)
		}
		if from, n := 43, 4*checkN; !bytes.Equal(product(true, t.name, from, 1, 3), whole[from*n:(from+1)*n]) {
			return fmt.Sprintf("with a pair, a row alone has other bits (tiles of %d x %d)", t.rows, t.cols)
		}
	}
	if !bytes.Equal(product(true, "", 0, checkM, 4), product(true, "", 0, checkM, 0)) {
		return "a pair of zeros changes a product"
	}
	return ""
}

// The check's samples end inside slices, at a whole one, and go round the ring of each tile.
var checkSamples = []int{70, 64, 14, 1, 584}

// The check's gradient ends inside tiles, and its operands lie as the kernels read them.
const gradientM, gradientN = 72, 136

// checkHopperGradient says what is wrong with gradients of weights, "" where nothing is: each must be near that by
// mma.sync, with the same bits from every tile, the second time, and where samples come one after another.
func (b *Backend) checkHopperGradient() string {
	const op, alpha = "Open", 0.625
	defer func(tile string) { b.hopper.onlyTile, b.hopper.gradients.use = tile, false }(b.hopper.onlyTile)
	k := 0
	for _, n := range checkSamples {
		k += n
	}
	room := b.scratch(op, 2*k*gradientM, 2*k*gradientN, 4*gradientM*gradientN)
	defer b.giveBack(room)
	for i, n := range []int{k * gradientM, k * gradientN} {
		b.Normal(&kernels.Normal{Key: 0x40bbe5, Stream: uint64(i), Y: spanAt(room[i], n, kernels.BF16)})
	}
	left := kernels.NewMat(spanAt(room[0], k*gradientM, kernels.BF16), k, gradientM)
	right := kernels.NewMat(spanAt(room[1], k*gradientN, kernels.BF16), k, gradientN)
	out := spanAt(room[2], gradientM*gradientN, kernels.F32)
	add := func(from int, samples []int) {
		to := from
		for _, n := range samples {
			to += n
		}
		b.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: kernels.MathBF16, A: left.RowRange(from, to), B: right.RowRange(from, to),
			C: kernels.NewMat(out, gradientM, gradientN), Segments: samples, Alpha: alpha, Accumulate: true})
	}
	read := func() []byte {
		raw := make([]byte, 4*gradientM*gradientN)
		b.Download(raw, out)
		return raw
	}
	whole := func(use bool, tile string) []byte {
		b.hopper.gradients.use, b.hopper.onlyTile = use, tile
		b.Fill(out, 3)
		add(0, checkSamples)
		return read()
	}
	apart := func(tile string) []byte {
		b.hopper.gradients.use, b.hopper.onlyTile = true, tile
		b.Fill(out, 3)
		from := 0
		for _, n := range checkSamples {
			add(from, []int{n})
			from += n
		}
		return read()
	}
	near, want := whole(false, ""), whole(true, "")
	if at := unlike(want, near, productNear); at >= 0 {
		return fmt.Sprintf("a weight's gradient [%d,%d] is %g and not %g", at/gradientN, at%gradientN, number(want, at), number(near, at))
	}
	for _, t := range gradientTiles {
		if !bytes.Equal(whole(true, t.name), want) || !bytes.Equal(apart(t.name), want) {
			return fmt.Sprintf("a weight's gradient has other bits by tiles of %d x %d (%s)", t.rows, t.cols, t.name)
		}
	}
	return ""
}

// What computed a run's products and attention of bf16 is kept with the run, so that it goes on with the same bits
// or not at all: our own kernels, or the library's version and the algorithm of each shape.

// recorded is a backend's choices as they are kept.
type recorded struct {
	By     string          `json:"by"` // "own", or "cublaslt"
	Name   string          `json:"version,omitempty"`
	Device string          `json:"device,omitempty"` // the model: algorithms are its own
	Shapes []recordedShape `json:"shapes,omitempty"`
	// Attention, and Own, which is products of our own kernels, are attentionByHopper and productsByHopper where those
	// for Hopper compute them, and absent for mma.sync.
	Attention string `json:"attention,omitempty"`
	Own       string `json:"own,omitempty"`
	// Adapters is "wgmma" where the products of adapters are terms in the sums of others, and absent where they are
	// products of their own.
	Adapters string `json:"adapters,omitempty"`
	// Gradients is "wgmma" where that computes gradients of weights.
	Gradients string `json:"gradients,omitempty"`
}

// recordedShape is a choice. A weight is [N,K], a turned one [K,N].
type recordedShape struct {
	N         int64  `json:"n"`
	K         int64  `json:"k"`
	Turned    bool   `json:"turned,omitempty"`
	Algorithm string `json:"algorithm,omitempty"` // the library's 64 bytes; none: our own kernel
	Why       string `json:"why,omitempty"`
}

// Choices is a record, in JSON, of what was chosen so far, for Choose of the backend that goes on
// with the work: nil in exact mode, where nothing is chosen. news are sentences for people, each once.
func (b *Backend) Choices() (record []byte, news []string, err error) {
	if b.exact {
		return nil, nil, nil
	}
	r := recorded{By: "own"}
	if p := b.products; p != nil {
		r = recorded{By: "cublaslt", Name: blas.VersionText(p.Version), Device: b.device.Name}
		p.lock.Lock()
		defer p.lock.Unlock()
		all := maps.Clone(p.recorded)
		maps.Copy(all, p.chosen)
		for _, c := range all {
			s := recordedShape{N: c.N, K: c.K, Turned: c.Turned, Why: c.why}
			if c.algorithm != nil {
				s.Algorithm = c.algorithm.Text()
			}
			r.Shapes = append(r.Shapes, s)
		}
		slices.SortFunc(r.Shapes, func(x, y recordedShape) int {
			return strings.Compare(fmt.Sprintf("%20d%20d%t", x.N, x.K, x.Turned), fmt.Sprintf("%20d%20d%t", y.N, y.K, y.Turned))
		})
		news, p.news = p.news, nil
	}
	r.Attention, news = b.hopper.attention.record("attention goes", attentionByHopper, news)
	r.Own, news = b.hopper.products.record("products of our own go", productsByHopper, news)
	if b.products == nil {
		r.Adapters, news = b.hopper.pairs.record("products of adapters go", adaptersByHopper, news)
	}
	r.Gradients, news = b.hopper.gradients.record("gradients of weights go", gradientsByHopper, news)
	record, err = json.MarshalIndent(r, "", "  ")
	return append(record, '\n'), news, err
}

// Choose takes a record's choices, for all ranks, before anything is computed. The error says what stands
// in the way of going on with the same bits.
func (b *Backend) Choose(record []byte) error {
	var r recorded
	if err := json.Unmarshal(record, &r); err != nil {
		return fmt.Errorf("the record of products: %w", err)
	}
	for _, rank := range b.agreed.ranks {
		if err := rank.take(&r); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) take(r *recorded) error {
	if err := b.chooseFamily("attention so far was", attentionByHopper, r.Attention, &b.hopper.attention); err != nil {
		return err
	}
	if err := b.chooseFamily("products of our own so far were", productsByHopper, r.Own, &b.hopper.products); err != nil {
		return err
	}
	if err := b.chooseFamily("products of adapters so far were", adaptersByHopper, r.Adapters, &b.hopper.pairs); err != nil {
		return err
	}
	if err := b.chooseFamily("gradients of weights so far were", gradientsByHopper, r.Gradients, &b.hopper.gradients); err != nil {
		return err
	}
	if r.By == "cublaslt" && b.without == ownInstead {
		if err := b.libraryAfterAll(); err != nil {
			return fmt.Errorf("the products so far were computed by cuBLASLt %s: %w", r.Name, err)
		}
	}
	switch {
	case r.By == "own" && b.exact, r.By == "own" && b.mode.products == "lt":
		return fmt.Errorf("the products so far were computed by our own kernels; %s=own goes on with their bits", ModeVariable)
	case r.By == "own":
		b.withoutLibrary("the work that goes on was begun with them")
		return nil
	case r.By != "cublaslt":
		return fmt.Errorf("the record of products names %q, which is unknown", r.By)
	case b.products == nil:
		return fmt.Errorf("the products so far were computed by cuBLASLt %s, and now would be by our own kernels, with other bits: %s", r.Name, b.without)
	case r.Name != blas.VersionText(b.products.Version):
		return fmt.Errorf("the products so far were computed by cuBLASLt %s; this one (%s) is %s, with other bits; %s can name the other", r.Name, b.products.Path, blas.VersionText(b.products.Version), blas.LibraryVariable)
	case r.Device != b.device.Name:
		return fmt.Errorf("the products so far were computed on %s; this device is %s, where the library's algorithms are others", r.Device, b.device.Name)
	}
	for _, s := range r.Shapes {
		c := &choice{Shape: blas.Shape{N: s.N, K: s.K, Turned: s.Turned}, why: s.Why}
		if s.Algorithm != "" {
			a, err := blas.ReadAlgorithm(s.Algorithm)
			if err != nil {
				return fmt.Errorf("the record of products: weights %s: %w", c.Shape, err)
			}
			c.algorithm = &a
		}
		b.products.recorded[c.Shape] = c
	}
	return nil
}

// What the kernels for Hopper are called in a record. Their products were called productsBefore while activations in
// the epilogue had the bits of package ref.
const (
	attentionByHopper = "wgmma"
	productsByHopper  = "wgmma,ex2.approx"
	productsBefore    = "wgmma"
	adaptersByHopper  = "wgmma"
	gradientsByHopper = "wgmma"
)

// record is how a family is kept with a run, and what is to be said of it once.
func (f *family) record(what, name string, news []string) (by string, all []string) {
	if f.use {
		return name, news
	}
	if f.why != "" && !f.told {
		f.told = true
		news = append(news, what+" by mma.sync: "+f.why)
	}
	return "", news
}

// chooseFamily takes what computed a run's attention, or products; name is what the kernels for Hopper are called.
func (b *Backend) chooseFamily(what, name, by string, f *family) error {
	switch {
	case b.exact: // which goes on with no record's bits, and says so
	case by == "" && f.use:
		f.use, f.why = false, "the work that goes on was begun with it"
	case by == name && f.use, by == "":
	case by == name && f.why == "":
		return fmt.Errorf("the %s computed by the kernels for compute capability 9.0, and this device is of %d.%d: there would be other bits", what, b.device.Major, b.device.Minor)
	case by == name:
		return fmt.Errorf("the %s computed by wgmma, and now would be by mma.sync, with other bits: %s", what, f.why)
	case name == productsByHopper && by == productsBefore:
		return fmt.Errorf("the %s computed by wgmma with exact activations, and now activations would be by ex2.approx, "+
			"with other bits\nhint: the version of darkroom that began the run goes on with it", what)
	default:
		return fmt.Errorf("the record of products says that the %s computed by %q, which is unknown", what, by)
	}
	return nil
}

// withoutLibrary leaves all products to our own kernels, before anything is computed.
func (b *Backend) withoutLibrary(why string) {
	if p := b.products; p != nil {
		b.products, b.without = nil, why
		b.must("Choose", p.close)
	}
}
