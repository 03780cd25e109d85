package sde

// Layout is the tree that Run grows of steps, as far as its shape goes: log-probabilities are
// 0. ways[leaf] are the nodes on the way to a leaf, the first one after the first step.
//
// Invariant (test): it is Run's tree.
func (g Growth) Layout(steps int) (t *Tree, ways [][]int) {
	still := func(int) Row { return Row{} }
	g.Stochastic, g.Deterministic = still, still
	nothing := func() []float64 { return nil }
	t, _, _ = g.Run(steps, nil, func([]float64, int) []float64 { return nil }, nothing)
	for _, leaf := range t.Leaves {
		way := make([]int, steps)
		for n := leaf; n > 0; n = t.Parent[n] {
			way[t.Step[n]-1] = n
		}
		ways = append(ways, way)
	}
	return t, ways
}
