//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/blas"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// newLibraryRig is a rig whose products cuBLASLt computes, of weights as small as tests have.
func newLibraryRig(t *testing.T) (*rig, *double.Control) {
	c := newProducts(t)
	return openLibraryRig(t), c
}

func openLibraryRig(t *testing.T) *rig {
	r := openRig(t)
	if !strings.Contains(r.String(), "by cuBLASLt 13.4.1") {
		t.Fatalf("opened %s", r)
	}
	r.SetLibrary(1, 64)
	return r
}

// newProducts is the double with cuBLASLt, and a device that has one image: opening is quick.
func newProducts(t *testing.T) *double.Control {
	c := double.New(t)
	double.Products(t)
	c.Set(13000, 1, 120, 2<<30)
	return c
}

// linear is a product with a packed weight: [rows, k] by [n, k], or turned.
func (r *rig) linear(x kernels.Mat, w *kernels.Packed, turned bool) []byte {
	n, layout := w.N, kernels.NT
	if turned {
		n, layout = w.K, kernels.NN
	}
	c := r.zeros(kernels.F32, x.Rows*n)
	r.Gemm(&kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: x, W: w, C: kernels.NewMat(c, x.Rows, n)})
	return r.bytes(c)
}

// TestLibraryProducts: the suite's products of bf16 through the library, near to ref; every epilogue and
// layout is among them.
func TestLibraryProducts(t *testing.T) {
	r, _ := newLibraryRig(t)
	kerneltest.RunNear(t, r.Backend, func(c kerneltest.Case) float64 {
		if c.Op != "Gemm" || !strings.Contains(c.Name, "bf16") {
			return -1
		}
		return kerneltest.TensorCores(c)
	})
	if r.LibraryCalls() < 60 {
		t.Errorf("the library computed %d products: the suite passed it by", r.LibraryCalls())
	}
}

// TestLibraryRows: a row's bits depend neither on its batch, nor on how its operands lie, nor on the pieces
// that rows are taken in; and they are not our own kernel's, or nothing would be shown.
func TestLibraryRows(t *testing.T) {
	r, _ := newLibraryRig(t)
	const m, n, k = 150, 72, 136
	a, x := r.span(kernels.BF16, m*k, 0)
	wide, _ := r.span(kernels.F32, m*n, 0) // for the turned weight
	weight, y := r.span(kernels.BF16, n*k, 0)
	w := r.Pack(kernels.NewMat(weight, n, k), kernels.MathBF16)
	whole := r.linear(kernels.NewMat(a, m, k), w, false)
	for i := range m * n {
		want := 0.0
		for j := range k {
			want += float64(x[i/n*k+j]) * float64(y[i%n*k+j])
		}
		if got := number(whole, i); !(math.Abs(got-want) <= 1e-4) {
			t.Fatalf("element %d: %g, want %g", i, got, want)
		}
	}
	turned := r.linear(kernels.NewMat(wide, m, n), w, true)
	for _, p := range [][2]int{{0, 1}, {m - 1, 1}, {3, 2}, {77, 8}, {20, 130}} {
		from, rows := p[0], p[1]
		if got := r.linear(kernels.NewMat(a.Slice(from*k, (from+rows)*k), rows, k), w, false); !bytes.Equal(got, whole[4*from*n:4*(from+rows)*n]) {
			t.Errorf("%d rows from %d on have other bits", rows, from)
		}
		if got := r.linear(kernels.NewMat(wide.Slice(from*n, (from+rows)*n), rows, n), w, true); !bytes.Equal(got, turned[4*from*k:4*(from+rows)*k]) {
			t.Errorf("turned: %d rows from %d on have other bits", rows, from)
		}
	}
	odd := kernels.Span{Buf: r.Alloc(2*m*k + 6), Off: 3, Len: m * k, DType: kernels.BF16}
	r.Upload(odd, r.bytes(a))
	if !bytes.Equal(r.linear(kernels.NewMat(odd, m, k), w, false), whole) {
		t.Error("rows that had to be gathered have other bits")
	}
	r.SetMostGathered(1)
	if !bytes.Equal(r.linear(kernels.NewMat(odd, m, k), w, false), whole) || !bytes.Equal(r.linear(kernels.NewMat(a, m, k), w, false), whole) {
		t.Error("rows in pieces have other bits")
	}
	t.Setenv(cuda.ModeVariable, "own")
	o := openRig(t)
	b, _ := o.span(kernels.BF16, m*k, 0)
	_, _ = o.span(kernels.F32, m*n, 0)
	v, _ := o.span(kernels.BF16, n*k, 0)
	if own := o.linear(kernels.NewMat(b, m, k), o.Pack(kernels.NewMat(v, n, k), kernels.MathBF16), false); bytes.Equal(own, whole) {
		t.Error("the double's sums have the bits of our own kernel: the test would see no difference")
	}
}

