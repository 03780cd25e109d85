package eval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
)

// numbered are pairs whose samples are one pixel, so that rewards can read a number off them.
func numbered(prompts, each int, level func(prompt, sample int) uint8, better func(prompt, pair int, a, b uint8) Better) Set {
	set := Set{Name: "numbered", Of: Pictures}
	for p := range prompts {
		for k := range each {
			a, b := level(p, 2*k), level(p, 2*k+1)
			sample := func(v uint8, name int) Sample {
				m := vision.New(1, 1)
				m.Pix[0] = v
				return Held(fmt.Sprint(name), rewards.Item{Prompt: fmt.Sprint(p), Image: m})
			}
			set.Pairs = append(set.Pairs, Pair{Prompt: fmt.Sprint(p), Kind: "numbers", A: sample(a, 2*k), B: sample(b, 2*k+1), Better: better(p, k, a, b)})
		}
	}
	return set
}

func drawnLevel(seed uint64) func(prompt, sample int) uint8 {
	key := rng.New(seed)
	return func(p, s int) uint8 { return uint8(key.Sample(p).Attempt(s).Draw().Intn(256)) }
}

func larger(_, _ int, a, b uint8) Better {
	switch {
	case a > b:
		return First
	case b > a:
		return Second
	}
	return Tie
}

// times is the level, multiplied.
func times(by float64) rewards.Judge {
	return rewards.Each(rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		return rewards.Score{Value: by * float64(item.Image.Pix[0])}, nil
	}), 1)
}

func run(t *testing.T, j rewards.Judge, set Set, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), "test", j, set, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOrder(t *testing.T) {
	set := numbered(12, 5, drawnLevel(1), larger)
	for by, want := range map[float64]float64{1: 1, 0.01: 1, -1: 0, 0: 0.5} {
		r := run(t, times(by), set, Options{Probed: -1, Again: -1})
		low, high := want, want
		switch { // twelve prompts: (0.025)^(1/12)
		case want == 1:
			low = 0.7353515306029489
		case want == 0:
			high = 1 - 0.7353515306029489
		}
		if a := r.Order.Accuracy; a == nil || a.Value != want || math.Abs(a.Low-low) > 1e-12 || math.Abs(a.High-high) > 1e-12 {
			t.Errorf("times %v: accuracy %+v, want %v", by, a, want)
		}
		switch {
		case by == 0:
			if r.Order.Tau != nil || r.Groups.Typical != nil || r.Groups.Dead != 1 || r.Groups.Within != nil {
				t.Errorf("a constant: tau %+v, groups %+v", r.Order.Tau, r.Groups)
			}
		case r.Order.Tau == nil || r.Order.Tau.Value != 2*want-1:
			t.Errorf("times %v: tau %+v", by, r.Order.Tau)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	}
	// The order in a pair changes nothing.
	exchanged := set
	exchanged.Pairs = slices.Clone(set.Pairs)
	for i, p := range set.Pairs {
		exchanged.Pairs[i].A, exchanged.Pairs[i].B = p.B, p.A
		exchanged.Pairs[i].Better = map[Better]Better{First: Second, Second: First, Tie: Tie}[p.Better]
	}
	noisy := rewards.Each(rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		v := item.Image.Pix[0]
		return rewards.Score{Value: float64(v) + 90*math.Sin(float64(v))}, nil
	}), 1)
	a, b := run(t, noisy, set, Options{Probed: -1, Again: -1}), run(t, noisy, exchanged, Options{Probed: -1, Again: -1})
	if *a.Order.Accuracy != *b.Order.Accuracy || *a.Order.Tau != *b.Order.Tau || a.Order.Accuracy.Value == 1 {
		t.Errorf("%+v, %+v", a.Order, b.Order)
	}
}

// By hand: 3 agree, 1 disagrees, 1 has equal scores, 2 tied labels with different scores.
func TestTau(t *testing.T) {
	pair := func(better Better, a, b float64) judgedPair { return judgedPair{Pair{Better: better}, 0, a, b} }
	pairs := []judgedPair{pair(First, 2, 1), pair(First, 3, 1), pair(Second, 0, 1), pair(First, 0, 1), pair(First, 1, 1), pair(Tie, 1, 2), pair(Tie, 2, 1), pair(Tie, 1, 1)}
	got := tau(pairs, []int{0, 1, 2, 3, 4, 5, 6, 7})
	if want := 2 / math.Sqrt(6*5); math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
}

