//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// newHopper is a rig on the double of a device of compute capability 9.0, as if the check of its kernels had passed: it
// is a third of such a test.
func newHopper(t *testing.T) (*rig, *double.Control) {
	t.Helper()
	c := double.New(t)
	c.Set(13000, 1, 90, 2<<30)
	return openHopper(t), c
}

// openHopper is openRig without the check of kernels for Hopper.
func openHopper(t *testing.T) *rig {
	t.Helper()
	b, err := cuda.OpenUnchecked(os.Getenv(cuda.ModeVariable))
	return rigOf(t, b, err)
}

// TestHopper: the check of the kernels passes, and attention by wgmma is near to ref, as tensor cores are held.
func TestHopper(t *testing.T) {
	double.New(t).Set(13000, 1, 90, 2<<30)
	r := openRig(t)
	if !r.HopperRuns() || !r.HopperMultiplies() || !r.HopperGradients() {
		t.Fatal(r)
	}
	// Cases with a bias or a head dimension above 128 take other kernels, operands of fp32 are copied first, and
	// small blocks of many heads are slow on threads of the host: TestTensorCores and TestHardware have them.
	kerneltest.RunNear(t, r.Backend, func(c kerneltest.Case) float64 {
		for _, name := range []string{"2x2x32x33x80", "1x1x70x40x33", "1x2x64x256x16", "65x255x160", "40x257x128", "1x40x1x70", "3x6x1x300"} {
			if strings.Contains(c.Name, name) {
				return -1
			}
		}
		if !strings.HasPrefix(c.Op, "Attention") || !strings.HasPrefix(c.Name, "bf16/bf16") {
			return -1
		}
		return kerneltest.TensorCores(c)
	})
}

// TestHopperBits: a query's bits, and a key's, do not depend on batch and place, nor on how operands lie.
func TestHopperBits(t *testing.T) {
	r, _ := newHopper(t)
	testAttentionBits(r)
}

// attended is an attention of one sample, forward and backward, of some of its queries.
type attended struct{ o, lse, dq, dk, dv []byte }

func (r *rig) attend(q, g, k, v kernels.Span, sk, d, from, n int, lens []int32) attended {
	heads := func(x kernels.Span, s int) kernels.Heads { return kernels.NewHeads(x, 1, s, 1, d) }
	zeros := func(s int) kernels.Heads { return heads(r.zeros(kernels.F32, s*d), s) }
	a := kernels.AttentionBackward{Attention: kernels.Attention{Math: kernels.MathBF16, Scale: 0.1, KeyLens: lens, Q: heads(q.Slice(from*d, (from+n)*d), n), K: heads(k, sk), V: heads(v, sk),
		O: zeros(n), LSE: r.zeros(kernels.F32, n)}, DO: heads(g.Slice(from*d, (from+n)*d), n), DQ: zeros(n), DK: zeros(sk), DV: zeros(sk), Delta: r.zeros(kernels.F32, n)}
	r.Attention(&a.Attention)
	r.AttentionBackward(&a)
	return attended{r.bytes(a.O.Span), r.bytes(a.LSE), r.bytes(a.DQ.Span), r.bytes(a.DK.Span), r.bytes(a.DV.Span)}
}

// TestHopperQueries: a query alone has the bits that it has among others, in another block of rows; and what
// lies beyond a sample's keys reaches nothing, NaN or not.
func TestHopperQueries(t *testing.T) {
	r, _ := newHopper(t)
	testQueryAlone(r)
}

func testQueryAlone(r *rig) {
	r.t.Helper()
	for _, d := range []int{64, 128} {
		const sq, sk, n = 140, 530, 523 // five tiles of keys, three of queries
		q, _ := r.span(kernels.BF16, sq*d, 0)
		g, _ := r.span(kernels.BF16, sq*d, 0)
		k, _ := r.span(kernels.BF16, sk*d, 0)
		v, _ := r.span(kernels.BF16, sk*d, 0)
		lens := []int32{n}
		all := r.attend(q, g, k, v, sk, d, 0, sq, lens)
		for _, i := range []int{0, 77, sq - 1} {
			one := r.attend(q, g, k, v, sk, d, i, 1, lens)
			if !bytes.Equal(one.o, all.o[4*i*d:4*(i+1)*d]) || !bytes.Equal(one.lse, all.lse[4*i:4*i+4]) || !bytes.Equal(one.dq, all.dq[4*i*d:4*(i+1)*d]) {
				r.t.Errorf("d %d: query %d alone has other bits", d, i)
			}
		}
		wild := make([]byte, 0, 2*(sk-n)*d)
		for range (sk - n) * d {
			wild = binary.LittleEndian.AppendUint16(wild, ref.ToBF16(float32(math.NaN())))
		}
		for _, x := range []kernels.Span{k, v} {
			r.Upload(x.Slice(n*d, sk*d), wild)
		}
		got := r.attend(q, g, k, v, sk, d, 0, sq, lens)
		for name, x := range map[string][2][]byte{"O": {got.o, all.o}, "DQ": {got.dq, all.dq}, "DK": {got.dk, all.dk}, "DV": {got.dv, all.dv}} {
			if !bytes.Equal(x[0], x[1]) {
				r.t.Errorf("d %d: %s changes with what lies beyond the sample's keys", d, name)
			}
		}
	}
}

// TestHopperFew: the last queries of a sequence, alone, have the bits that they have among all, where a block has
// those of all heads that share keys.
func TestHopperFew(t *testing.T) {
	r, _ := newHopper(t)
	testFewQueries(r)
}

