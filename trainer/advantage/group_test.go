package advantage

import (
	"math"
	"math/rand/v2"
	"testing"
)

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

// options are combinations of every setting that fit together.
func options() []Options {
	var all []Options
	for _, over := range []string{"group", "batch"} {
		for _, baseline := range []string{"mean", "others", "none"} {
			for _, scale := range []string{"group", "batch", "max_group", "none"} {
				for ddof := range 2 {
					for _, mode := range []string{"add", "floor", "floor_add"} {
						all = append(all, Options{Over: over, Baseline: baseline, Scale: scale, DDOF: ddof, Eps: 1e-12, EpsMode: mode, Singleton: "zero"})
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
		moved, larger, order := make([]float64, len(ids)), make([]float64, len(ids)), r.Perm(len(ids))
		mixedIDs, mixed := make([]int, len(ids)), make([]float64, len(ids))
		for i, v := range rewards {
			moved[i], larger[i] = v+3, 5*v
			mixedIDs[i], mixed[i] = ids[order[i]], rewards[order[i]]
		}
		m, l, p := of(t, o, ids, moved), of(t, o, ids, larger), of(t, o, mixedIDs, mixed)
		sums := map[int]float64{}
		for i := range a {
			if o.Over == "batch" {
				sums[0] += a[i]
			} else {
				sums[ids[i]] += a[i]
			}
			if o.Baseline != "none" && !close(a[i], m[i]) {
				t.Errorf("%+v: a shift changed %v to %v", o, a[i], m[i])
			}
			if o.Scale != "none" && math.Abs(a[i]-l[i]) > 1e-6*(1+math.Abs(a[i])) {
				t.Errorf("%+v: a factor changed %v to %v", o, a[i], l[i])
			}
			if !close(p[i], a[order[i]]) {
				t.Errorf("%+v: the order changed %v to %v", o, a[order[i]], p[i])
			}
		}
		for g, s := range sums {
			if o.Baseline == "mean" && math.Abs(s) > 1e-9 {
				t.Errorf("%+v: group %d adds up to %v", o, g, s)
			}
		}
	}
}

// A missing reward is as if the sample were not there, and nobody is blamed for it.
func TestMissingIsAbsent(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	ids := []int{0, 0, 0, 0, 1, 1, 1, 1}
	rewards := random(r, len(ids))
	rewards[2], rewards[5] = math.NaN(), math.NaN()
	fewer, some := []int{0, 0, 0, 1, 1, 1}, []float64{}
	for _, v := range rewards {
		if !math.IsNaN(v) {
			some = append(some, v)
		}
	}
	for _, o := range options() {
		a, want, k := of(t, o, ids, rewards), of(t, o, fewer, some), 0
		for i := range a {
			if math.IsNaN(rewards[i]) {
				if !math.IsNaN(a[i]) {
					t.Errorf("%+v: a missing reward has the advantage %v", o, a[i])
				}
				continue
			}
			if !close(a[i], want[k]) {
				t.Errorf("%+v: %v with the missing ones, %v without", o, a[i], want[k])
			}
			k++
		}
	}
	for name, got := range map[string][]float64{"best": Best(ids, rewards), "ends": Ends(ids, rewards), "pass@k": PassAtK(ids, rewards, true, 0),
		"gardo":   Gardo(ids, rewards, [][]float64{{1, 0}, {1, 1}, {0, 1}, {1, 2}, {1, 0}, {0, 1}, {1, 1}, {2, 1}}),
		"history": (&History{Size: 4, Min: 1}).Update([]string{"a", "a", "a", "a", "b", "b", "b", "b"}, rewards)} {
		for i, v := range rewards {
			if math.IsNaN(v) != math.IsNaN(got[i]) {
				t.Errorf("%s: reward %v, advantage %v", name, v, got[i])
			}
		}
	}
	if s := Measure(ids, rewards); s.Missing != 2 {
		t.Errorf("%d missing", s.Missing)
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
		if !close(a[i], v-others) {
			t.Errorf("%v: %v, want %v", v, a[i], v-others)
		}
	}
}

func TestCorners(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want float64
	}{{Options{Baseline: "mean", Scale: "group", Eps: 1, Singleton: "zero"}, 0}, {Options{Baseline: "others", Scale: "none", Singleton: "raw"}, 3},
		{Options{Baseline: "mean", Scale: "group", Eps: 0.5, Singleton: "unit"}, 2}} {
		if a := of(t, c.o, []int{8}, []float64{3}); !close(a[0], c.want) {
			t.Errorf("%+v alone: %v, want %v", c.o, a[0], c.want)
		}
	}
	d := Defaults()
	for _, a := range of(t, d, []int{1, 1, 1}, []float64{2, 2, 2}) {
		if a != 0 {
			t.Errorf("equal rewards: %v", a)
		}
	}
	d.Clip = 0.5
	for _, a := range of(t, d, []int{1, 1, 1}, []float64{0, 0, 9}) {
		if math.Abs(a) > 0.5 {
			t.Errorf("cut to 0.5: %v", a)
		}
	}
	if _, err := d.Of([]int{1}, nil); err == nil {
		t.Error("a reward too few")
	}
	for name, want := range map[string]bool{"fits": true, "does not": false} {
		said := false
		o := Defaults()
		if !want {
			o.Baseline, o.Trim = "others", 0.5
		}
		o.Check(func(key, problem, hint string) { said = key == "trim" && problem != "" && hint != "" })
		if said == want {
			t.Errorf("%s: %v", name, said)
		}
	}
}
