package tables

import (
	"slices"

	"github.com/darkroom-rl/darkroom/rewards/edits"
)

// Card: TEDS (Zhong et al. 2020, PubTabNet), as table_recognition_metric computes it:
//
//	1 - distance of the trees / nodes of the larger tree
//
// A node is put in or taken out for 1. Of two nodes, another tag or another span is 1, and two cells differ by
// Levenshtein's distance of their tokens over the longer. Structure leaves out the cells' texts. The distance is by
// Zhang and Shasha (1989). Where either text has no table, the similarity is 0.
// Invariants (tests): equal tables have 1; recorded values of upstream.

// TEDS is the similarity of two texts' first tables.
func TEDS(got, want string, structure bool) (float64, error) {
	if got == "" || want == "" {
		return 0, nil
	}
	a, err := Parse(got, !structure)
	if err != nil {
		return 0, err
	}
	b, err := Parse(want, !structure)
	if err != nil || a == nil || b == nil {
		return 0, err
	}
	return 1 - Distance(a, b)/float64(max(a.Size(), b.Size())), nil
}

// ordered is a tree's nodes, children first, and for each the place of its first leaf; keys are the roots of the
// distances that are computed.
type ordered struct {
	nodes  []*Node
	leaves []int
	keys   []int
}

func order(root *Node) (o ordered) {
	var walk func(n *Node) int
	walk = func(n *Node) int {
		first := -1
		for _, c := range n.Children {
			if leaf := walk(c); first < 0 {
				first = leaf
			}
		}
		if first < 0 {
			first = len(o.nodes)
		}
		o.nodes, o.leaves = append(o.nodes, n), append(o.leaves, first)
		return first
	}
	walk(root)
	seen := map[int]bool{}
	for i := len(o.nodes) - 1; i >= 0; i-- {
		if !seen[o.leaves[i]] {
			seen[o.leaves[i]] = true
			o.keys = append(o.keys, i)
		}
	}
	slices.Reverse(o.keys)
	return o
}

// Distance is the least cost of turning one tree into the other.
func Distance(a, b *Node) float64 {
	x, y := order(a), order(b)
	table := func(rows, columns int) [][]float64 {
		t := make([][]float64, rows)
		for i := range t {
			t[i] = make([]float64, columns)
		}
		return t
	}
	n, m := len(x.nodes), len(y.nodes)
	cost, trees, forest := table(n, m), table(n, m), table(n+1, m+1)
	for i, p := range x.nodes {
		for j, q := range y.nodes {
			cost[i][j] = rename(p, q)
		}
	}
	for _, i := range x.keys {
		for _, j := range y.keys {
			li, lj := x.leaves[i], y.leaves[j]
			forest[li][lj] = 0
			for s := li; s <= i; s++ {
				forest[s+1][lj] = forest[s][lj] + 1
			}
			for t := lj; t <= j; t++ {
				forest[li][t+1] = forest[li][t] + 1
			}
			for s := li; s <= i; s++ {
				for t := lj; t <= j; t++ {
					v := min(forest[s][t+1]+1, forest[s+1][t]+1)
					if x.leaves[s] == li && y.leaves[t] == lj {
						v = min(v, forest[s][t]+cost[s][t])
						trees[s][t] = v
					} else {
						v = min(v, forest[x.leaves[s]][y.leaves[t]]+trees[s][t])
					}
					forest[s+1][t+1] = v
				}
			}
		}
	}
	return trees[n-1][m-1]
}

// rename is the cost of one node in the place of the other.
func rename(a, b *Node) float64 {
	switch {
	case a.Tag != b.Tag || a.ColSpan != b.ColSpan || a.RowSpan != b.RowSpan:
		return 1
	case len(a.Cell)+len(b.Cell) == 0 || slices.Equal(a.Cell, b.Cell):
		return 0
	}
	return float64(edits.Between(a.Cell, b.Cell)) / float64(max(len(a.Cell), len(b.Cell)))
}
