package pictures

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Settings of an experiment of trees.
var (
	branching = []string{"sampler.solver=dance", "sampler.window={kind='full', drop=1}", "sampler.tree={splits=[0, 2], scale=2.0}", "advantage.estimator=tree", "rollout.group=4"}
	trunks    = []string{"sampler.tree={kind='trunk', children=2}", "rollout.group=4", "loss.kl={weight=0.01, over='deviation'}"}
)

// parse is an experiment of four steps.
func parse(t *testing.T, sets ...string) *experiment.Experiment {
	t.Helper()
	const small = `
[run]
name = "small"
iterations = 4
[model]
path = "embed:tiny-sd3"
[sampler]
steps = 4
window = { kind = "sliding", size = 2, every = 1, drop = 1 }
[rollout]
prompts = "embed:scenes"
prompts_per_iteration = 2
group = 3
[[reward]]
name = "scene"
`
	e, err := experiment.Parse("small.toml", []byte(small), sets)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// leaves are samples of a forest as the policy rolls them, without pictures.
func leaves(f *Forest, steps []int, prompts, each int) []trainer.Sample {
	var all []trainer.Sample
	for p := range prompts {
		for k := range each {
			s := trainer.Sample{Key: trainer.Key{Prompt: p, Sample: k}}
			for _, step := range steps {
				if n := f.Node(k, step); f.Shape.SDE[n] {
					s.Decisions.Step = append(s.Decisions.Step, step)
					s.Decisions.LogProb = append(s.Decisions.LogProb, -float64(n))
					s.Decisions.Trained = append(s.Decisions.Trained, true)
				}
			}
			all = append(all, s)
		}
	}
	return all
}

// TestCredit: every edge that drew and is not pruned is judged once, by the estimator's advantage, whichever of the
// leaves below has a score.
func TestCredit(t *testing.T) {
	for name, sets := range map[string][]string{"branching": branching, "trunks": trunks,
		"by probability": append(slices.Clone(branching), "sampler.tree.fuse=probability"),
		"pruned":         append(slices.Clone(branching), "sampler.tree.prune.depths=[2]"),
		"narrowed":       append(slices.Clone(branching), "sampler.steps=7", "sampler.tree.prune.width=ends", "sampler.tree.prune.ratio=0.5"),
		"rewards":        append(slices.Clone(branching), `reward=[{name="scene"}, {name="jpeg", weight=3}]`, "advantage.combine=advantages")} {
		settings, err := parse(t, sets...).Iteration(1)
		if err != nil {
			t.Fatal(err)
		}
		f, err := forest(settings)
		if err != nil {
			t.Fatal(err)
		}
		samples := leaves(f, settings.Trained, 2, settings.Samples())
		rewards, weights := [][]float64{make([]float64, len(samples))}, []float64(nil)
		for i := range samples {
			rewards[0][i] = math.Sin(float64(3 * i))
		}
		rewards[0][0], rewards[0][5] = math.NaN(), math.NaN()
		if name == "rewards" {
			other := slices.Clone(rewards[0])
			slices.Reverse(other)
			other[0], other[5] = rewards[0][0], rewards[0][5]
			for i, v := range rewards[0] {
				if math.IsNaN(other[i]) && !math.IsNaN(v) {
					other[i] = 1
				}
			}
			rewards, weights = append(rewards, other), []float64{1, 3}
		}
		got, err := credit(settings, f, samples, rewards, weights)
		if err != nil {
			t.Fatal(err)
		}
		judged := map[string]float64{}
		for i, s := range samples {
			if math.IsNaN(got[i]) != math.IsNaN(rewards[0][i]) {
				t.Errorf("%s: sample %d has the reward %v and the advantage %v", name, i, rewards[0][i], got[i])
			}
			tree, _ := f.At(s.Key.Sample)
			for k, step := range s.Decisions.Step {
				if !s.Decisions.Trained[k] {
					continue
				}
				edge := fmt.Sprint(s.Key.Prompt, tree, f.Node(s.Key.Sample, step))
				if _, twice := judged[edge]; twice || math.IsNaN(got[i]) {
					t.Errorf("%s: edge %s is judged twice, or by a sample without a score", name, edge)
				}
				judged[edge] = s.Decisions.Advantage[k]
			}
		}
		want, known := map[string]float64{}, 0
		trees := grow(f, samples)
		for i, g := range trees {
			worth := make([]float64, len(g.Parent))
			for r, scores := range rewards {
				a, err := compareLeaves(settings, trees, scores)
				if err != nil {
					t.Fatal(err)
				}
				w := 1.0
				if weights != nil {
					w = weights[r]
				}
				for n := range worth {
					worth[n] += w * a[i][n]
				}
			}
			number := 0
			if place := slices.IndexFunc(g.sample, func(i int) bool { return i >= 0 }); place >= 0 {
				number, _ = f.At(samples[g.sample[place]].Key.Sample)
			}
			for _, n := range settings.Judged(g.Tree, worth) {
				want[fmt.Sprint(g.prompt, number, n)] = worth[n]
				known++
			}
		}
		if len(judged) != known || known == 0 {
			t.Errorf("%s: %d edges are judged of %d", name, len(judged), known)
		}
		for edge, a := range judged {
			if w, ok := want[edge]; !ok || a != w {
				t.Errorf("%s: edge %s has %v, not %v", name, edge, a, w)
			}
		}
	}
}
