package toy

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/vision"
)

// Develop is a picture whose numbers are those of a state, times a half.
func (p *Policy) Develop(_ []trainer.Key, finals [][]float64, at func(from int, pictures []vision.Pixels) ([][]float32, error)) ([][]float64, error) {
	out := make([][]float64, len(finals))
	for i, f := range finals { // a batch each
		x := make([]float32, len(f))
		for e, v := range f {
			x[e] = float32(v / 2)
		}
		g, err := at(i, []vision.Pixels{{RGB: x}})
		if err != nil {
			return nil, err
		}
		for _, v := range g[0] {
			out[i] = append(out[i], float64(v)/2)
		}
	}
	return out, nil
}

// Pull is Linear's own backward, and Aᵀ of the gradients for the states.
func (p *Policy) Pull(at []trainer.Point, grads [][]float64) ([][]float64, error) {
	out := make([][]float64, len(at))
	d, w := p.D, p.sets[trainer.Current]
	for i, point := range at {
		p.backward(point.State, point.Time, grads[i])
		out[i] = make([]float64, len(point.State))
		for e, g := range grads[i] {
			for k := range d {
				out[i][e/d*d+k] += g * w[e%d*d+k]
			}
		}
	}
	return out, nil
}

// bowl is a reward over pictures: -mean |x - sin(place)|², and its gradient.
func bowl(ways []trainer.GradientPath, pictures []vision.Pixels) (values []float64, grads [][]float32, err error) {
	for i, m := range pictures {
		v, g := 0.0, make([]float32, len(m.RGB))
		for e, x := range m.RGB {
			d := float64(x) - math.Sin(float64(e+ways[i].Key.Prompt))
			v -= d * d / float64(len(m.RGB))
			g[e] = float32(-2 * d / float64(len(m.RGB)))
		}
		if ways[i].Against {
			v = -v
			for e := range g {
				g[e] = -g[e]
			}
		}
		values, grads = append(values, v), append(grads, g)
	}
	return values, grads, nil
}

// waysOf returns all gradient paths over a policy's samples.
func waysOf(p *Policy) map[string]func([]trainer.Sample) ([]trainer.GradientPath, error) {
	direct := func(both bool) trainer.Direct {
		return trainer.Direct{Times: 2, Step: 0.2, Both: both, Unit: 3, Draw: func(k trainer.Key, n int) (float64, []float64) {
			noise := make([]float64, 4)
			for e := range noise {
				noise[e] = math.Cos(float64(3*k.Prompt + k.Sample + e + n))
			}
			return 0.5 + 0.1*float64(n), noise
		}}
	}
	return map[string]func([]trainer.Sample) ([]trainer.GradientPath, error){
		"direct": direct(false).Ways, "both ways": direct(true).Ways, "draft": trainer.Last{Rows: p.Rows}.Ways,
		"refl": trainer.Predicted{Rows: p.Rows, Choose: func(k trainer.Key, n int) int { return k.Sample % n }}.Ways,
	}
}

// TestRewardGradientGradient: every way's gradient agrees with finite differences of its loss, a margin
// included.
func TestRewardGradientGradient(t *testing.T) {
	margin := -0.3
	for name, m := range map[string]*float64{"": nil, " with a margin": &margin} {
		p, tr := newRun(t, 5)
		samples, err := p.Roll(trainer.Current, tr.Prompts(0))
		if err != nil {
			t.Fatal(err)
		}
		for way, ways := range waysOf(p) {
			o := trainer.RewardGradient{Developer: p, Ways: ways, Reward: bowl, Margin: m}
			blame := func() float64 {
				t.Helper()
				clear(p.grad)
				b, err := o.Evaluate(p, samples, nil)
				if err != nil {
					t.Fatalf("%s: %v", way, err)
				}
				return b.Loss
			}
			blame()
			grad := slices.Clone(p.grad)
			weights := p.sets[trainer.Current]
			for i := range weights {
				const h = 1e-2 // pictures are fp32: smaller steps drown
				old := weights[i]
				weights[i] = old + h
				up := blame()
				weights[i] = old - h
				down := blame()
				weights[i] = old
				if want := (up - down) / (2 * h); math.Abs(grad[i]-want) > 2e-3*(1+math.Abs(want)) {
					t.Errorf("%s%s: weight %d has the gradient %v, not %v", way, name, i, grad[i], want)
				}
			}
		}
	}
}

