package optim

import (
	"slices"
	"strings"
	"testing"
)

func TestRate(t *testing.T) {
	for _, kind := range []string{"constant", "linear", "cosine", "cosine_with_restarts", "polynomial"} {
		o := Defaults()
		o.LR, o.Schedule, o.Warmup, o.Steps = 0.5, kind, 4, 20
		for i := range 4 {
			if got, want := o.Rate(i), 0.5*float64(i)/4; got != want {
				t.Errorf("%s: warm-up %d: %v, want %v", kind, i, got, want)
			}
		}
		if o.Rate(4) != 0.5 {
			t.Errorf("%s: %v after the warm-up, want lr", kind, o.Rate(4))
		}
		for i := 4; i < 20; i++ {
			if o.Rate(i+1) > o.Rate(i) || o.Rate(i+1) < 0 {
				t.Errorf("%s: %v at %d, then %v", kind, o.Rate(i), i, o.Rate(i+1))
			}
		}
	}
	linear, polynomial := Defaults(), Defaults()
	linear.Schedule, linear.Steps = "linear", 10
	polynomial.Schedule, polynomial.Steps, polynomial.End = "polynomial", 10, 0
	for i := range 15 {
		if !near(linear.Rate(i), polynomial.Rate(i), 1e-15) {
			t.Errorf("%d: linear %v, polynomial %v", i, linear.Rate(i), polynomial.Rate(i))
		}
	}
	again := Defaults()
	again.Schedule, again.Steps, again.Cycles = "cosine_with_restarts", 12, 3
	if again.Rate(4) != again.LR || again.Rate(3) >= again.Rate(4) || again.Rate(12) != 0 {
		t.Errorf("restarts: %v %v %v", again.Rate(3), again.Rate(4), again.Rate(12))
	}
}

// TestDecayStays: no kind leaves [0, limit] or falls.
func TestDecayStays(t *testing.T) {
	for _, kind := range []string{"constant", "power", "inverse_gamma", "linear", "ramp", "cosine"} {
		for _, copies := range []int{0, 1, 7} {
			d := DefaultDecay()
			d.Kind, d.Copy, d.Start = kind, copies, 0.3
			if d.Steps = 40; kind == "cosine" {
				d.Warmup = 0
			}
			last := 0.0
			for step := range 200 {
				now := d.At(0.95, step)
				if now < last || now > 0.95 || step < copies && now != 0 {
					t.Fatalf("%s, copy %d: %v at step %d after %v", kind, copies, now, step, last)
				}
				last = now
			}
			if kind != "ramp" && last < 0.94 {
				t.Errorf("%s reaches only %v", kind, last)
			}
		}
	}
}

// TestAverage: a copy is the weights, a constant decay their geometric mean.
func TestAverage(t *testing.T) {
	o := Defaults()
	o.EMA, o.EMAShape = 0.5, Decay{Kind: "constant", Copy: 1}
	a := NewAverage(o, []float64{100})
	for i, want := range []float64{8, 4, 2, 1} {
		if a.Step([]float64{[]float64{8, 0, 0, 0}[i]}); a.Weights[0] != want {
			t.Errorf("step %d: %v, want %v", i, a.Weights[0], want)
		}
	}
	o.EMAEvery = 3
	a = NewAverage(o, []float64{0})
	var seen []float64
	for range 6 {
		a.Step([]float64{1})
		seen = append(seen, a.Weights[0])
	}
	if want := []float64{0, 0, 0.5, 0.5, 0.5, 0.75}; !slices.Equal(seen, want) {
		t.Errorf("every third step: %v, want %v", seen, want)
	}
}

func TestCheck(t *testing.T) {
	for says, change := range map[string]func(*Options){
		"":                func(*Options) {},
		"warmup":          func(o *Options) { o.Schedule, o.Warmup, o.Steps = "linear", 10, 10 },
		"lr_end":          func(o *Options) { o.Schedule, o.End = "polynomial", 1 },
		"ema_shape.steps": func(o *Options) { o.EMA, o.EMAShape.Kind = 0.9, "cosine" },
	} {
		o := Defaults()
		change(&o)
		var keys []string
		o.Check(func(key, problem, hint string) { keys = append(keys, key) })
		if strings.Join(keys, " ") != says {
			t.Errorf("%q: reported %q", says, keys)
		}
	}
}

// TestNFTDecay at the steps where each kind turns.
func TestNFTDecay(t *testing.T) {
	for _, row := range []struct {
		number, step int
		want         float64
	}{{0, 500, 0}, {1, 0, 0}, {1, 100, 0.1}, {1, 900, 0.5}, {2, 75, 0}, {2, 76, 0.0075}, {2, 1000, 0.999}} {
		limit, d, ok := NFTDecay(row.number)
		if got := d.At(limit, row.step); !ok || !near(got, row.want, 1e-15) {
			t.Errorf("type %d at %d: %v, want %v", row.number, row.step, got, row.want)
		}
	}
	if _, _, ok := NFTDecay(3); ok {
		t.Error("type 3 exists")
	}
}