func number(raw []byte, i int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
}

// TestLibraryFaults: an algorithm that breaks a promise computes nothing that counts. The next one
// does, and where there is none our own kernel, from the shape's first product on.
func TestLibraryFaults(t *testing.T) {
	const m, n, k = 20, 24, 128 // every row begins at a multiple of 256 bytes
	product := func(r *rig) []byte {
		a, _ := r.span(kernels.BF16, m*k, 0)
		w, _ := r.span(kernels.BF16, n*k, 0)
		return r.linear(kernels.NewMat(a, m, k), r.Pack(kernels.NewMat(w, n, k), kernels.MathBF16), false)
	}
	c := newProducts(t)
	t.Setenv(cuda.ModeVariable, "own")
	own := product(openRig(t))
	t.Setenv(cuda.ModeVariable, "lt")
	good := product(openLibraryRig(t))
	for name, x := range map[string]struct {
		fault double.Fault
		says  string
	}{
		"by batch": {double.ByBatch, "bits depend on its batch"},
		"by place": {double.ByPlace, "bits depend on its batch"},
		"address":  {double.ByAddress, "depend on its address"},
		"wrong":    {double.Wrong, "product is wrong"},
		"unsteady": {double.Unsteady, "bits"},
		"split":    {double.Split, "without sums across blocks"},
		"greedy":   {double.Greedy, "without sums across blocks"},
		"none":     {double.None, "not supported (15)"},
		"refuses":  {double.Refuses, "5 rows: cublasLtMatmulAlgoCheck: not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			c.SetProducts(130401, x.fault, 3)
			r := openLibraryRig(t)
			if !bytes.Equal(product(r), own) || r.LibraryCalls() > 0 {
				t.Error("the library computed the product")
			}
			product(r)
			_, news, err := r.Choices()
			if err != nil || len(news) != 1 || !strings.Contains(news[0], x.says) || !strings.Contains(news[0], "[24,128] run on our own kernel") {
				t.Errorf("%q, %v", news, err)
			}
			if _, news, _ = r.Choices(); len(news) != 0 {
				t.Errorf("said twice: %q", news)
			}
			if x.fault != double.ByBatch && x.fault != double.Split {
				return // one of those that are measured and one of those that are read is enough
			}
			c.SetProducts(130401, x.fault, 1)
			r = openLibraryRig(t)
			if got := product(r); r.LibraryCalls() != 1 || bytes.Equal(got, good) || bytes.Equal(got, own) {
				t.Errorf("the second algorithm did not take over (%d calls)", r.LibraryCalls())
			}
		})
	}
}

// TestLibraryLate: what the library refuses after it computed is an error that names a way out.
func TestLibraryLate(t *testing.T) {
	r, c := newLibraryRig(t)
	a, _ := r.span(kernels.BF16, 5*64, 0)
	weight, _ := r.span(kernels.BF16, 64*64, 0)
	w := r.Pack(kernels.NewMat(weight, 64, 64), kernels.MathBF16)
	r.linear(kernels.NewMat(a.Slice(0, 4*64), 4, 64), w, false)
	c.SetProducts(130401, double.Late, 3)
	says := func(err error, words ...string) {
		t.Helper()
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v; want %q in it", err, w)
			}
		}
	}
	try := func(rows int) (err error) {
		defer kernels.Recover(&err)
		r.linear(kernels.NewMat(a.Slice(0, rows*64), rows, 64), w, false)
		return nil
	}
	says(try(5), "cuda:0: Gemm", "not supported (15)", "DARKROOM_CUDA=own")
	if err := try(3); err != nil {
		t.Error(err)
	}
	c.Fail("cublasLtMatmul", 1, 13)
	says(try(3), "execution failed (13)")
}

