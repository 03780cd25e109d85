package boxes

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// Card: COCO's average precision and recall, as pycocotools computes them. Found boxes, best score first, take the
// free truth that they overlap most, if the IoU reaches a threshold; matched boxes are right, others wrong.
// Precision, made falling, is read at 101 recalls and averaged; then averaged over thresholds .50, .55 ... .95 and
// over classes.
//
// A crowd is a truth that may be matched often, by the share of the found box that lies in it,
// and counts neither way; so does a truth outside the range of sizes that is asked about, and an
// unmatched found box outside it. Where a range has no truth the answer is -1.
// Invariants (tests): truth found with rising confidence is 1; nothing found is 0.

// A Rect is a corner and a size, as COCO writes boxes: a width is not the difference of two
// numbers that rounding has touched.
type Rect struct{ X, Y, W, H float64 }

// overlap is the IoU with a truth, or for a crowd the share of r that lies in it.
func (r Rect) overlap(truth Truth) float64 {
	w := min(r.X+r.W, truth.X+truth.W) - max(r.X, truth.X)
	h := min(r.Y+r.H, truth.Y+truth.H) - max(r.Y, truth.Y)
	if w <= 0 || h <= 0 {
		return 0
	}
	all := float64(r.W * r.H)
	if !truth.Crowd {
		all += float64(truth.W*truth.H) - float64(w*h)
	}
	return w * h / all
}

// A Truth is a box that there is.
type Truth struct {
	Rect
	Image, Class int
	Crowd        bool
}

// A Found box is one that a detector claims.
type Found struct {
	Rect
	Image, Class int
	Score        float64
}

// Precision has the numbers that COCO's evaluation prints. -1 stands for a number without a truth.
type Precision struct {
	AP, AP50, AP75             float64
	APSmall, APMedium, APLarge float64   // areas up to 32², up to 96², and beyond
	AR1, AR10, AR100           float64   // recall with at most this many boxes a picture and class
	ARSmall, ARMedium, ARLarge float64   // of AR100
	PerClass                   []float64 // AP of each class
}

// linspace has numpy's numbers, whose last bits decide cases at the edge.
func linspace(from, to float64, n int) []float64 {
	step := (to - from) / float64(n-1)
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(float64(i)*step) + from
	}
	x[n-1] = to
	return x
}

var ranges = [4][2]float64{{0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}}
var limits = [3]int{1, 10, 100} // found boxes of a picture and class that count

// AveragePrecision judges found boxes of classes 0 to classes-1.
func AveragePrecision(truth []Truth, found []Found, classes int) Precision {
	e := evaluation{thresholds: linspace(.5, .95, 10), recalls: linspace(0, 1, 101)}
	var curves [len(ranges)][len(limits)][]curve // of every class
	for class := range classes {
		pictures := e.pictures(truth, found, class)
		for a := range ranges {
			for m := range limits {
				curves[a][m] = append(curves[a][m], e.curve(pictures, ranges[a], limits[m]))
			}
		}
	}
	const all, small, medium, large = 0, 1, 2, 3
	of := curves
	p := Precision{
		AP: precision(of[all][2], -1), AP50: precision(of[all][2], 0), AP75: precision(of[all][2], 5),
		APSmall: precision(of[small][2], -1), APMedium: precision(of[medium][2], -1), APLarge: precision(of[large][2], -1),
		AR1: recall(of[all][0]), AR10: recall(of[all][1]), AR100: recall(of[all][2]),
		ARSmall: recall(of[small][2]), ARMedium: recall(of[medium][2]), ARLarge: recall(of[large][2]),
	}
	for class := range classes {
		p.PerClass = append(p.PerClass, precision(of[all][2][class:class+1], -1))
	}
	return p
}

// A curve is a class's precision at each threshold and recall, and its largest recalls; nil
// where there is no truth.
type curve struct {
	precision [][]float64
	recall    []float64
}

// precision is the mean over classes, recalls, and all thresholds or the one asked for.
func precision(classes []curve, threshold int) float64 {
	sum, n := 0.0, 0
	for _, c := range classes {
		for t, q := range c.precision {
			if threshold >= 0 && t != threshold {
				continue
			}
			for _, v := range q {
				sum, n = sum+v, n+1
			}
		}
	}
	return mean(sum, n)
}

func recall(classes []curve) float64 {
	sum, n := 0.0, 0
	for _, c := range classes {
		for _, v := range c.recall {
			sum, n = sum+v, n+1
		}
	}
	return mean(sum, n)
}