func testFewQueries(r *rig) {
	r.t.Helper()
	const batch, sq, sk, h, kh = 2, 30, 150, 6, 2
	for _, d := range []int{40, 128} {
		q, _ := r.span(kernels.BF16, batch*sq*h*d, 0)
		k, _ := r.span(kernels.BF16, batch*sk*kh*d, 0)
		v, _ := r.span(kernels.BF16, batch*sk*kh*d, 0)
		attend := func(last int) (o, lse []byte) {
			few := kernels.Heads{Span: q.Slice((sq-last)*h*d, q.Len), B: batch, S: last, H: h, D: d, SB: sq * h * d, SS: h * d, SH: d}
			a := kernels.Attention{Math: kernels.MathBF16, Scale: 0.1, Causal: true, KeyLens: []int32{sk, sk - 3}, Q: few,
				K: kernels.NewHeads(k, batch, sk, kh, d), V: kernels.NewHeads(v, batch, sk, kh, d),
				O: kernels.NewHeads(r.zeros(kernels.BF16, batch*last*h*d), batch, last, h, d), LSE: r.zeros(kernels.F32, batch*h*last)}
			r.Attention(&a)
			return r.bytes(a.O.Span), r.bytes(a.LSE)
		}
		all, sums := attend(sq)
		for _, last := range []int{1, 5, 21} {
			o, lse := attend(last)
			for b := range batch {
				if n := 2 * last * h * d; !bytes.Equal(o[b*n:(b+1)*n], all[(b+1)*sq*2*h*d-n:(b+1)*sq*2*h*d]) {
					r.t.Errorf("d %d: the last %d queries of sample %d alone have other bits", d, last, b)
				}
				for x := b * h; x < (b+1)*h; x++ {
					if !bytes.Equal(lse[4*x*last:4*(x+1)*last], sums[4*((x+1)*sq-last):4*(x+1)*sq]) {
						r.t.Errorf("d %d: the last %d queries of head %d alone have other sums", d, last, x)
					}
				}
			}
		}
	}
}

// TestHopperIsChecked: kernels that compute something else are not taken, and the backend says so; nor are they where
// they are not wanted.
func TestHopperIsChecked(t *testing.T) {
	c := double.New(t)
	for name, x := range map[string]struct {
		capability, wrong int
		mode, says, also  string
	}{
		"wrong products": {90, 1, "", "attention by mma.sync (the check of wgmma kernels failed: O[", "our own products by mma.sync (the check of wgmma kernels failed: C["},
		"not wanted":     {90, 0, "mma,own", "attention by mma.sync (DARKROOM_CUDA says mma)", "our own products by mma.sync (DARKROOM_CUDA says mma)"},
		"other device":   {80, 0, "", "kernels ptx", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.Set(13000, 1, x.capability, 1<<30)
			c.Wrong(x.wrong)
			t.Setenv(cuda.ModeVariable, x.mode)
			if r := openRig(t); r.HopperRuns() || r.HopperMultiplies() || !strings.Contains(r.String(), x.says) || !strings.Contains(r.String(), x.also) {
				t.Errorf("%s; want %q and %q in it", r, x.says, x.also)
			}
		})
	}
	t.Run("ranks", func(t *testing.T) { // all do without what one is without
		c.Set(13000, 2, 90, 1<<30)
		c.Wrong(0)
		r := openRig(t)
		c.Wrong(1)
		other, err := cuda.Open(1)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := cuda.Alike(r.Backend, other); err != nil || r.HopperRuns() || r.HopperMultiplies() || !strings.Contains(r.String(), "cuda:1 is without wgmma") {
			t.Errorf("%s, %v", r, err)
		}
	})
}

// TestHopperRecord: work goes on with the attention that it was begun with, or not at all.
func TestHopperRecord(t *testing.T) {
	r, c := newHopper(t)
	record := func(r *rig) []byte {
		text, _, err := r.Choices()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	with := record(r)
	if !strings.Contains(string(with), `"attention": "wgmma"`) || !strings.Contains(string(with), `"own": "wgmma,ex2.approx"`) || !strings.Contains(string(with), `"adapters": "wgmma"`) {
		t.Fatalf("%s", with)
	}
	if err := r.Choose(with); err != nil || !r.HopperRuns() || !r.HopperMultiplies() {
		t.Errorf("%v", err)
	}
	early, products := openHopper(t), `{"by": "own", "attention": "wgmma", "own": "wgmma,ex2.approx"}`
	if err := early.Choose([]byte(products)); err != nil || !early.HopperMultiplies() || strings.Contains(string(record(early)), "adapters") {
		t.Errorf("%v: %s goes on with pairs in the sums of products", err, products)
	}
	c.Set(13000, 1, 80, 2<<30)
	other := openHopper(t)
	without := record(other)
	if err := other.Choose(with); err == nil || !strings.Contains(err.Error(), "this device is of 8.0") {
		t.Errorf("%v", err)
	}
	if err := r.Choose(without); err != nil || r.HopperRuns() || r.HopperMultiplies() || !bytes.Equal(record(r), without) {
		t.Errorf("%v: what was begun by mma.sync goes on by wgmma", err)
	}
	for _, c := range [][2]string{{`"attention": "wgmma"`, "begun with it"}, {`"own": "wgmma,ex2.approx"`, "begun with it"},
		{`"own": "wgmma"`, "with exact activations"},
		{`"adapters": "wgmma"`, "begun with it"}, {`"attention": "wgmma,ex2.approx"`, "which is unknown"}} {
		if err := r.Choose([]byte(`{"by": "own", ` + c[0] + `}`)); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v", c[0], err)
		}
	}
}