// TestLibraryOpens: when the library is taken, and what is said where it is not.
func TestLibraryOpens(t *testing.T) {
	c := newProducts(t)
	path := os.Getenv(driver.LibraryVariable)
	for name, x := range map[string]struct {
		mode, library string
		version       int
		fail          string
		says          string // in String, or in the error
		probe         string
		err           bool
	}{
		"found":             {"", path, 120901, "", "by cuBLASLt 12.9.1", "cuBLASLt 12.9.1, " + path, false},
		"asked for":         {"lt", path, 130401, "", "by cuBLASLt 13.4.1", "cuBLASLt 13.4.1", false},
		"not asked":         {"own", path, 130401, "", "by our own kernels", "our own kernels: DARKROOM_CUDA=own", false},
		"exact":             {"exact", path, 130401, "", "exact", "our own kernels: DARKROOM_CUDA=exact", false},
		"absent":            {"", "/nowhere/libcublasLt.so", 130401, "", "by our own kernels", "no cuBLASLt: ", false},
		"needed":            {"lt", "/nowhere/libcublasLt.so", 130401, "", "DARKROOM_CUDA=lt: no cuBLASLt", "no cuBLASLt", true},
		"old":               {"", path, 110805, "", "by our own kernels", "cuBLASLt 11.8.5 is too old", false},
		"old too":           {"lt", path, 110805, "", "too old", "too old", true},
		"no handle":         {"", path, 130401, "cublasLtCreate", "by our own kernels", "", false},
		"no handle, needed": {"lt", path, 130401, "cublasLtCreate", "not initialised (1)", "", true},
		"two words":         {"lt,own", path, 130401, "", "one of lt, own and exact", "one of", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(cuda.ModeVariable, x.mode)
			t.Setenv(blas.LibraryVariable, x.library)
			c.SetProducts(x.version, 0, 0)
			if got := cuda.Probe().Products; !strings.Contains(got, x.probe) {
				t.Errorf("the probe says %q, want %q in it: %+v", got, x.probe, cuda.Probe())
			}
			if x.fail != "" {
				c.Fail(x.fail, 1, 1)
			}
			before, used := c.Objects(), c.Used()
			b, err := cuda.Open(0)
			if x.err != (err != nil) {
				t.Fatalf("%v, %v", b, err)
			}
			got := fmt.Sprint(b)
			if err != nil {
				got = err.Error()
			} else if err := b.Close(); err != nil {
				t.Error(err)
			}
			if !strings.Contains(got, x.says) {
				t.Errorf("%s; want %q in it", got, x.says)
			}
			if c.Objects() != before || c.Used() != used {
				t.Errorf("%d objects and %d bytes are left behind", c.Objects()-before, c.Used()-used)
			}
		})
	}
}