func mean(sum float64, n int) float64 {
	if n == 0 {
		return -1
	}
	return sum / float64(n)
}

type evaluation struct{ thresholds, recalls []float64 }

// A picture has the truths and the found boxes of one class, best first.
type picture struct {
	truth []Truth
	found []Found
	iou   [][]float64 // [found][truth]
}

func (e evaluation) pictures(truth []Truth, found []Found, class int) []picture {
	at := map[int]*picture{}
	of := func(image int) *picture {
		if at[image] == nil {
			at[image] = &picture{}
		}
		return at[image]
	}
	for _, t := range truth {
		if t.Class == class {
			of(t.Image).truth = append(of(t.Image).truth, t)
		}
	}
	for _, f := range found {
		if f.Class == class {
			of(f.Image).found = append(of(f.Image).found, f)
		}
	}
	var all []picture
	for _, image := range sortedKeys(at) {
		p := at[image]
		slices.SortStableFunc(p.found, func(a, b Found) int { return cmp.Compare(b.Score, a.Score) })
		p.found = p.found[:min(len(p.found), limits[len(limits)-1])]
		for _, f := range p.found {
			row := make([]float64, len(p.truth))
			for g, t := range p.truth {
				row[g] = f.overlap(t)
			}
			p.iou = append(p.iou, row)
		}
		all = append(all, *p)
	}
	return all
}

func sortedKeys(m map[int]*picture) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// A claim is a found box after matching.
type claim struct {
	score          float64
	right, ignored []bool // at each threshold
}

// claims matches the found boxes of a picture, and counts the truth that matters.
func (e evaluation) claims(p picture, size [2]float64, most int) (claims []claim, wanted int) {
	outside := func(r Rect) bool { return r.W*r.H < size[0] || r.W*r.H > size[1] }
	var order []int // of the truth: counted ones first
	ignored := make([]bool, len(p.truth))
	for g, t := range p.truth {
		if ignored[g] = t.Crowd || outside(t.Rect); !ignored[g] {
			order = append(order, g)
		}
	}
	wanted = len(order)
	for g := range p.truth {
		if ignored[g] {
			order = append(order, g)
		}
	}
	for _, f := range p.found[:min(most, len(p.found))] {
		claims = append(claims, claim{score: f.Score, right: make([]bool, len(e.thresholds)), ignored: make([]bool, len(e.thresholds))})
	}
	for t, threshold := range e.thresholds {
		taken := make([]bool, len(p.truth))
		for d := range claims {
			best, match := min(threshold, 1-1e-10), -1
			for _, g := range order {
				if taken[g] && !p.truth[g].Crowd {
					continue
				}
				if match >= 0 && !ignored[match] && ignored[g] {
					break // a truth that counts is better than any that does not
				}
				if p.iou[d][g] >= best {
					best, match = p.iou[d][g], g
				}
			}
			claims[d].right[t] = match >= 0
			if match >= 0 {
				taken[match] = true
				claims[d].ignored[t] = ignored[match]
			} else {
				claims[d].ignored[t] = outside(p.found[d].Rect)
			}
		}
	}
	return claims, wanted
}

func (e evaluation) curve(pictures []picture, size [2]float64, most int) curve {
	var claims []claim
	wanted := 0
	for _, p := range pictures {
		c, n := e.claims(p, size, most)
		claims, wanted = append(claims, c...), wanted+n
	}
	if wanted == 0 {
		return curve{}
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(b.score, a.score) })
	c := curve{recall: make([]float64, len(e.thresholds))}
	for t := range e.thresholds {
		var precisions, recalls []float64
		right, wrong := 0.0, 0.0
		for _, d := range claims {
			switch {
			case d.ignored[t]:
			case d.right[t]:
				right++
			default:
				wrong++
			}
			recalls = append(recalls, right/float64(wanted))
			precisions = append(precisions, right/(right+wrong+math.Nextafter(1, 2)-1))
		}
		for i := len(precisions) - 1; i > 0; i-- {
			precisions[i-1] = max(precisions[i-1], precisions[i])
		}
		if len(recalls) > 0 {
			c.recall[t] = recalls[len(recalls)-1]
		}
		read := make([]float64, len(e.recalls))
		for i, r := range e.recalls {
			if at := sort.SearchFloat64s(recalls, r); at < len(precisions) {
				read[i] = precisions[at]
			}
		}
		c.precision = append(c.precision, read)
	}
	return c
}
