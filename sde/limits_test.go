package sde

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Numbers that make no sense are answered, and neither divide by 0, nor hang, nor index out of range.

func TestStridesOfNothing(t *testing.T) {
	for _, stride := range []int{0, -3} {
		for step := range 6 {
			if InMixedWindow(step, 6, 1, stride) != InMixedWindow(step, 6, 1, 1) || InMixedWindow(step, 6, 0, stride) {
				t.Errorf("stride %d, step %d", stride, step)
			}
		}
	}
	for step, want := range []bool{true, true, false, true, true, false, true} {
		if InMixedWindow(step, 7, 2, 3) != want {
			t.Errorf("step %d of windows of 2 in 3", step)
		}
	}
	if InMixedWindow(7, 7, 9, 3) || !InMixedWindow(6, 7, math.MaxInt, 3) {
		t.Error("the last step is the last, however long the window is")
	}
	tree, advantages := grown(6, []int{0, 1})
	for _, every := range []int{0, -1} {
		p := Pruning{Depths: []int{5}, Slide: true, SlideEvery: every, StopDepth: 2, Until: 1, Mixed: true, MixedWindow: 1}
		one := p
		one.SlideEvery = 1
		if got, want := p.Kept(tree, advantages, []int{0, 1}, 6, 2, 10), one.Kept(tree, advantages, []int{0, 1}, 6, 2, 10); !slices.Equal(got, want) {
			t.Errorf("a move every %d updates keeps %v, every one %v", every, got, want)
		}
	}
	odd := &Tree{Parent: []int{-1, 0, 1}, Step: []int{5, 6, 7}, Depth: []int{0, 1, 2}}
	if kept := (Pruning{Width: "branch", Ratio: 1, Until: 1}).Kept(odd, []float64{0, 1, 2}, []int{0}, 9, 0, 1); len(kept) != 2 {
		t.Error("a tree that begins late:", kept)
	}
}

func TestSchedulesOfNoSteps(t *testing.T) {
	for _, steps := range []int{0, -4} {
		for name, s := range map[string]Schedule{"unipc": FlowUniPC(3, steps, true), "dpm": FlowDPM(3, steps, true), "static": Static(3, steps), "heun": FlowHeun(3, steps)} {
			if s.Steps() != 0 || len(s.Timesteps) != 0 {
				t.Errorf("%s of %d steps: %v", name, steps, s)
			}
		}
		if s, err := Flow(DefaultFlow(), steps, nil, 0); err == nil {
			t.Errorf("a flow of %d steps: %v", steps, s)
		}
	}
	if s := FlowUniPC(3, 1, false); s.Steps() != 1 {
		t.Error("unipc of one step:", s)
	}
}

func TestNoiseLevelsThatAreNone(t *testing.T) {
	for name, change := range map[string]func(*VPOptions){
		"zero-SNR of one step":   func(o *VPOptions) { o.TrainSteps, o.ZeroSNR = 1, true },
		"zero-SNR without noise": func(o *VPOptions) { o.BetaStart, o.BetaEnd, o.ZeroSNR = 0, 0, true },
		"a negative beta":        func(o *VPOptions) { o.BetaStart = -0.1 },
		"the root of one":        func(o *VPOptions) { o.Betas, o.BetaStart = "scaled_linear", -0.1 },
		"a beta above 1":         func(o *VPOptions) { o.BetaEnd = 1.5 },
		"NaN":                    func(o *VPOptions) { o.BetaEnd = math.NaN() },
	} {
		o := DefaultVP()
		change(&o)
		if _, shares, err := o.NoiseLevels(); err == nil {
			t.Errorf("%s: %v", name, shares[:1])
		}
	}
	o := DefaultVP()
	o.TrainSteps = 1
	if _, shares, err := o.NoiseLevels(); err != nil || len(shares) != 1 || math.IsNaN(shares[0]) {
		t.Error("one step without rescaling:", shares, err)
	}
}

// Windows with numbers near the largest ones end, and hold the same as the smallest such
// number would.
func TestWindowsDoNotOverflow(t *testing.T) {
	done := make(chan bool)
	go func() {
		defer close(done)
		for _, o := range windows() {
			for _, field := range []func(*WindowOptions) *int{
				func(o *WindowOptions) *int { return &o.Size }, func(o *WindowOptions) *int { return &o.Every }, func(o *WindowOptions) *int { return &o.Stride },
				func(o *WindowOptions) *int { return &o.Overlap }, func(o *WindowOptions) *int { return &o.From }, func(o *WindowOptions) *int { return &o.Drop },
				func(o *WindowOptions) *int { return &o.MinEvery }, func(o *WindowOptions) *int { return &o.MaxEvery }, func(o *WindowOptions) *int { return &o.DecayFrom },
			} {
				large, larger := o, o
				*field(&large), *field(&larger) = math.MaxInt-1, math.MaxInt
				for _, i := range []int{0, 7, math.MaxInt} {
					a, b := large.Steps(8, i, func(int) int { return 0 }), larger.Steps(8, i, func(int) int { return 0 })
					if !slices.Equal(a, b) {
						t.Errorf("%+v at %d: %v and %v", larger, i, a, b)
					}
					for _, s := range b {
						if s < 0 || s >= 8 {
							t.Errorf("%+v at %d: %v", larger, i, b)
						}
					}
				}
				larger.Reach(8)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("a window hangs")
	}
}

// A window holds each of its possible steps at some iteration.
func TestReach(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, o := range windows() {
		for steps := 5; steps < 10; steps++ {
			seen := []int{}
			for i := range 400 {
				seen = append(seen, o.Steps(steps, i, r.IntN)...)
			}
			slices.Sort(seen)
			seen = slices.Compact(seen)
			if got := o.Reach(steps); !slices.Equal(got, seen) {
				t.Errorf("%+v of %d steps: %v, but %v are held", o, steps, got, seen)
			}
		}
	}
	none := DefaultWindow()
	none.Kind, none.Fraction = "subset", 0.01
	if got := none.Reach(5); len(got) != 0 {
		t.Error("a subset of nothing reaches", got)
	}
	none.Kind = "random"
	if got := none.Reach(5); len(got) != 0 {
		t.Error("a random window of no steps reaches", got)
	}
}
