package model

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
)

// TestRuns: a rank has a subtree where these are about alike, and where gradients are too large to travel; otherwise a
// run of about as many shards as the others'.
func TestRuns(t *testing.T) {
	small := []*autograd.Param{autograd.NewPacked("w", []int{8, 8}, nil, &kernels.Packed{})}
	large := []*autograd.Param{autograd.NewPacked("w", []int{1 << 15, 1 << 15}, nil, &kernels.Packed{})}
	for _, c := range []struct {
		shards, ranks int
		moved         []*autograd.Param
		most          int
		owned         bool
	}{
		{6, 3, small, 2, false}, {6, 3, large, 3, true}, {4, 3, small, 2, true}, {8, 4, small, 2, true}, {16, 5, small, 4, true}, {16, 6, small, 3, false}, {7, 1, small, 7, true},
	} {
		got, owned, next, most, same := Runs(c.shards, c.ranks, c.moved), exchange.Owned(c.shards, c.ranks), 0, 0, true
		for r, run := range got {
			if run.Lo != next {
				t.Errorf("%+v: %v", c, got)
			}
			next, most, same = run.Hi, max(most, run.Hi-run.Lo), same && run == owned[r]
		}
		if next != c.shards || most != c.most || same != c.owned || len(got) != c.ranks {
			t.Errorf("%d shards of %d ranks: %v, and subtrees are %v", c.shards, c.ranks, got, owned)
		}
	}
}
