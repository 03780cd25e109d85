package autograd

import (
	"errors"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestTokens: ranks' shares of a sequence of two parts, which are not of one length, become all tokens of their heads,
// which are not of one number, and come back; a gradient goes the same way.
func TestTokens(t *testing.T) {
	const ranks, batch, heads, dim = 3, 2, 5, 2
	parts := []int{4, 7}
	const all, cols = 11, heads * dim
	backends := slices.Repeat([]kernels.Backend{ref.Backend{}}, ranks)
	m := &exchange.Meeting{Ranks: backends, Wire: &exchange.Host{Ranks: backends}}
	x := make([]float32, batch*all*cols)
	for i := range x {
		x[i] = float32(i + 1)
	}
	team := exchange.Team{Stop: func() { m.Abort(errors.New("another rank has failed")) }}
	err := team.Each(ranks, func(r int) error {
		pool := tensor.NewPool(backends[r])
		tp := New(pool, Options{Train: true, Tokens: &Tokens{Rank: r, Ranks: ranks, Meeting: m}})
		defer tp.Reset()
		leaf := pool.FromF32(kernels.F32, x, batch, all, cols)
		defer leaf.Free()
		v := tp.Variable(leaf)
		own := tp.OwnTokens(v, parts...)
		if n := map[int]int{0: 1 + 2, 1: 1 + 2, 2: 2 + 3}[r]; own.Dim(1) != n {
			t.Errorf("rank %d has %d tokens, want %d", r, own.Dim(1), n)
		}
		here := tp.ToHeads(own, heads, parts...)
		if here.Dim(1) != all || here.Dim(2) != tp.HeadsHere(heads)*dim {
			t.Errorf("rank %d has %v in attention", r, here.Shape())
		}
		first, each := r*heads/ranks*dim, here.Dim(2)
		for i, got := range here.F32() {
			if want := x[i/each*cols+first+i%each]; got != want {
				t.Fatalf("rank %d has %g at %d of its heads, want %g", r, got, i, want)
			}
		}
		y := tp.AllTokens(tp.ToTokens(here, heads, parts...), parts...)
		if !slices.Equal(y.F32(), x) {
			t.Errorf("rank %d has %v behind attention", r, y.F32())
		}
		tp.Backward(Seed{Of: y, Grad: x})
		have := 0
		for i, g := range v.Grad().F32() { // its own tokens'
			if g != 0 && g != x[i] {
				t.Fatalf("rank %d has the gradient %g at %d, want %g or none", r, g, i, x[i])
			}
			if g != 0 {
				have++
			}
		}
		if have != own.Dim(1)*batch*cols {
			t.Errorf("rank %d has a gradient of %d numbers, of %d tokens", r, have, own.Dim(1))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tp := New(tensor.NewPool(ref.Backend{}), Options{})
	defer tp.Reset()
	v := tp.Upload("x", x, batch, all, cols)
	if tp.ToHeads(v, heads, parts...) != v || tp.ToTokens(v, heads, parts...) != v || tp.OwnTokens(v, parts...) != v || tp.AllTokens(v, parts...) != v {
		t.Error("a tape of one rank copies")
	}
}