// Labels drawn from a logistic give its slope back, and confidence that can be believed.
func TestCalibration(t *testing.T) {
	r := rng.New(3).Draw()
	drawn := func(_, _ int, a, b uint8) Better {
		if r.Float64() < logistic(0.02*(float64(a)-float64(b))) {
			return First
		}
		return Second
	}
	set := numbered(60, 10, drawnLevel(2), drawn)
	c := run(t, times(1), set, Options{Probed: -1, Again: -1}).Calibration
	if c == nil || math.Abs(c.Slope.Value-0.02) > 0.005 || c.Slope.High-c.Slope.Low > 0.015 || c.ECE.Value > 0.05 || len(c.Bins) != mostBins {
		t.Errorf("%+v, slope %+v, ECE %+v", c.Bins, *c.Slope, *c.ECE)
	}
	// The unit of scores is the slope's own business.
	if d := run(t, times(1000), set, Options{Probed: -1, Again: -1}).Calibration; math.Abs(1000*d.Slope.Value/c.Slope.Value-1) > 1e-6 || math.Abs(d.ECE.Value-c.ECE.Value) > 1e-9 {
		t.Errorf("%+v, %+v", c, d)
	}
	coin := run(t, times(1), numbered(60, 10, drawnLevel(2), func(int, int, uint8, uint8) Better { return []Better{First, Second}[r.Intn(2)] }), Options{Probed: -1, Again: -1})
	if s := coin.Calibration.Slope; s.Low > 0 || s.High < 0 {
		t.Errorf("labels that scores do not know: slope %+v", s)
	}
	// A judge that is too sure is found out: its differences say more than they know.
	if len(coin.Warnings) != 1 || !strings.Contains(coin.Warnings[0], "no better than chance") {
		t.Errorf("%q", coin.Warnings)
	}
}

func TestGroups(t *testing.T) {
	// Scores that depend on the prompt alone tell nothing apart.
	byPrompt := run(t, times(1), numbered(8, 4, func(p, _ int) uint8 { return uint8(20 * p) }, larger), Options{Probed: -1, Again: -1})
	if g := byPrompt.Groups; g.Dead != 1 || g.Equal != 1 || g.Within == nil || *g.Within != 0 || g.Typical != nil {
		t.Errorf("%+v", g)
	}
	// A prompt's own level changes nothing inside.
	same := func(p, s int) uint8 { return uint8(10 * s) }
	lifted := func(p, s int) uint8 { return uint8(10*s + 20*p) }
	a, b := run(t, times(1), numbered(8, 3, same, larger), Options{Probed: -1, Again: -1}).Groups, run(t, times(1), numbered(8, 3, lifted, larger), Options{Probed: -1, Again: -1}).Groups
	if *a.Typical != *b.Typical || *a.Contrast != *b.Contrast || *a.Within != 1 || *b.Within >= 1 || *a.Typical != 20 || a.Samples != 48 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// positional likes the first item, by chance or always.
type positional struct{ likes func() float64 }

func (p positional) Judge(_ context.Context, items []rewards.Item) []rewards.Result {
	out := make([]rewards.Result, len(items))
	out[0].Value = p.likes()
	return out
}

func TestSwaps(t *testing.T) {
	set := numbered(20, 4, drawnLevel(5), larger)
	r := run(t, positional{func() float64 { return 1 }}, set, Options{Probed: -1, Again: 80})
	if s := r.Swaps; s.Pairs != 80 || s.First.Value != 1 || s.Flipped.Value != 1 || r.Repeats.Same.Value != 1 || *r.Repeats.Noise != 0 {
		t.Errorf("%+v, %+v", r.Swaps, r.Repeats)
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "shown first: 1.00") }) {
		t.Errorf("%q", r.Warnings)
	}
	coin := rng.New(4).Draw()
	r = run(t, positional{func() float64 { return float64(2*coin.Intn(2) - 1) }}, set, Options{Probed: -1, Again: 80, AtOnce: 1})
	if s := r.Repeats; !(s.Same.Value > 0.3 && s.Same.Value < 0.7) || math.Abs(r.Swaps.First.Value) > 0.3 {
		t.Errorf("%+v, %+v", r.Swaps.First, s.Same)
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "asked again it agrees") }) {
		t.Errorf("%q", r.Warnings)
	}
	if r = run(t, times(1), set, Options{Probed: -1}); r.Swaps.First.Value != 0 || r.Swaps.Flipped.Value != 0 || r.Repeats.Same.Value != 1 || r.Swaps.Pairs != 40 {
		t.Errorf("%+v, %+v", r.Swaps, r.Repeats)
	}
}

