package exchange

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// TestSum: every rank's result has the bits of kerneltest.Sum, whatever the piece; and the order of ranks decides
// them.
func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for _, ranks := range []int{2, 3, 8} {
		for _, piece := range []int{0, 1, 7, 64} {
			t.Run(fmt.Sprintf("%d ranks, pieces of %d", ranks, piece), func(t *testing.T) {
				var backends []kernels.Backend
				parts := make([][][]float32, ranks)
				spans := make([][]kernels.Span, ranks)
				for k := range ranks {
					backends = append(backends, ref.Backend{})
					for _, n := range []int{1, 64, 0, 129} {
						x := numbers(r, n)
						parts[k], spans[k] = append(parts[k], x), append(spans[k], span(x))
					}
				}
				s := Sum{Ranks: backends, Wire: &Host{Ranks: backends}, Piece: piece}
				if err := s.Add(spans); err != nil {
					t.Fatal(err)
				}
				turned := false
				for k := range parts[0] {
					var of [][]float32
					for _, p := range parts {
						of = append(of, p[k])
					}
					want := kerneltest.Sum(of)
					for rank := range spans {
						if got := spans[rank][k].F32(); !equal(got, want) {
							t.Fatalf("rank %d has %v, want %v", rank, got, want)
						}
					}
					slices.Reverse(of)
					turned = turned || !equal(kerneltest.Sum(of), want)
				}
				if ranks > 2 && !turned {
					t.Error("the order of ranks made no difference: the test's numbers cannot tell orders apart")
				}
			})
		}
	}
}

// TestSumOfShards: ranks of any number that have subtrees of eight shards are left with the bits of the whole tree.
func TestSumOfShards(t *testing.T) {
	const shards, n = 8, 100
	r := rand.New(rand.NewPCG(5, 1))
	parts := make([][]float32, shards)
	for k := range parts {
		parts[k] = numbers(r, n)
	}
	var node func(lo, hi int) []float32
	node = func(lo, hi int) []float32 {
		if hi-lo == 1 {
			return parts[lo]
		}
		mid := Middle(lo, hi)
		return kerneltest.Sum([][]float32{node(lo, mid), node(mid, hi)})
	}
	want := node(0, shards)
	if equal(kerneltest.Sum(parts), want) {
		t.Error("a chain has the same bits: the test's numbers cannot tell orders apart")
	}
	for ranks := 2; ranks <= shards; ranks++ {
		var backends []kernels.Backend
		var spans [][]kernels.Span
		next := 0
		for _, own := range Owned(shards, ranks) {
			if own.Lo != next || own.Hi <= own.Lo {
				t.Fatalf("%d ranks own %v", ranks, Owned(shards, ranks))
			}
			next = own.Hi
			backends, spans = append(backends, ref.Backend{}), append(spans, []kernels.Span{span(slices.Clone(node(own.Lo, own.Hi)))})
		}
		if next != shards {
			t.Fatalf("%d ranks own %v", ranks, Owned(shards, ranks))
		}
		s := Sum{Ranks: backends, Wire: &Host{Ranks: backends}, Piece: 33, Shards: shards}
		if err := s.Add(spans); err != nil {
			t.Fatal(err)
		}
		for rank := range spans {
			if !equal(spans[rank][0].F32(), want) {
				t.Errorf("rank %d of %d has other bits", rank, ranks)
			}
		}
	}
}

// numbers of many sizes, with denormals and zeros of both signs.
func numbers(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(12)))
		switch r.IntN(12) {
		case 0:
			x[i] = float32(math.Copysign(0, r.NormFloat64()))
		case 1:
			x[i] = math.Float32frombits(r.Uint32() & 0x807f_ffff)
		case 2: // beside the smallest normal, where sums of them are flushed
			x[i] = math.Float32frombits(r.Uint32()&0x8000_0000 | 0x0080_0000 | r.Uint32()&0xff)
		}
	}
	return x
}

func span(x []float32) kernels.Span {
	if len(x) == 0 {
		return kernels.Span{DType: kernels.F32}
	}
	s := kernels.Span{Buf: ref.Backend{}.Alloc(4 * len(x)), Len: len(x), DType: kernels.F32}
	copy(s.F32(), x)
	return s
}

func equal(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// TestRefusals: operands that do not fit together are named, and nothing is moved.
func TestRefusals(t *testing.T) {
	two := []kernels.Backend{ref.Backend{}, ref.Backend{}}
	a, b := span([]float32{1, 2}), span([]float32{3})
	bytes := kernels.Span{Buf: a.Buf, Len: 2, DType: kernels.I32}
	for name, x := range map[string]struct {
		spans [][]kernels.Span
		says  string
	}{
		"one rank":        {[][]kernels.Span{{a}}, "1 ranks"},
		"a rank too many": {[][]kernels.Span{{a}, {a}, {a}}, "3 ranks"},
		"missing":         {[][]kernels.Span{{a}, {}}, "rank 1 has 0 gradients"},
		"lengths":         {[][]kernels.Span{{a}, {b}}, "1 numbers of f32 on rank 1, and 2"},
		"types":           {[][]kernels.Span{{a}, {bytes}}, "2 numbers of i32 on rank 1"},
	} {
		err := (&Sum{Ranks: two, Wire: &Host{Ranks: two}}).Add(x.spans)
		if err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v; want %q in it", name, err, x.says)
		}
	}
	if x := a.F32(); x[0] != 1 || x[1] != 2 {
		t.Errorf("a refusal changed its operands: %v", x)
	}
	for name, x := range map[string]struct {
		from, into []kernels.Span
		says       string
	}{
		"ranks":   {[]kernels.Span{a}, []kernels.Span{a}, "among 2 ranks"},
		"pieces":  {[]kernels.Span{a, b}, []kernels.Span{a, a}, "rank 0 has room for 2"},
		"unequal": {[]kernels.Span{b, a}, []kernels.Span{a, a}, "rank 1 has a piece of 2"},
		"room":    {[]kernels.Span{b, b}, []kernels.Span{a, b}, "rank 1 has room for 1"},
		"types":   {[]kernels.Span{b, bytes.Slice(0, 1)}, []kernels.Span{a, a}, "i32 of rank 1"},
	} {
		err := (&Host{Ranks: two}).Gather(x.from, x.into)
		if err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("gathering, %s: %v; want %q in it", name, err, x.says)
		}
	}
}

// TestNodes: nodes of a run are those of the tree of all shards, in order, and cover the run; none could be joined.
func TestNodes(t *testing.T) {
	inTree := func(shards int, n Subtree) bool {
		at := Subtree{0, shards}
		for at != n && at.Hi-at.Lo > 1 {
			if mid := Middle(at.Lo, at.Hi); n.Lo < mid {
				at.Hi = mid
			} else {
				at.Lo = mid
			}
		}
		return at == n
	}
	for shards := 1; shards <= 16; shards++ {
		for ranks := 1; ranks <= shards; ranks++ {
			for r := range ranks {
				var run Subtree
				run.Lo, run.Hi = Share(r, ranks, shards)
				next, nodes := run.Lo, Nodes(shards, run)
				for i, n := range nodes {
					if n.Lo != next || !inTree(shards, n) || i > 0 && inTree(shards, Subtree{nodes[i-1].Lo, n.Hi}) {
						t.Errorf("run %v of %d shards: %v", run, shards, nodes)
					}
					next = n.Hi
				}
				if next != run.Hi {
					t.Errorf("run %v of %d shards: %v", run, shards, nodes)
				}
			}
		}
	}
}