// TestWays: direct alignment's segment is the recorded formula; the last steps, made once more, end where they ended;
// a step against noise inverts a step towards the picture.
func TestWays(t *testing.T) {
	p, tr := newRun(t, 6)
	samples, err := p.Roll(trainer.Current, tr.Prompts(0))
	if err != nil {
		t.Fatal(err)
	}
	noise := []float64{0.5, -1, 2, 0.25}
	d := trainer.Direct{Step: 0.2, Both: true, Unit: 1000, Draw: func(trainer.Key, int) (float64, []float64) { return 0.7, noise }}
	ways, err := d.Ways(samples[:1])
	if err != nil || len(ways) != 2 {
		t.Fatalf("%d ways, %v", len(ways), err)
	}
	for _, w := range ways {
		a, b := 0.7, 0.5
		if w.Against {
			a, b = b, a
		}
		if math.Abs(w.Legs[0].Time-1000*a) > 1e-9 {
			t.Errorf("the network is told %v at sigma %v", w.Legs[0].Time, a)
		}
		slope, leg := (b-a)/(1-b), w.Legs[0]
		for e, v := range []float64{1, 2, -3, 4} {
			noisy := a*noise[e] + (1-a)*samples[0].Item.Final[e]
			want := (noisy + (b-a)*v - b*noise[e]) / (1 - b)
			if got := leg.X*w.State[e] + leg.Out*v + leg.Add[e]; math.Abs(got-want) > 1e-12 || math.Abs(leg.Out-slope) > 1e-15 {
				t.Errorf("from %v to %v: %v with slope %v, not %v with %v", a, b, got, leg.Out, want, slope)
			}
		}
	}
	ways, err = trainer.Last{Rows: p.Rows}.Ways(samples)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range ways {
		x := w.State
		for _, l := range w.Legs {
			v := p.forward(trainer.Current, x, l.Time)
			next := make([]float64, len(x))
			for e := range x {
				next[e] = l.X*x[e] + l.Out*v[e]
				if l.Add != nil {
					next[e] += l.Add[e]
				}
			}
			x = next
		}
		for e, want := range samples[i].Item.Final {
			if math.Abs(x[e]-want) > 1e-12 {
				t.Errorf("sample %d ends at %v, not %v", i, x, samples[i].Item.Final)
				break
			}
		}
	}
}

// TestRewardGradientRefusals: a path without a gradient is an error.
func TestRewardGradientRefusals(t *testing.T) {
	p, tr := newRun(t, 7)
	samples, err := p.Roll(trainer.Current, tr.Prompts(0))
	if err != nil {
		t.Fatal(err)
	}
	history := slices.Clone(p.Rows)
	history[2] = sde.Multistep{Order: 2}.Row(schedule, 2)
	bare := slices.Clone(samples[:1])
	bare[0].Decisions = trainer.Decisions{}
	gap := slices.Clone(samples[:1])
	d := &gap[0].Decisions
	d.Step, d.State, d.Time, d.Action, d.Mean = []int{0, 2}, d.State[:2], d.Time[:2], d.Action[:2], d.Mean[:2]
	at := func(sigma float64) func(trainer.Key, int) (float64, []float64) {
		return func(trainer.Key, int) (float64, []float64) { return sigma, make([]float64, 4) }
	}
	for _, c := range []struct {
		says string
		ways func([]trainer.Sample) ([]trainer.GradientPath, error)
		of   []trainer.Sample
	}{
		{"step 1 was expected", trainer.Last{Rows: p.Rows}.Ways, gap},
		{"no step of sample 0", trainer.Last{Rows: p.Rows}.Ways, bare},
		{"no step of sample 0", trainer.Predicted{Rows: p.Rows}.Ways, bare},
		{"looks back", trainer.Predicted{Rows: history, Choose: func(_ trainer.Key, n int) int { return n - 1 }}.Ways, samples},
		{"the sampler has 2", trainer.Predicted{Rows: p.Rows[:2], Choose: func(_ trainer.Key, n int) int { return n - 1 }}.Ways, samples},
		{"below 1", trainer.Direct{Step: 0.1, Draw: at(1)}.Ways, samples},
		{"at least 0", trainer.Direct{Step: 0.1, Draw: at(0.05)}.Ways, samples},
		{"no way leads", func([]trainer.Sample) ([]trainer.GradientPath, error) { return nil, nil }, samples},
	} {
		o := trainer.RewardGradient{Developer: p, Ways: c.ways, Reward: bowl}
		if _, err := o.Evaluate(p, c.of, nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q was expected: %v", c.says, err)
		}
	}
}
