package report

import (
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// titled is a plot by its title, with the ends of its first curve; "" where it is not drawn.
func titled(r *Run, title string) (curves []string, first, last float64) {
	all := r.plots()
	i := slices.IndexFunc(all, func(p Plot) bool { return p.Title == title })
	if i < 0 {
		return nil, math.NaN(), math.NaN()
	}
	for _, c := range all[i].Curves {
		curves = append(curves, c.Name)
	}
	y := all[i].Curves[0].Y
	return curves, y[0], y[len(y)-1]
}

// TestUpdates: a page has the numbers of updates, and no curve without meaning.
func TestUpdates(t *testing.T) {
	line := func(i int, u ledger.UpdateLine) ledger.Line {
		return ledger.Line{Iteration: i, Prompts: []int{0, 1}, Samples: 8, Spread: 0.1, Diversity: 2, Updates: []ledger.UpdateLine{{Loss: 9}, u}}
	}
	clip := func(i int, kl float64) ledger.Line {
		return line(i, ledger.UpdateLine{Loss: -0.5, Gradient: 3, Rate: 1e-5, RatioMean: 1.001, RatioMost: 0.98, Metrics: map[string]float64{"clipped": 0.25, "clipped_high": 0.2, "clipped_low": 0.05, "approx_kl": 1e-6, "kl": kl}})
	}
	groups, rolled := []string{"deviation of the reward", "share of groups with one reward"}, []string{"root mean squared difference of latents"}
	for _, c := range []struct {
		what string
		of   Run
		has  map[string][]string // nil: it is not drawn
		last map[string]float64
	}{
		{"a clipped objective with KL, one iteration", Run{Lines: []ledger.Line{clip(1, 0.02)}},
			map[string][]string{"Loss": {"of the last update"}, "KL to the reference model": {"mean"}, "Clip fraction": {"share of ratios that are clipped", "above the range", "below it"}, "Learning rate": {"of the last update"}, "Rewards inside groups": groups},
			map[string]float64{"Loss": -0.5, "KL to the reference model": 0.02, "Clip fraction": 0.25, "Learning rate": 1e-5, "Gradient": 3, "Ratio of the last update, less 1": 0.02, "Approximate KL of an iteration's updates": 1e-6}},
		{"without a reference", Run{Lines: []ledger.Line{clip(1, 0), clip(2, 0)}}, map[string][]string{"KL to the reference model": nil, "Difference between samples of a prompt": rolled}, nil},
		{"an objective without ratios", Run{Lines: []ledger.Line{line(1, ledger.UpdateLine{Loss: 1, Gradient: 1, Rate: 1})}},
			map[string][]string{"Ratio of the last update, less 1": nil, "Clip fraction": nil, "Approximate KL of an iteration's updates": nil, "Loss": {"of the last update"}}, nil},
		{"an iteration without an update behind one with it", Run{Lines: []ledger.Line{clip(1, 0.1), {Iteration: 2, Samples: 2, Prompts: []int{0}}}}, nil, map[string]float64{"Loss": -0.5}},
		{"one sample a prompt", Run{Lines: []ledger.Line{{Iteration: 1, Prompts: []int{0, 1}, Samples: 2, Dead: 2}}}, map[string][]string{"Rewards inside groups": nil, "Difference between samples of a prompt": nil}, nil},
		{"conversations", Run{Lines: []ledger.Line{clip(1, 0)}, experiment: &experiment.Experiment{Episode: &experiment.Episode{}}}, map[string][]string{"Difference between samples of a prompt": {"share of pairs with other words"}}, nil},
		{"a second stage without groups", Run{Lines: []ledger.Line{clip(1, 0), {Iteration: 2, Prompts: []int{0, 1}, Samples: 2, Dead: 2}}}, map[string][]string{"Rewards inside groups": groups}, map[string]float64{"Rewards inside groups": 0.1}},
	} {
		for title, want := range c.has {
			if got, _, _ := titled(&c.of, title); !slices.Equal(got, want) {
				t.Errorf("%s: %q has curves %q, want %q", c.what, title, got, want)
			}
		}
		for title, want := range c.last {
			if _, _, got := titled(&c.of, title); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: %q ends at %v, want %v", c.what, title, got, want)
			}
		}
	}
}
