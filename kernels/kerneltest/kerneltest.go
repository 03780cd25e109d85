package kerneltest

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the recorded digests
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Case is one operation at one shape.
type Case struct {
	Op, Name string
	Run      func(e *Env)
}

// Cases lists the cases of every family.
func Cases() []Case {
	var all []Case
	for _, family := range families {
		all = append(all, family()...)
	}
	return all
}

// A Suite runs named cases, as *testing.T does: the program, which runs cases as well, does without package testing.
type Suite[T any] interface {
	Run(name string, f func(T)) bool
	Fatal(args ...any)
}

// Run holds backends to ref, whose results are computed once for all of them.
func Run[T Suite[T]](t T, backends ...kernels.Backend) { run(t, nil, backends...) }

// RunNear holds a backend to ref: bit for bit where near gives 0, and else within near·(1 + |want|),
// for an operation whose order of sums is the backend's own. Results in bf16 may be a rounding apart.
// A case for which near is below 0 is left out.
func RunNear[T Suite[T]](t T, b kernels.Backend, near func(c Case) float64) { run(t, near, b) }

func run[T Suite[T]](t T, near func(c Case) float64, backends ...kernels.Backend) {
	for _, c := range Cases() {
		compare := compare
		if near != nil {
			tol := near(c)
			if tol < 0 {
				continue
			}
			if tol > 0 {
				compare = func(got, want []result) error { return compareNear(got, want, tol) }
			}
		}
		t.Run(c.Op+"/"+c.Name, func(t T) {
			if err := hold(c, compare, backends...); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TensorCores is how near to ref the results of tensor cores must be, whose order of sums is their own; other cases are
// left out: it is below 0.
func TensorCores(c Case) float64 {
	switch c.Op {
	case "Gemm", "Conv", "ConvBackward":
		if strings.Contains(c.Name, "bf16") {
			return 3e-4
		}
	case "Attention", "AttentionBackward": // weights are rounded to bf16 under another maximum
		switch {
		case !strings.HasPrefix(c.Name, "bf16/"):
		case c.Op == "AttentionBackward" && strings.HasSuffix(c.Name, "300x300x8"):
			// Operands eight times as large: a rounding of O moves Delta, and DQ by more than its size.
		default:
			return 1e-2
		}
	}
	return -1
}

// Hold holds a backend to ref in one case, as RunNear does.
func Hold(c Case, b kernels.Backend, near float64) error {
	if near > 0 {
		return hold(c, func(got, want []result) error { return compareNear(got, want, near) }, b)
	}
	return hold(c, compare, b)
}

// hold compares backends with ref in one case, with operands that begin and that do not begin where vectors do.
func hold(c Case, compare func(got, want []result) error, backends ...kernels.Backend) error {
	want, err := play(c, ref.Backend{}, 0)
	if err != nil {
		return fmt.Errorf("ref: %w", err)
	}
	for _, b := range backends {
		for _, shift := range []int{0, 3} {
			got, err := play(c, b, shift)
			if err != nil {
				return fmt.Errorf("%s: %w", b.Name(), err)
			}
			if err := compare(got, want); err != nil {
				return fmt.Errorf("%s, operands shifted by %d: %w", b.Name(), shift, err)
			}
		}
	}
	return nil
}

// play runs a case on one backend and returns its named results, which are near the formula.
func play(c Case, b kernels.Backend, shift int) (outs []result, err error) {
	return results(c, b, shift, true)
}

// results runs a case on one backend and returns its named results, compared with formulas or not.
func results(c Case, b kernels.Backend, shift int, formulas bool) (outs []result, err error) {
	e := &Env{B: b, shift: shift, seed: hash(c.Op + "/" + c.Name)}
	defer func() {
		for _, o := range e.owned {
			b.Free(o.buf)
		}
	}()
	c.Run(e)
	b.Sync()
	for _, o := range e.owned {
		if err := e.guards(o); err != nil {
			return nil, err
		}
	}
	for _, o := range e.outs {
		outs = append(outs, result{o.name, o.span.DType, e.Bytes(o.span)})
	}
	for _, near := range e.nears {
		if !formulas {
			break
		}
		if err := near(); err != nil {
			return nil, err
		}
	}
	return outs, nil
}

type result struct {
	name  string
	dtype kernels.DType
	bytes []byte
}

func compare(got, want []result) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d results, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if bytes.Equal(g.bytes, w.bytes) {
			continue
		}
		n := w.dtype.Size()
		wrong, first := 0, -1
		for at := 0; at < len(w.bytes); at += n {
			x, y := g.bytes[at:at+n], w.bytes[at:at+n]
			if bytes.Equal(x, y) || (isNaN(w.dtype, x) && isNaN(w.dtype, y)) {
				continue
			}
			if first < 0 {
				first = at / n
			}
			wrong++
		}
		if wrong > 0 {
			at := first * n
			return fmt.Errorf("%s: %d of %d elements differ; the first is [%d]: got %s, want %s", w.name, wrong, len(w.bytes)/n,
				first, show(w.dtype, g.bytes[at:at+n]), show(w.dtype, w.bytes[at:at+n]))
		}
	}
	return nil
}

// compareNear allows the effect of another order of fp32 sums on results of ordinary size. Results of other sizes,
// those of wild operands, are left out: in them nothing bounds the difference.
func compareNear(got, want []result, tol float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d results, want %d", len(got), len(want))
	}
	for i, w := range want {
		g, n := got[i], w.dtype.Size()
		abs, rel := tol, tol
		if w.dtype == kernels.BF16 {
			rel += 1.0 / 128
		}
		for at := 0; at < len(w.bytes); at += n {
			x, _ := number(w.dtype, g.bytes[at:at+n])
			y, ok := number(w.dtype, w.bytes[at:at+n])
			if !ok || !(math.Abs(y) <= 1e4) {
				continue
			}
			if !(math.Abs(x-y) <= abs+rel*math.Abs(y)) {
				return fmt.Errorf("%s: element [%d] is %g, want %g or near it", w.name, at/n, x, y)
			}
		}
	}
	return nil
}

func isNaN(d kernels.DType, b []byte) bool {
	v, ok := number(d, b)
	return ok && math.IsNaN(v)
}

func show(d kernels.DType, b []byte) string {
	v, ok := number(d, b)
	if !ok {
		return fmt.Sprintf("%x", b)
	}
	return fmt.Sprintf("%g (%x)", v, b)
}

// families are the conformance rows, one file a family of operations.
var families = []func() []Case{
	normals,
	norms,
	groupNorms,
	softmaxes,
	draws,
	embeddings,
	elementwise,
	reductions,
	copies,
	Unpacks,
	pieces,
	training,
	convs,
	products,
	pairs,
	attentions,
	ropes,
}

// Sizes are the lengths at which loops go wrong.
var Sizes = []int{0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025}

//go:embed testdata/digests.json
var recorded []byte

// Recorded are the digests of ref's results, by case: "op/name". They are recorded, so that a compiler that fuses a
// product, another machine, or an unintended edit of a definition shows; and so that a backend can be compared with
// ref without computing ref's results.
func Recorded() (sums map[string]string, err error) {
	return sums, json.Unmarshal(recorded, &sums)
}

// Digests are the hashes of a backend's results, by case.
func Digests(b kernels.Backend) (map[string]string, error) {
	sums := map[string]string{}
	for _, c := range Cases() {
		name := c.Op + "/" + c.Name
		if _, twice := sums[name]; twice {
			return nil, fmt.Errorf("two cases are called %s", name)
		}
		outs, err := results(c, b, 0, false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		h := sha256.New()
		for _, o := range outs {
			canonical(o)
			h.Write([]byte(o.name))
			h.Write(o.bytes)
		}
		sums[name] = hex.EncodeToString(h.Sum(nil)[:8])
	}
	return sums, nil
}

// canonical writes every NaN of a result in one way: which NaN comes out of an
// operation is not defined.
func canonical(o result) {
	n := o.dtype.Size()
	for at := 0; at+n <= len(o.bytes); at += n {
		if b := o.bytes[at : at+n]; isNaN(o.dtype, b) {
			for i := range b {
				b[i] = 0xff
			}
		}
	}
}
