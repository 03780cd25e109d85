package pictures

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// A Forest is trees whose leaves are a prompt's samples: sample k is leaf k % leaves of tree k / leaves. Nothing
// grows step by step here: each sample knows the draws on its way, and the pipeline computes once the common
// beginnings of several.
//
// A sample's decisions are the edges on its way that drew, those that it shares with others
// among them; who compares samples gives every edge to one.
//
// Invariants (tests): the network runs as often as sde.Growth.Passes counts, and a sample has
// the bits that it has alone.
type Forest struct {
	Shape         *sde.Tree // of each tree
	Deterministic []sde.Row // of edges that draw nothing
	Trunk         bool      // branches leave one path without noise, and end without noise

	ways   [][]int   // the nodes on the way to a leaf, one a step
	branch []int     // of a node: its number among those whose edge drew in the same step
	scale  []float64 // of a step's noise
}

// NewForest is a forest of trees that grow so in some steps.
func NewForest(g sde.Growth, steps int) *Forest {
	f := &Forest{Trunk: g.Trunk}
	f.Shape, f.ways = g.Layout(steps)
	f.branch = make([]int, len(f.Shape.Parent))
	drew := make([]int, steps+1)
	for n, step := range f.Shape.Step {
		if f.Shape.SDE[n] {
			f.branch[n] = drew[step]
			drew[step]++
		}
	}
	for step := range steps {
		f.Deterministic, f.scale = append(f.Deterministic, g.Deterministic(step)), append(f.scale, 1)
	}
	for _, step := range g.Splits {
		f.scale[step] = g.Scale
	}
	return f
}

// At is the tree and the leaf that a sample is.
func (f *Forest) At(sample int) (tree, leaf int) {
	return sample / len(f.ways), sample % len(f.ways)
}

// Node is where a sample is after a step.
func (f *Forest) Node(sample, step int) int {
	_, leaf := f.At(sample)
	return f.ways[leaf][step]
}

// hang puts a picture on its way through its tree. A tree's draws have the coordinates of a
// sample with the tree's number.
func (f *Forest) hang(pic *pipeline.Picture, d trainer.Draws, k trainer.Key) {
	sample := k.Sample
	k.Sample, _ = f.At(sample)
	d.Shared = false // by all trees
	start, step := d.Keys(k)
	pic.StartKey = start
	pic.Draw = func(s int) pipeline.Draw {
		n := f.Node(sample, s)
		if !f.Shape.SDE[n] {
			return pipeline.Draw{}
		}
		return pipeline.Draw{On: true, Key: step.Step(s).Branch(f.branch[n]), Scale: f.scale[s]}
	}
}

// Where samples are the leaves of trees, credit is given to edges: each edge that drew is one
// decision with an advantage of its own. Of the leaves below it the first that has a score is
// blamed for it, and no other, so that an edge is judged once and not once a leaf.
//
// Invariants (tests): every edge that drew and is not pruned is judged exactly once, as long as one leaf below it has
// a score; its advantage does not depend on the sample.

// forest is how an iteration's samples hang together; nil where they do not.
func forest(settings experiment.Settings) (*Forest, error) {
	if settings.Sampler.Tree == nil {
		return nil, nil
	}
	g, err := settings.Sampler.Growth(settings.Window)
	if err != nil {
		return nil, err
	}
	return NewForest(g, settings.Sampler.Steps), nil
}

// A grown tree is one of a prompt's, with the place of the sample that each leaf became.
type grown struct {
	*sde.Tree
	prompt int
	sample []int // by leaf; -1: none
}

// grow puts samples together to trees, in the order of their first samples.
func grow(f *Forest, samples []trainer.Sample) []grown {
	type name struct{ prompt, tree int }
	var all []grown
	at := map[name]int{}
	for i, s := range samples {
		number, leaf := f.At(s.Key.Sample)
		n := name{s.Key.Prompt, number}
		if _, ok := at[n]; !ok {
			at[n] = len(all)
			shape := *f.Shape
			shape.LogProb = make([]float64, len(shape.Parent))
			g := grown{Tree: &shape, prompt: s.Key.Prompt}
			for range shape.Leaves {
				g.sample = append(g.sample, -1)
			}
			all = append(all, g)
		}
		g := all[at[n]]
		g.sample[leaf] = i
		for k, step := range s.Decisions.Step {
			g.LogProb[f.Node(s.Key.Sample, step)] = s.Decisions.LogProb[k]
		}
	}
	return all
}

// Credit implements model.Model.
func (m *Model) Credit(samples []trainer.Sample, _ []float64, b advantage.Batch, by advantage.Estimator) ([]float64, error) {
	if m.Forest != nil {
		return credit(m.settings, m.Forest, samples, b.Rewards, b.Weights)
	}
	a, _, err := by.Advantages(b)
	return a, err
}

// credit gives every edge its advantage, and every sample that of the edge that led to it. rewards are compared each
// by itself, and added up by weights.
func credit(settings experiment.Settings, f *Forest, samples []trainer.Sample, rewards [][]float64, weights []float64) ([]float64, error) {
	trees := grow(f, samples)
	if len(weights) == 0 {
		weights = []float64{1}
	}
	worth := make([][]float64, len(trees))
	parts := make([][][]float64, len(trees)) // of a tree, by reward and node
	for _, scores := range rewards {
		a, err := compareLeaves(settings, trees, scores)
		if err != nil {
			return nil, err
		}
		for i := range trees {
			parts[i] = append(parts[i], a[i])
		}
	}
	several := advantage.Several{Partial: settings.Advantage.Partial}
	out := make([]float64, len(samples))
	for i := range out {
		out[i] = math.NaN()
	}
	for i, t := range trees {
		var err error
		if worth[i], err = several.Add(parts[i], weights); err != nil {
			return nil, err
		}
		for k, place := range t.sample {
			if place < 0 {
				continue
			}
			n := t.Leaves[k]
			if f.Trunk {
				n = t.Drawn(n)
			}
			out[place] = worth[i][n]
		}
		blame(settings, f, t, worth[i], samples, out)
	}
	return out, nil
}

// compareLeaves are the advantages of all trees' nodes by one reward of the samples.
func compareLeaves(settings experiment.Settings, trees []grown, scores []float64) ([][]float64, error) {
	var prompts []int
	var bare []*sde.Tree
	var rewards [][]float64
	for _, t := range trees {
		r := make([]float64, len(t.sample))
		for k, place := range t.sample {
			if r[k] = math.NaN(); place >= 0 {
				r[k] = scores[place]
			}
		}
		prompts, bare, rewards = append(prompts, t.prompt), append(bare, t.Tree), append(rewards, r)
	}
	a, err := settings.Credit(prompts, bare, rewards)
	if err != nil {
		return nil, fmt.Errorf("comparing the leaves of trees: %w", err)
	}
	return a, nil
}

// blame returns for every sample the edges that it is trained on, and their advantages. Samples without an advantage
// are blamed for nothing.
func blame(settings experiment.Settings, f *Forest, t grown, worth []float64, samples []trainer.Sample, advantages []float64) {
	free := make([]bool, len(worth))
	for _, n := range settings.Judged(t.Tree, worth) {
		free[n] = true
	}
	for _, place := range t.sample {
		if place < 0 {
			continue
		}
		d := &samples[place].Decisions
		d.Advantage = make([]float64, len(d.Step))
		for k, step := range d.Step {
			n := f.Node(samples[place].Key.Sample, step)
			d.Trained[k] = free[n] && !math.IsNaN(advantages[place])
			if d.Trained[k] {
				free[n], d.Advantage[k] = false, worth[n]
			}
		}
	}
}
