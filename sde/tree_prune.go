package sde

import (
	"math"
	"slices"
)

// Pruning leaves edges out of training (the samples are made all the same):
//
//	depth  edges whose child has a listed depth; sliding moves the list towards the root by
//	       one every SlideEvery updates, until its first reaches StopDepth
//	width  of the edges after the last split: "branch" keeps, below each branch, the share
//	       Ratio with the best advantages (at least one); "ends" keeps the best and the
//	       worst k/2, k = max(2, the share of all)
//	mixed  edges that did not draw
//
// Depth and width stop at the share Until of the updates. Edges whose advantage is missing are
// never trained.
type Pruning struct {
	Depths      []int   `toml:"depths" doc:"depths whose edges are not trained"`
	Slide       bool    `toml:"slide" doc:"move the depths towards the root"`
	SlideEvery  int     `toml:"slide_every" range:"[1,inf)" doc:"updates between moves"`
	StopDepth   int     `toml:"stop_depth" doc:"where sliding stops; -1: at the last split"`
	Width       string  `toml:"width" enum:"none,branch,ends" doc:"which edges after the last split are trained"`
	Ratio       float64 `toml:"ratio" range:"[0,1]" doc:"the share that width keeps"`
	Until       float64 `toml:"until" range:"[0,1]" doc:"the share of updates after which nothing is pruned"`
	Mixed       bool    `toml:"mixed" doc:"only edges that drew"`
	MixedWindow int     `toml:"mixed_window" range:"[0,inf)" doc:"steps that draw, every slide_every"`
}

// Kept are the children of the edges that are trained at an update, ascending.
func (p Pruning) Kept(t *Tree, advantages []float64, splits []int, steps, update, updates int) []int {
	edges := slices.DeleteFunc(span(1, len(t.Parent)), func(n int) bool { return math.IsNaN(advantages[n]) })
	last := 0
	for _, s := range splits {
		last = max(last, s)
	}
	if p.Mixed {
		edges = slices.DeleteFunc(edges, func(n int) bool {
			step := t.Step[t.Parent[n]]
			return !slices.Contains(splits, step) && !InMixedWindow(step, steps, p.MixedWindow, max(1, p.SlideEvery))
		})
	}
	depths, narrow := p.At(splits, update, updates)
	edges = slices.DeleteFunc(edges, func(n int) bool { return slices.Contains(depths, t.Depth[n]) })
	if narrow {
		edges = p.narrow(t, edges, advantages, last)
	}
	slices.Sort(edges)
	return edges
}

// At returns the depths that an update prunes, and whether it chooses among late edges.
func (p Pruning) At(splits []int, update, updates int) (depths []int, narrow bool) {
	if update > int(float64(updates)*p.Until) {
		return nil, false
	}
	last := 0
	for _, s := range splits {
		last = max(last, s)
	}
	if len(p.Depths) > 0 {
		depths = p.depths(last, update)
	}
	return depths, p.Width == "branch" || p.Width == "ends"
}

// depths are the listed ones, moved.
func (p Pruning) depths(lastSplit, update int) []int {
	depths := slices.Clone(p.Depths)
	slices.Sort(depths)
	if !p.Slide {
		return depths
	}
	stop := p.StopDepth
	if stop < 0 {
		stop = lastSplit
	}
	shift := min(update/max(p.SlideEvery, 1), max(0, depths[0]-stop))
	for i := range depths {
		depths[i] -= shift
	}
	return depths
}

// narrow keeps some of the edges after the last split.
func (p Pruning) narrow(t *Tree, edges []int, advantages []float64, last int) []int {
	best := func(a, b int) int {
		switch {
		case advantages[a] > advantages[b]:
			return -1
		case advantages[a] < advantages[b]:
			return 1
		}
		return 0
	}
	var kept, late []int
	for _, n := range edges {
		if t.Step[t.Parent[n]] > last {
			late = append(late, n)
		} else {
			kept = append(kept, n)
		}
	}
	if p.Width == "ends" {
		k := max(2, int(float64(len(late))*p.Ratio))
		slices.SortStableFunc(late, best)
		high := min(k/2, len(late))
		return append(append(kept, late[:high]...), late[max(high, len(late)-(k-k/2)):]...)
	}
	branches := map[int][]int{}
	for _, n := range late {
		root := t.Parent[n]
		for t.Step[root] > last+1 && t.Parent[root] >= 0 {
			root = t.Parent[root]
		}
		branches[root] = append(branches[root], n)
	}
	for _, nodes := range branches {
		slices.SortStableFunc(nodes, best)
		kept = append(kept, nodes[:max(1, int(float64(len(nodes))*p.Ratio))]...)
	}
	return kept
}