// Intervals cover the truth about as often as they say.
func TestBootstrapCovers(t *testing.T) {
	const tries, clusters, each = 120, 30, 4
	key, covered := rng.New(6), 0
	for i := range tries {
		x := make([]float32, clusters*each)
		shared := make([]float32, clusters)
		key.Sample(i).With("own").Normal(x, 0)
		key.Sample(i).With("shared").Normal(shared, 0)
		of, v := make([]int, len(x)), make([]float64, len(x))
		for m := range x {
			of[m] = m / each
			v[m] = 5 + float64(shared[m/each]) + 0.5*float64(x[m])
		}
		got, ok := bootstrap(of, 0.9, key.Sample(i), mean(v))
		if !ok {
			t.Fatal("no interval")
		}
		if got.Low <= 5 && 5 <= got.High {
			covered++
		}
	}
	if share := float64(covered) / tries; share < 0.8 || share > 0.97 {
		t.Errorf("intervals of 90 %% cover %.2f", share)
	}
	if i, ok := bootstrap([]int{0, 0}, 0.9, key, mean([]float64{1, 2})); !ok || i.Low != i.High {
		t.Errorf("one cluster: %+v", i)
	}
	if _, ok := bootstrap([]int{0, 1}, 0.9, key, func([]int) float64 { return math.NaN() }); ok {
		t.Error("a number that is none has an interval")
	}
}

// TestShares: a share of which all or none are right has the interval of as many binomial tries as there are prompts.
func TestShares(t *testing.T) {
	key := rng.New(6)
	ones, apart := []float64{1, 1, 1, 1, 1, 1, 1, 1}, []int{0, 1, 2, 3, 4, 5, 6, 7}
	for name, c := range map[string]struct {
		x         []float64
		of        []int
		low, high float64
	}{
		"8 of 8":                 {ones, apart, 0.6306, 1},
		"none of 8":              {make([]float64, 8), apart, 0, 0.3694},
		"8 of 8, of two prompts": {ones, []int{0, 0, 0, 0, 1, 1, 1, 1}, 0.1581, 1},
		"half, of one prompt":    {[]float64{1, 0.5, 0}, []int{0, 0, 0}, 0, 1},
	} {
		if got := ShareOf(c.x, c.of, 0.95, key); math.Abs(got.Low-c.low) > 1e-4 || math.Abs(got.High-c.high) > 1e-4 {
			t.Errorf("%s: %+v, not %g to %g", name, got, c.low, c.high)
		}
	}
	between := []float64{1, 1, 1, 0, 1, 1, 0, 1}
	if got, want := ShareOf(between, apart, 0.95, key), MeanOf(between, apart, 0.95, key); got != want {
		t.Errorf("6 of 8: %+v, not the bootstrap's %+v", got, want)
	}
}