// TestChoices: work goes on with what it was begun with, or says why it cannot.
func TestChoices(t *testing.T) {
	c := newProducts(t)
	const m, n, k = 20, 24, 40
	product := func(r *rig) []byte {
		a, _ := r.span(kernels.BF16, m*k, 0)
		w, _ := r.span(kernels.BF16, n*k, 0)
		return r.linear(kernels.NewMat(a, m, k), r.Pack(kernels.NewMat(w, n, k), kernels.MathBF16), false)
	}
	record := func(r *rig) []byte {
		t.Helper()
		text, _, err := r.Choices()
		if err != nil || !json.Valid(text) {
			t.Fatalf("%s, %v", text, err)
		}
		return text
	}
	c.SetProducts(130401, double.ByBatch, 1) // the second algorithm is chosen
	r := openLibraryRig(t)
	first := product(r)
	second := record(r)
	c.SetProducts(130401, 0, 0) // and now the first would be
	r = openLibraryRig(t)
	if err := r.Choose(second); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(record(r), second) {
		t.Error("what was recorded is forgotten before it is used again")
	}
	if !bytes.Equal(product(r), first) || r.LibraryCalls() != 1 {
		t.Error("the work goes on with another algorithm")
	}
	if !bytes.Equal(record(r), second) {
		t.Error("the record has changed")
	}
	c.SetProducts(130401, double.ByBatch, 3)
	r = openLibraryRig(t)
	_ = r.Choose(second)
	func() {
		var err error
		defer func() {
			if err == nil || !strings.Contains(err.Error(), "no longer keeps its promise") {
				t.Errorf("%v", err)
			}
		}()
		defer kernels.Recover(&err)
		product(r)
	}()

	// Our own kernels go on as they began, though the library is there by now.
	c.SetProducts(130401, 0, 0)
	t.Setenv(cuda.ModeVariable, "own")
	r = openRig(t)
	first = product(r)
	own := record(r)
	t.Setenv(cuda.ModeVariable, "")
	r = openLibraryRig(t)
	if err := r.Choose(own); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(product(r), first) {
		t.Error("work of our own kernels goes on in the library")
	}
	t.Setenv(cuda.ModeVariable, "exact")
	if text, _, err := openRig(t).Choices(); text != nil || err != nil {
		t.Errorf("exact arithmetic records %s, %v", text, err)
	}
	for name, x := range map[string]struct {
		mode    string
		version int
		record  []byte
		says    string
	}{
		"other version": {"", 120901, second, "cuBLASLt 13.4.1; this one"},
		"no library":    {"own", 130401, second, "by our own kernels, with other bits: DARKROOM_CUDA=own"},
		"exact":         {"exact", 130401, own, "DARKROOM_CUDA=own goes on"},
		"library now":   {"lt", 130401, own, "DARKROOM_CUDA=own goes on"},
		"other device":  {"", 130401, bytes.Replace(second, []byte("double on the host"), []byte("NVIDIA H100"), 1), "on NVIDIA H100; this device is"},
		"no algorithm":  {"", 130401, bytes.Replace(second, []byte("000000000000a190"), []byte("zz"), 1), "is no algorithm"},
		"unknown":       {"", 130401, []byte(`{"by":"magic"}`), `"magic", which is unknown`},
		"no JSON":       {"", 130401, []byte("{"), "the record of products"},
	} {
		t.Setenv(cuda.ModeVariable, x.mode)
		c.SetProducts(x.version, 0, 0)
		if err := openRig(t).Choose(x.record); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v; want %q in it", name, err, x.says)
		}
	}
}

// TestHopperWithoutLibrary: a Hopper's products are our own, though cuBLASLt is there, unless it is asked for or
// the work was begun with it.
func TestHopperWithoutLibrary(t *testing.T) {
	c := newProducts(t)
	c.Set(13000, 1, 90, 2<<30)
	multiply := func(r *rig) []byte {
		r.r = rand.New(rand.NewPCG(1, 2))
		return r.linear(r.mat(kernels.BF16, 70, 136, 136, 0), r.Pack(r.mat(kernels.BF16, 72, 136, 136, 0), kernels.MathBF16), false)
	}
	t.Setenv(cuda.ModeVariable, "lt")
	library := openLibraryRig(t)
	want := multiply(library)
	record, _, err := library.Choices()
	if err != nil || library.LibraryCalls() == 0 {
		t.Fatal(library.LibraryCalls(), err)
	}
	t.Setenv(cuda.ModeVariable, "")
	r := openRig(t)
	if !strings.Contains(r.String(), "by our own kernels") {
		t.Fatal(r)
	}
	if got := multiply(r); bytes.Equal(got, want) {
		t.Error("our own kernels have the library's bits: this test shows nothing")
	}
	r = openRig(t)
	if err := r.Choose(record); err != nil {
		t.Fatal(err)
	}
	if got := multiply(r); !bytes.Equal(got, want) {
		t.Error("work that was begun with the library goes on with other bits")
	}
}
