package advantage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var missingReward = math.NaN()

func random(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

func of(t *testing.T, o Options, ids []int, rewards []float64) []float64 {
	t.Helper()
	a, err := o.Of(ids, rewards)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func close(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*(1+math.Abs(b))
}

func same(a, b []float64) bool { return slices.EqualFunc(a, b, close) }

// options are combinations of every setting that fit together.
func options() []Options {
	var all []Options
	for _, over := range []string{"group", "batch"} {
		for _, baseline := range []string{"mean", "others", "none"} {
			for _, scale := range []string{"group", "batch", "max_group", "inverse", "none"} {
				for ddof := range 2 {
					for _, mode := range []string{"add", "floor", "floor_add"} {
						o := Defaults()
						o.Over, o.Baseline, o.Scale, o.DDOF, o.Eps, o.EpsMode = over, baseline, scale, ddof, 1e-12, mode
						all = append(all, o)
					}
				}
			}
		}
	}
	return all
}

func TestInvariants(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ids := []int{4, 7, 4, 7, 4, 9, 9, 7, 4, 9}
	rewards := random(r, len(ids))
	for _, o := range options() {
		a := of(t, o, ids, rewards)
		moved, larger := make([]float64, len(ids)), make([]float64, len(ids))
		for i, v := range rewards {
			moved[i], larger[i] = v+3, 5*v
		}
		if m := of(t, o, ids, moved); o.Baseline != "none" && !same(a, m) {
			t.Errorf("%+v: a shift changed %v to %v", o, a, m)
		}
		times := map[string]float64{"none": 5, "inverse": 25}[o.Scale]
		for i, l := range of(t, o, ids, larger) {
			if want := a[i] * max(times, 1); math.Abs(l-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("%+v: a factor changed %v to %v", o, a[i], l)
			}
		}
		sums := map[int]float64{}
		for i := range a {
			if o.Over == "group" {
				sums[ids[i]] += a[i]
			} else {
				sums[0] += a[i]
			}
		}
		for g, s := range sums {
			if o.Baseline != "none" && math.Abs(s) > 1e-9 {
				t.Errorf("%+v: group %d adds up to %v", o, g, s)
			}
		}
	}
}

// Two prompts, [1 2 3 4] and [0 0 0 1], by the conventions of flow_grpo, DanceGRPO and
// verl-omni; and [1 0 0 1] by verl and TRL.
func TestPublished(t *testing.T) {
	two, ids := []float64{1, 2, 3, 4, 0, 0, 0, 1}, []int{0, 0, 0, 0, 1, 1, 1, 1}
	for _, c := range []struct {
		name, scale string
		ddof        int
		eps         float64
		want        []float64
	}{
		{"flow_grpo by prompt", "group", 0, 1e-4, []float64{-1.3415207972, -0.4471735991, 0.4471735991, 1.3415207972, -0.5772169666, -0.5772169666, -0.5772169666, 1.7316508999}},
		{"flow_grpo global", "batch", 0, 1e-4, []float64{-1.0647522261, -0.3549174087, 0.3549174087, 1.0647522261, -0.1774587044, -0.1774587044, -0.1774587044, 0.5323761131}},
		{"DanceGRPO", "group", 1, 1e-8, []float64{-1.1618949949, -0.3872983316, 0.3872983316, 1.1618949949, -0.49999999, -0.49999999, -0.49999999, 1.49999997}},
		{"verl-omni global", "batch", 1, 1e-4, []float64{-0.9959890741, -0.3319963580, 0.3319963580, 0.9959890741, -0.1659981790, -0.1659981790, -0.1659981790, 0.4979945371}},
	} {
		o := Defaults()
		o.Scale, o.DDOF, o.Eps = c.scale, c.ddof, c.eps
		for i, a := range of(t, o, ids, two) {
			if math.Abs(a-c.want[i]) > 2e-10 {
				t.Errorf("%s: sample %d has %.10f, want %.10f", c.name, i, a, c.want[i])
			}
		}
	}
	for eps, want := range map[float64]float64{1e-6: 0.866024, 1e-4: 0.865875} {
		o := Defaults()
		o.Eps = eps
		if a := of(t, o, make([]int, 4), []float64{1, 0, 0, 1}); math.Abs(a[0]-want) > 1e-6 || a[0] != -a[1] {
			t.Errorf("eps %v: %v, want ±%v", eps, a, want)
		}
	}
}

// Leave-one-out is n/(n-1) of the distance to the mean.
func TestOthers(t *testing.T) {
	rewards := []float64{1, 4, 2, 5}
	a := of(t, Options{Over: "group", Baseline: "others", Scale: "none"}, []int{0, 0, 0, 0}, rewards)
	for i, v := range rewards {
		others := 0.0
		for j, w := range rewards {
			if j != i {
				others += w / 3
			}
		}
		if !close(a[i], v-others) || !close(a[i], 4.0/3*(v-3)) {
			t.Errorf("%v: %v, want %v", v, a[i], v-others)
		}
	}
}

// The advantage of one sample alone, by baseline, scale and rule.
func TestSingleton(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want float64
	}{
		{Options{Baseline: "mean", Scale: "group", Eps: 1, Singleton: "zero"}, 0},
		{Options{Baseline: "mean", Scale: "batch", DDOF: 1, Eps: 1, Singleton: "zero"}, 0},
		{Options{Baseline: "others", Scale: "none", Singleton: "raw"}, 3},
		{Options{Baseline: "mean", Scale: "group", Eps: 0.5, Singleton: "unit"}, 2},
		{Options{Baseline: "mean", Scale: "group", Eps: 0.5, EpsMode: "floor", Singleton: "unit"}, 3},
		{Options{Baseline: "mean", Scale: "inverse", InverseOf: 0.25, Singleton: "unit"}, 12},
		{Options{Baseline: "mean", Scale: "none", Singleton: "unit"}, 3},
		{Options{Baseline: "none", Scale: "none", Singleton: "zero"}, 3},
		{Options{Baseline: "none", Scale: "group", DDOF: 1, Singleton: "zero"}, 0},
	} {
		if a := of(t, c.o, []int{8}, []float64{3}); !close(a[0], c.want) {
			t.Errorf("%+v alone: %v, want %v", c.o, a[0], c.want)
		}
	}
}

// A group in which nobody is better has advantages of exactly 0, in spite of rounding, so
// that it is seen to be dead.
func TestEqualRewards(t *testing.T) {
	for _, o := range options() {
		for n := 2; n < 12; n++ {
			ids, rewards := make([]int, n), slices.Repeat([]float64{0.1}, n)
			if o.Baseline == "none" {
				continue
			}
			if a := of(t, o, ids, rewards); slices.ContainsFunc(a, func(x float64) bool { return x != 0 }) {
				t.Errorf("%+v, %d samples: %v", o, n, a)
			}
		}
	}
}

// A group whose kept rewards are equal is flat, though those that were trimmed differ.
// Single precision is the same where rewards lie apart, and not where they lie close.
func TestSingle(t *testing.T) {
	o := Defaults()
	single := o
	single.Single = true
	for _, c := range []struct {
		rewards []float64
		most    float64 // relative error
		least   float64
	}{{[]float64{0, 1, 3, 0.5}, 1e-6, 0}, {[]float64{100, 100.01, 100.02}, math.Inf(1), 1e-3}, {[]float64{5, 5, 5}, 0, 0}} {
		a, _ := o.Of(make([]int, len(c.rewards)), c.rewards)
		b, err := single.Of(make([]int, len(c.rewards)), c.rewards)
		if err != nil {
			t.Fatal(err)
		}
		last := len(a) - 1
		if e := math.Abs(b[last] - a[last]); e > c.most*math.Abs(a[last]) || e < c.least*math.Abs(a[last]) {
			t.Errorf("%v: %v in float32, %v", c.rewards, b, a)
		}
	}
}

func TestFlat(t *testing.T) {
	o := Defaults()
	o.Trim = 0.5
	ids, rewards := []int{0, 0, 0, 0}, []float64{0, 1, 1, 1}
	if a := of(t, o, ids, rewards); !same(a, []float64{0, 0, 0, 0}) {
		t.Errorf("flat: %v", a)
	}
	o.Flat = "divide"
	if a := of(t, o, ids, rewards); !(a[0] < -9e5) {
		t.Errorf("as upstream: %v", a)
	}
	o.Clip = 5
	if a := of(t, o, ids, rewards); a[0] != -5 {
		t.Errorf("cut to 5: %v", a)
	}
}

// The lowest rewards leave the statistics and still get an advantage.
func TestTrim(t *testing.T) {
	o := Defaults()
	o.Trim, o.Scale = 0.25, "none"
	if a := of(t, o, make([]int, 4), []float64{4, -90, 2, 3}); !same(a, []float64{1, -93, -1, 0}) {
		t.Error(a)
	}
	o.Trim = 0.999
	if a := of(t, o, make([]int, 4), []float64{4, -90, 2, 3}); !same(a, []float64{0, -94, -2, -1}) {
		t.Error("one is always kept:", a)
	}
}

func TestOptionsRefused(t *testing.T) {
	if _, err := Defaults().Of([]int{1}, nil); err == nil {
		t.Error("a reward too few")
	}
	for _, c := range []struct {
		change func(*Options)
		key    string
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.Baseline, o.Trim = "others", 0.5 }, "trim"},
		{func(o *Options) { o.Eps = 0 }, "eps"},
		{func(o *Options) { o.Eps, o.EpsMode = 0, "floor" }, ""},
	} {
		o, said := Defaults(), ""
		c.change(&o)
		o.Check(func(key, problem, hint string) { said += key })
		if said != c.key {
			t.Errorf("%+v: complains of %q, want %q", o, said, c.key)
		}
	}
}
