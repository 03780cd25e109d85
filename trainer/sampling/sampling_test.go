package sampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSamplingFilters(t *testing.T) {
	l := func(p ...float64) []float64 {
		x := make([]float64, len(p))
		for i, v := range p {
			x[i] = math.Log(v)
		}
		return x
	}
	plain := Default()
	with := func(change func(*Options)) Options { o := plain; change(&o); return o }
	for name, c := range map[string]struct {
		o            Options
		logits       []float64
		seen, banned []int
		want         []float64
	}{
		"plain":              {plain, l(.1, .2, .7), nil, nil, []float64{.1, .2, .7}},
		"hot":                {with(func(o *Options) { o.Temperature = 2 }), l(.04, .16, .64), nil, nil, []float64{1. / 7, 2. / 7, 4. / 7}},
		"banned":             {plain, l(.1, .2, .7), nil, []int{2}, []float64{1. / 3, 2. / 3, 0}},
		"top 2":              {with(func(o *Options) { o.TopK = 2 }), l(.1, .2, .7), nil, nil, []float64{0, 2. / 9, 7. / 9}},
		"top 2 of a tie":     {with(func(o *Options) { o.TopK = 2 }), l(.25, .25, .5), nil, nil, []float64{.25, .25, .5}},
		"more than there is": {with(func(o *Options) { o.TopK = 9 }), l(.1, .9), nil, nil, []float64{.1, .9}},
		"top-p":              {with(func(o *Options) { o.TopP = .8 }), l(.1, .3, .6), nil, nil, []float64{0, 1. / 3, 2. / 3}},
		"top-p keeps one":    {with(func(o *Options) { o.TopP = .01 }), l(.1, .3, .6), nil, nil, []float64{0, 0, 1}},
		"min-p":              {with(func(o *Options) { o.MinP = .4 }), l(.1, .3, .6), nil, nil, []float64{0, 1. / 3, 2. / 3}},
		"repeated once": {with(func(o *Options) { o.Repetition = 2 }), []float64{math.Log(4), 0, -math.Log(2)}, []int{0, 0, 2}, nil,
			[]float64{2 / 3.25, 1 / 3.25, .25 / 3.25}},
	} {
		before := slices.Clone(c.logits)
		got, err := c.o.Probabilities(c.logits, c.seen, c.banned)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range c.want {
			if math.Abs(got[i]-want) > 1e-12 {
				t.Errorf("%s: %v, want %v", name, got, c.want)
				break
			}
		}
		if !slices.Equal(before, c.logits) {
			t.Errorf("%s: the logits were changed", name)
		}
	}
	for name, c := range map[string]struct{ seen, banned []int }{"nothing left": {nil, []int{0, 1}}, "beyond": {[]int{2}, nil}, "below": {nil, []int{-1}}} {
		if _, err := plain.Probabilities([]float64{1, 2}, c.seen, c.banned); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// However the filters are combined, the likeliest token stays and the rest sums to 1.
func TestLikeliestStays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		x := make([]float64, 7)
		for i := range x {
			x[i] = 3 * r.NormFloat64()
		}
		o := Options{Temperature: 0.3 + r.Float64(), TopK: r.IntN(8), TopP: 1 - 0.99*r.Float64(), MinP: r.Float64(), Repetition: 1}
		p, err := o.Probabilities(x, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		total := 0.0
		for _, v := range p {
			total += v
		}
		if slices.Index(x, slices.Max(x)) != slices.Index(p, slices.Max(p)) || math.Abs(total-1) > 1e-12 {
			t.Errorf("%+v of %v: %v", o, x, p)
		}
	}
}

func TestSamplingCheck(t *testing.T) {
	n := 0
	count := func(string, string, string) { n++ }
	Default().Check(count)
	if n != 0 {
		t.Error("the defaults are refused")
	}
	o := Default()
	o.TopK = 1
	if o.Check(count); n != 1 {
		t.Error("groups of equal answers are not reported")
	}
}
