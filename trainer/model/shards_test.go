package model

import (
	"errors"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
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

// scarce is a model without parameters whose memory runs out a number of times.
type scarce struct {
	Model
	params
	left int
}

// params note that their gradient is dropped.
type params struct {
	trainer.Params
	calls []string
}

func (p *params) Skip() { p.calls = append(p.calls, "skip") }

var errFull = errors.New("no memory is left")

func (s *scarce) Moved() []*autograd.Param { return nil }
func (s *scarce) Params() trainer.Params   { return &s.params }

func (s *scarce) Replay(at []trainer.Point, grads [][]float64) ([][]float64, error) {
	s.calls = append(s.calls, "pass")
	if s.left--; s.left >= 0 {
		return nil, errFull
	}
	return grads, nil
}

func (s *scarce) Attempt(f func() error) error {
	for {
		if err := f(); err != errFull {
			return err
		}
	}
}

// TestNodeAnew: where memory runs out in a node of a gradient, the node is computed anew, from no gradient.
func TestNodeAnew(t *testing.T) {
	s := &scarce{left: 1}
	if _, err := NodeOf(s, exchange.Subtree{Lo: 0, Hi: 2}, func(int) ([]Pass, error) { return make([]Pass, 1), nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"skip", "pass", "skip", "pass", "pass", "skip"}; !slices.Equal(s.calls, want) {
		t.Errorf("%q, not %q", s.calls, want)
	}
}
