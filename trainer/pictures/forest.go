package pictures

import (
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
)

// A Forest is trees whose leaves are a prompt's samples: sample k is leaf k % leaves of tree
// k / leaves. Nothing grows step by step here: each sample knows what is drawn on its way, and
// the pipeline computes once what several have in common.
//
// A sample's decisions are the edges on its way that drew, those that it shares with others
// among them; who compares samples gives every edge to one.
//
// Invariants (tests): the network runs as often as sde.Growth.Passes counts, and a sample has
// the bits that it has alone.
type Forest struct {
	Shape *sde.Tree // of each tree
	Quiet []sde.Row // of edges that draw nothing
	Trunk bool      // branches leave one path without noise, and end without noise

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
		f.Quiet, f.scale = append(f.Quiet, g.Deterministic(step)), append(f.scale, 1)
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