// The same question has the same answer, byte for byte, in any order of parallel work.
func TestReportsRepeat(t *testing.T) {
	set := numbered(10, 4, drawnLevel(7), larger)
	var texts [2]string
	for i := range texts {
		r := run(t, times(1), set, Options{AtOnce: 1 + 7*i})
		r.Speed = Speed{}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	if texts[0] != texts[1] {
		t.Errorf("%s\n%s", texts[0], texts[1])
	}
}

func TestMissing(t *testing.T) {
	set := numbered(6, 4, drawnLevel(8), larger)
	set.Pairs[3].B.Open = func() (rewards.Item, error) { return rewards.Item{}, errors.New("the file is gone") }
	odd := rewards.Each(rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		if v := item.Image.Pix[0]; v > 200 {
			return rewards.Score{}, fmt.Errorf("level %d is too much", v)
		}
		return rewards.Score{Value: 1}, nil
	}), 1)
	r := run(t, odd, set, Options{})
	if r.Missing == 0 || r.Judged+r.Missing != 24 || len(r.Why) != 2 || r.Why[0].Pairs+r.Why[1].Pairs != r.Missing || len(r.Warnings) == 0 {
		t.Errorf("%d and %d, %+v, %q", r.Judged, r.Missing, r.Why, r.Warnings)
	}
	none := rewards.Each(rewards.Func(func(context.Context, rewards.Item) (rewards.Score, error) { return rewards.Score{}, errors.New("no") }), 1)
	if r = run(t, none, set, Options{}); r.Judged != 0 || r.Missing != 24 || r.Order.Accuracy != nil {
		t.Errorf("%+v", r)
	}
	short := judgeFunc(func([]rewards.Item) []rewards.Result { return nil })
	if r = run(t, short, set, Options{}); r.Judged != 0 || !strings.Contains(r.Why[0].Why, "judged 0 of 2") {
		t.Errorf("%+v", r.Why)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Run(ctx, "x", times(1), set, Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type judgeFunc func(items []rewards.Item) []rewards.Result

func (f judgeFunc) Judge(_ context.Context, items []rewards.Item) []rewards.Result { return f(items) }

// Whatever a reward says, there is a report that can be written.
func TestExtremes(t *testing.T) {
	values := []float64{0, 1, -1, 5e-324, -5e-324, 1e-310, 1e149, -1e149, 1e151, 1.7e308, -1.7e308, math.Inf(1), math.NaN()}
	for seed := range uint64(15) {
		r := rng.New(seed).Draw()
		few := 1 + r.Intn(len(values))
		wild := judgeFunc(func(items []rewards.Item) []rewards.Result {
			out := make([]rewards.Result, len(items))
			for i := range out {
				out[i].Value = values[r.Intn(few)]
			}
			return out
		})
		set := numbered(6, 4, drawnLevel(seed), larger)
		report, err := Run(t.Context(), "wild", wild, set, Options{Probed: 6, Again: 6, AtOnce: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(report); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// Embedded sets are the same bytes everywhere, and know which is better.
func TestEmbedded(t *testing.T) {
	for name, want := range map[string]string{SceneSet: "6593f79888006fb3", ClipSet: "5c070546adc0a202"} {
		set, err := Embedded(name)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		ties := 0
		for _, p := range set.Pairs {
			fmt.Fprintln(h, p.Prompt, p.Kind, p.Better)
			if p.Better == Tie {
				ties++
			}
			for _, s := range []Sample{p.A, p.B} {
				item, err := s.Open()
				if err != nil {
					t.Fatal(err)
				}
				if item.Image != nil {
					h.Write(item.Image.Pix)
				} else {
					for _, f := range item.Clip.Frames {
						h.Write(f)
					}
				}
			}
		}
		if got := hex.EncodeToString(h.Sum(nil)[:8]); got != want {
			t.Errorf("%s: digest %s, want %s", name, got, want)
		}
		if n := len(set.Pairs); ties == 0 || 10*ties > 2*n || n > 300 {
			t.Errorf("%s: %d ties of %d", name, ties, n)
		}
	}
	if _, err := Embedded("embed:other"); !errors.Is(err, ErrNoSet) {
		t.Error(err)
	}
}

// String is the inverse of ParseBetter.
func (b Better) String() string { return [...]string{"tie", "a", "b"}[b] }

// TestConclusion: a reward that judged too little of pairs or probes has no verdict.
func TestConclusion(t *testing.T) {
	probe := func(samples, missing int, is string) ProbeResult {
		return ProbeResult{Probe: Probe{Name: "grain"}, Samples: samples, Prompts: samples, Missing: missing, Outcome: is}
	}
	order := func(low float64) Order { return Order{Accuracy: &Interval{0.75, low, 0.9}} }
	for _, c := range []struct {
		r    Report
		want string
	}{
		{Report{Missing: 224}, "none of 224"},
		{Report{Judged: 56, Missing: 168, Probes: []ProbeResult{probe(40, 0, Fine)}}, "168 of 224 pairs"},
		{Report{Judged: 224, Probes: []ProbeResult{probe(40, 0, Fine), probe(10, 30, Fine)}}, "30 of 40 samples have no score after the probe grain"},
		{Report{Judged: 5, Probes: []ProbeResult{probe(5, 0, TooFew)}}, "fewer than 6 prompts"},
		{Report{Judged: 224}, "not looked for"},
		{Report{Judged: 10, Missing: 200, Flags: []string{"large files"}, Probes: []ProbeResult{probe(10, 0, Weak)}}, "won by large files"},
		{Report{Judged: 112, Missing: 112, Probes: []ProbeResult{probe(20, 20, Fine), probe(40, 0, SideEffect)}}, NoneFound},
		{Report{Judged: 112, Order: order(0.6), Probes: []ProbeResult{probe(40, 0, Fine)}}, NoneFound},
		{Report{Judged: 112, Order: order(0.45), Probes: []ProbeResult{probe(40, 0, Fine)}}, "no better than chance on these pairs (75 % in order, 45 to 90)"},
		{Report{Judged: 112, Order: order(0.6), Probes: []ProbeResult{probe(2, 0, Fine)}}, "on samples of 2 prompts"},
	} {
		if got := conclusion(&c.r); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c.r, got)
		}
	}
}

// TestConclusionOfFailing: a reward that fails on most prompts is not called free of weaknesses.
func TestConclusionOfFailing(t *testing.T) {
	set := Scenes()
	set.Pairs = set.Pairs[:40]
	failing := rewards.Func(func(ctx context.Context, item rewards.Item) (rewards.Score, error) {
		if len(item.Prompt)%4 > 0 {
			return rewards.Score{}, errors.New("the prompt cannot be read")
		}
		return rewards.SceneTask{}.Score(ctx, item)
	})
	r, err := Run(t.Context(), "failing", rewards.Each(failing, 1), set, Options{Probed: 4, Again: -1})
	if err != nil || 2*r.Missing <= len(set.Pairs) || r.Judged == 0 || !strings.Contains(r.Conclusion, "no verdict") {
		t.Errorf("%d judged, %d missing: %s, %v", r.Judged, r.Missing, r.Conclusion, err)
	}
}
