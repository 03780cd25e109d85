package boxes

import "fmt"

// Card: matched layout. Boxes that were found are paired with those asked for, so that the sum
// of their scores is the largest; a pair's score is 0 where labels differ, else the IoU, or, at least 0, (1 + x)/2 with
// x the GIoU, DIoU or CIoU, which also say how far boxes are that do not touch:
//
//	reward = Σ scores above the threshold / (how many were asked for, were found, or the larger)
//
// Nothing asked for and nothing found is 1; one of the two is 0. Divided by what was asked for,
// boxes too many cost nothing; by the larger of both they do.
// Invariants (tests): the order of boxes does not matter; the layout asked for is 1.
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

// A Pair is a found box, the one asked for, and what the two are worth.
type Pair struct {
	Found, Want int
	Score       float64
}

// Labelled is a box and what it is.
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
