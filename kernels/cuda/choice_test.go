//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
)

// alike are rigs on so many devices of the double, which decide together.
func alike(t *testing.T, c *double.Control, n int) []*rig {
	t.Helper()
	var rigs []*rig
	var all []*cuda.Backend
	for i := range n {
		b, err := cuda.Open(i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		all, rigs = append(all, b), append(rigs, &rig{b, t, rand.New(rand.NewPCG(1, 2))})
	}
	if err := cuda.Alike(all...); err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if strings.Contains(b.String(), "by cuBLASLt") {
			b.SetLibrary(1, 64)
		}
	}
	return rigs
}

// TestAgreement: several ranks have one algorithm for a shape, or none has any: a library that breaks its
// promise on one rank alone computes nothing on the others, whichever rank comes to the shape first.
func TestAgreement(t *testing.T) {
	const m, n, k = 20, 24, 128
	product := func(r *rig) []byte {
		a, _ := r.span(kernels.BF16, m*k, 0)
		w, _ := r.span(kernels.BF16, n*k, 0)
		return r.linear(kernels.NewMat(a, m, k), r.Pack(kernels.NewMat(w, n, k), kernels.MathBF16), false)
	}
	c := newProducts(t)
	alone := product(openLibraryRig(t)) // as one device has it
	t.Setenv(cuda.ModeVariable, "own")
	own := product(openRig(t))
	t.Setenv(cuda.ModeVariable, "")
	for _, x := range []struct {
		name   string
		fault  double.Fault
		device int
		faulty int
		begins []int  // the rank that comes to the shape first
		says   string // of our own kernel; "" where the library computes
	}{
		{"none", 0, 0, 0, []int{0, 1}, ""},
		{"rank 0's first", double.ByBatch, 0, 1, []int{1}, ""},
		{"rank 1's first", double.ByBatch, 1, 1, []int{0, 1}, ""},
		{"rank 1's alone differs", double.ByDevice, 1, 3, []int{0}, "cuda:1: the same product has other bits than on cuda:0"},
		{"rank 0's all", double.ByPlace, 0, 3, []int{1}, "cuda:0: a row's bits depend on its batch"},
		{"rank 1's all", double.ByPlace, 1, 3, []int{0}, "cuda:1: a row's bits depend on its batch"},
		{"rank 1 is wrong", double.Wrong, 1, 3, []int{1}, "cuda:1: the library's product is wrong"},
		{"rank 1 refuses", double.Refuses, 1, 3, []int{0}, "cuda:1: 5 rows"},
	} {
		for _, begins := range x.begins {
			t.Run(fmt.Sprintf("%s, rank %d begins", x.name, begins), func(t *testing.T) {
				c.Set(13000, 2, 120, 2<<30)
				c.SetProducts(130401, x.fault, x.faulty)
				c.OnlyOn(x.device)
				rigs := alike(t, c, 2)
				got := make([][]byte, 2)
				got[begins] = product(rigs[begins])
				got[1-begins] = product(rigs[1-begins])
				if !bytes.Equal(got[0], got[1]) {
					t.Error("ranks have other bits")
				}
				byLibrary := rigs[0].LibraryCalls() == 1 && rigs[1].LibraryCalls() == 1
				if byLibrary != (x.says == "") || byLibrary == bytes.Equal(got[0], own) || bytes.Equal(got[0], alone) != (x.fault == 0) {
					t.Errorf("the library computed %d and %d products", rigs[0].LibraryCalls(), rigs[1].LibraryCalls())
				}
				record, news, err := rigs[0].Choices()
				if err != nil || (len(news) == 1) != (x.says != "") || x.says != "" && !strings.Contains(news[0], x.says) {
					t.Errorf("%q, %v", news, err)
				}
				// Work that goes on does so with what is recorded, on all ranks.
				c.SetProducts(130401, 0, 0)
				rigs = alike(t, c, 2)
				if err := rigs[0].Choose(record); err != nil {
					t.Fatal(err)
				}
				if again := [][]byte{product(rigs[1]), product(rigs[0])}; !bytes.Equal(again[0], got[0]) || !bytes.Equal(again[1], got[0]) {
					t.Error("work that goes on has other bits")
				}
				if after, _, err := rigs[0].Choices(); err != nil || !bytes.Equal(after, record) {
					t.Errorf("the record was\n%s, and is\n%s, %v", record, after, err)
				}
			})
		}
	}
	t.Run("no longer", func(t *testing.T) { // the run's algorithm breaks its promise on rank 1 since
		c.SetProducts(130401, 0, 0)
		rigs := alike(t, c, 2)
		product(rigs[0])
		record, _, _ := rigs[0].Choices()
		c.SetProducts(130401, double.ByPlace, 3)
		c.OnlyOn(1)
		rigs = alike(t, c, 2)
		if err := rigs[0].Choose(record); err != nil {
			t.Fatal(err)
		}
		var err error
		func() {
			defer kernels.Recover(&err)
			product(rigs[0])
		}()
		if err == nil || !strings.Contains(err.Error(), "no longer keeps its promise: cuda:1: ") {
			t.Errorf("%v", err)
		}
	})
	t.Run("side by side", func(t *testing.T) { // many shapes, both ranks at once, in different orders
		c.SetProducts(130401, double.ByBatch, 1)
		rigs := alike(t, c, 2)
		sums := [2]map[int][]byte{{}, {}}
		var all sync.WaitGroup
		for r, on := range rigs {
			all.Go(func() {
				for i := range 6 {
					n := 24 + 8*(i*(1+4*r)%6)
					x, w := on.zeros(kernels.BF16, 4*64), on.zeros(kernels.BF16, n*64)
					for j, s := range []kernels.Span{x, w} {
						on.Normal(&kernels.Normal{Key: uint64(n), Stream: uint64(j), Y: s})
					}
					sums[r][n] = on.linear(kernels.NewMat(x, 4, 64), on.Pack(kernels.NewMat(w, n, 64), kernels.MathBF16), false)
				}
			})
		}
		all.Wait()
		for n, sum := range sums[0] {
			if !bytes.Equal(sum, sums[1][n]) {
				t.Errorf("[%d,64]: ranks have other bits", n)
			}
		}
		if len(sums[0]) != 6 || rigs[0].LibraryCalls() != 6 || rigs[1].LibraryCalls() != 6 {
			t.Errorf("%d shapes; the library computed %d and %d products", len(sums[0]), rigs[0].LibraryCalls(), rigs[1].LibraryCalls())
		}
	})
}
