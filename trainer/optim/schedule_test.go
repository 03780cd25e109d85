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

// average is a Shadow's twin over float64.
type average struct {
	Pace
	weights []float64
}

func (a *average) step(weights []float64) {
	decay, due := a.Next()
	if !due {
		return
	}
	for i, w := range weights {
		a.weights[i] += (1 - decay) * (w - a.weights[i])
	}
}

// TestAverage: a copy is the weights, a constant decay their geometric mean.
func TestAverage(t *testing.T) {
	o := Defaults()
	o.EMA, o.EMAShape = 0.5, Decay{Kind: "constant", Copy: 1}
	a := average{o.Pace(), []float64{100}}
	for i, want := range []float64{8, 4, 2, 1} {
		if a.step([]float64{[]float64{8, 0, 0, 0}[i]}); a.weights[0] != want {
			t.Errorf("step %d: %v, want %v", i, a.weights[0], want)
		}
	}
	o.EMAEvery = 3
	a = average{o.Pace(), []float64{0}}
	var seen []float64
	for range 6 {
		a.step([]float64{1})
		seen = append(seen, a.weights[0])
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

// TestPublishedRamps at the steps where each turns: DiffusionNFT's old policy,
// and the old network of Flow-Factory's CRD.
func TestPublishedRamps(t *testing.T) {
	slow, late := Decay{Kind: "ramp", Rate: 0.001}, Decay{Kind: "ramp", Rate: 0.0075, Copy: 76}
	begun, flat := Decay{Kind: "ramp", Start: 0.25, Rate: 0.005}, Decay{Kind: "ramp", Start: 0.25, Rate: 0.005, Flat: 20}
	for _, row := range []struct {
		Decay
		limit float64
		step  int
		want  float64
	}{{slow, 0.5, 0, 0}, {slow, 0.5, 100, 0.1}, {slow, 0.5, 900, 0.5}, {late, 0.999, 75, 0}, {late, 0.999, 76, 0.0075}, {late, 0.999, 1000, 0.999},
		{flat, 0.999, 0, 0.25}, {flat, 0.999, 19, 0.25}, {flat, 0.999, 20, 0.25}, {flat, 0.999, 120, 0.75}, {flat, 0.5, 120, 0.5},
		{begun, 0.999, 0, 0.25}, {begun, 0.999, 100, 0.75}, {begun, 0.999, 200, 0.999}} {
		if got := row.At(row.limit, row.step); !near(got, row.want, 1e-15) {
			t.Errorf("%+v at %d: %v", row, row.step, got)
		}
	}
}
