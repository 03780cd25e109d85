package boxes

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Card: matched layout. Boxes that were found are paired with those asked for, so that the sum
// of their scores is the largest; a pair's score is 0 where labels differ, else the IoU, or, at least 0, (1 + x)/2 with
// x the GIoU, DIoU or CIoU, which also say how far boxes are that do not touch:
//
//	reward = Σ scores above the threshold / (how many were asked for, were found, or the larger)
//
// Nothing asked for and nothing found is 1; one of the two is 0. Divided by the number of boxes asked for, boxes too
// many cost nothing; by the larger of both they do. Invariants (tests): the order of boxes does not matter; the
// layout asked for is 1.
type Matching struct {
	Score     string  `toml:"score" enum:"iou,giou,diou,ciou" doc:"what a pair is worth"`
	Threshold float64 `toml:"threshold" range:"[0,1]" doc:"pairs must be worth more"`
	DivideBy  string  `toml:"divide_by" enum:"max,want,pred" doc:"max: the larger of what was asked for and what was found"`
}

// worth is a pair's score.
func (m Matching) worth(found, want Box) float64 {
	switch m.Score {
	case "giou":
		return (1 + GIoU(found, want)) / 2
	case "diou":
		return (1 + DIoU(found, want)) / 2
	case "ciou": // other shapes cost up to 1 more
		return max(0, (1+CIoU(found, want))/2)
	}
	return IoU(found, want)
}

// A Pair is a found box, a box that was asked for, and the score of the two.
type Pair struct {
	Found, Want int
	Score       float64
}

// Labelled is a box with its label.
type Labelled struct {
	Box   Box
	Label string
}

// Match pairs boxes up, and returns the reward.
func (m Matching) Match(found, want []Labelled) (reward float64, pairs []Pair, err error) {
	if len(found) == 0 && len(want) == 0 {
		return 1, nil, nil
	}
	if len(found) == 0 || len(want) == 0 {
		return 0, nil, nil
	}
	scores := make([][]float64, len(found))
	for i, f := range found {
		scores[i] = make([]float64, len(want))
		for j, w := range want {
			if f.Label != w.Label {
				continue
			}
			scores[i][j] = m.worth(f.Box, w.Box)
		}
	}
	rows, columns, err := Assign(scores, true)
	if err != nil {
		return 0, nil, err
	}
	sum := 0.0
	for k, i := range rows {
		if v := scores[i][columns[k]]; v > m.Threshold {
			pairs = append(pairs, Pair{i, columns[k], v})
			sum += v
		}
	}
	switch m.DivideBy {
	case "want":
		return sum / float64(len(want)), pairs, nil
	case "pred":
		return sum / float64(len(found)), pairs, nil
	case "max", "":
		return sum / float64(max(len(found), len(want))), pairs, nil
	}
	return 0, nil, fmt.Errorf("a layout is not divided by %q: it is max, want or pred", m.DivideBy)
}

// Card: the assignment problem. Of a matrix of scores, min(rows, columns) places are chosen, no
// two in one row or column, so that their sum is the largest (or smallest). Shortest
// augmenting paths with potentials (Jonker and Volgenant 1987, as Crouse 2016 writes it for
// rectangles), in the order of scipy.optimize.linear_sum_assignment, so that ties fall alike.
// Invariant (test): no permutation of a small matrix is better.

// Assign returns the chosen places' rows, rising, and their columns.
func Assign(score [][]float64, maximise bool) (rows, columns []int, err error) {
	cost, turned, err := costs(score, maximise)
	if err != nil || len(cost) == 0 {
		return nil, nil, err
	}
	columnOf := newMatching(cost).solve()
	for i, j := range columnOf {
		rows, columns = append(rows, i), append(columns, j)
	}
	if !turned {
		return rows, columns, nil
	}
	slices.SortFunc(rows, func(a, b int) int { return cmp.Compare(columnOf[a], columnOf[b]) })
	for k, i := range rows {
		columns[k] = columnOf[i]
	}
	return columns, rows, nil
}

// costs is a matrix to minimise that has no more rows than columns.
func costs(score [][]float64, maximise bool) (cost [][]float64, turned bool, err error) {
	if len(score) == 0 || len(score[0]) == 0 {
		return nil, false, nil
	}
	n, m := len(score), len(score[0])
	turned = m < n
	cost = make([][]float64, min(n, m))
	for i := range cost {
		cost[i] = make([]float64, max(n, m))
	}
	for i, row := range score {
		if len(row) != m {
			return nil, false, fmt.Errorf("row %d of the scores has %d columns, row 0 has %d", i, len(row), m)
		}
		for j, v := range row {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, false, fmt.Errorf("score %d, %d is %v: rows can only be assigned by numbers", i, j, v)
			}
			if maximise {
				v = -v
			}
			if turned {
				cost[j][i] = v
			} else {
				cost[i][j] = v
			}
		}
	}
	return cost, turned, nil
}

// A matching grows row by row.
type matching struct {
	cost     [][]float64
	u, v     []float64 // potentials of rows and columns
	columnOf []int     // of a row
	rowOf    []int     // of a column, -1 while it is free
	// of one search:
	from    []int     // the row that a column is reached from
	far     []float64 // and how far it is
	inTree  []bool    // rows
	settled []bool    // columns
}

func newMatching(cost [][]float64) *matching {
	n, m := len(cost), len(cost[0])
	a := &matching{cost: cost, u: make([]float64, n), v: make([]float64, m), columnOf: make([]int, n), rowOf: make([]int, m), from: make([]int, m), far: make([]float64, m)}
	for j := range a.rowOf {
		a.rowOf[j] = -1
	}
	return a
}

func (a *matching) solve() (columnOf []int) {
	for row := range a.cost {
		j, length := a.search(row)
		a.u[row] += length
		for i, in := range a.inTree {
			if in && i != row {
				a.u[i] += length - a.far[a.columnOf[i]]
			}
		}
		for j, in := range a.settled {
			if in {
				a.v[j] -= length - a.far[j]
			}
		}
		for i := -1; i != row; {
			i = a.from[j]
			a.rowOf[j] = i
			a.columnOf[i], j = j, a.columnOf[i]
		}
	}
	return a.columnOf
}

// search is the shortest way from a row to a free column.
func (a *matching) search(i int) (free int, length float64) {
	m := len(a.v)
	left := make([]int, m) // columns in reverse, so that a constant matrix gives the diagonal
	for j := range left {
		left[j] = m - 1 - j
		a.far[j] = math.Inf(1)
	}
	a.inTree, a.settled = make([]bool, len(a.u)), make([]bool, m)
	for {
		a.inTree[i] = true
		at, lowest := 0, math.Inf(1)
		for k, j := range left {
			if r := length + a.cost[i][j] - a.u[i] - a.v[j]; r < a.far[j] {
				a.from[j], a.far[j] = i, r
			}
			// Of equals, a free column ends the search.
			if a.far[j] < lowest || a.far[j] == lowest && a.rowOf[j] < 0 {
				at, lowest = k, a.far[j]
			}
		}
		length = lowest
		j := left[at]
		a.settled[j] = true
		if a.rowOf[j] < 0 {
			return j, length
		}
		i = a.rowOf[j]
		left[at] = left[len(left)-1]
		left = left[:len(left)-1]
	}
}
