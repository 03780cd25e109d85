package pretrain

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision/detr"
)

// Card: Mask2Former's loss (Cheng et al., 2022). Of each answer, the last and the earlier ones, queries are paired with
// the things of their picture so that the cost is the smallest,
//
//	cost = -Class p(label) + Mask bce(mask) + Dice dice(mask)
//	bce  = mean over pixels of log(1 + exp(x)) - x t          dice = 1 - (2 Σ s t + 1)/(Σ s + Σ t + 1),  s = sigmoid(x)
//
// and the loss is the sum over answers of
//
//	Class · mean of -log p(label), weighted; queries without a thing have the label "nothing", of weight NoObject
//	+ (Mask Σ bce + Dice Σ dice) / things, over pairs
//
// Upstream samples 12544 points of a mask; all pixels of a small one are read here, and t is the thing's share of a
// pixel, so that a mask's border lies between pixels. Invariants (tests): slopes are those of differences; the order of
// things does not matter.

// Matching are the weights of the loss.
type Matching struct {
	Class    float64 `toml:"class" range:"[0,100]" doc:"weight of the labels"`
	Mask     float64 `toml:"mask" range:"[0,100]" doc:"weight of the masks' cross entropy"`
	Dice     float64 `toml:"dice" range:"[0,100]" doc:"weight of the masks' overlap"`
	NoObject float64 `toml:"no_object" range:"(0,1]" doc:"weight of queries that have no thing, beside 1"`
}

// A target is a thing of a picture: its label, and its share of each pixel of a mask.
type target struct {
	label int
	share []float32
	area  float64
}

// newTarget is a thing whose shares are those of a picture's pixels, at a mask's size.
func newTarget(label int, share []float32, side, small int) target {
	t := target{label: label, share: make([]float32, small*small)}
	k := side / small
	for at, v := range share {
		t.share[at/side/k*small+at%side/k] += v / float32(k*k)
	}
	for _, v := range t.share {
		t.area += float64(v)
	}
	return t
}

// maskAnswer is one answer about a batch: logits [B, queries, classes + 1] and masks [B, pixels, queries], and the
// slopes of the loss at both.
type maskAnswer struct {
	classes, masks   []float32
	dClasses, dMasks []float32
	queries          int
}

// loss is the parts of a loss.
type loss struct{ class, mask, dice float64 }

func (l *loss) add(o loss) { l.class, l.mask, l.dice = l.class+o.class, l.mask+o.mask, l.dice+o.dice }

// judge fills in the slopes of an answer about pictures with their things.
func (m Matching) judge(a *maskAnswer, things [][]target) (total loss) {
	a.dClasses, a.dMasks = make([]float32, len(a.classes)), make([]float32, len(a.masks))
	n, pictures := 0, len(things)
	for _, t := range things {
		n += len(t)
	}
	parts, weights, pairs := make([]loss, pictures), make([]float64, pictures), make([][]int, pictures)
	seen := make([]*gallery, pictures)
	detr.Share(pictures, func(i int) {
		seen[i] = a.gallery(i, pictures)
		pairs[i] = m.pair(seen[i], things[i])
		for _, t := range pairs[i] {
			if t < 0 {
				weights[i] += m.NoObject
			} else {
				weights[i]++
			}
		}
	})
	weight := 0.0
	for _, w := range weights {
		weight += w
	}
	detr.Share(pictures, func(i int) {
		parts[i] = m.slopes(seen[i], things[i], pairs[i], 1/weight, 1/float64(max(n, 1)))
	})
	for _, p := range parts {
		total.add(p)
	}
	return total
}

// gallery is the answer about one picture, query by query.
type gallery struct {
	p                [][]float64 // of classes
	x, s             [][]float64 // logits and probabilities of masks
	entropy, area    []float64   // Σ log(1 + exp(x)), Σ s
	dClasses, dMasks []float32
}

func (a *maskAnswer) gallery(i, pictures int) *gallery {
	classes, pixels := len(a.classes)/pictures/a.queries, len(a.masks)/pictures/a.queries
	g := &gallery{dClasses: a.dClasses[i*a.queries*classes:][:a.queries*classes], dMasks: a.dMasks[i*a.queries*pixels:][:a.queries*pixels]}
	for q := range a.queries {
		row := make([]float64, classes)
		for k, v := range a.classes[(i*a.queries+q)*classes:][:classes] {
			row[k] = float64(v)
		}
		p, _ := softmaxAt(row, 0)
		x, s, entropy, area := make([]float64, pixels), make([]float64, pixels), 0.0, 0.0
		for at := range x {
			v := float64(a.masks[(i*pixels+at)*a.queries+q])
			e := portable.Exp(-math.Abs(v))
			x[at], s[at] = v, 1/(1+e)
			if v < 0 {
				s[at] = e / (1 + e)
			}
			entropy += max(v, 0) + portable.Log1p(e)
			area += s[at]
		}
		g.p, g.x, g.s = append(g.p, p), append(g.x, x), append(g.s, s)
		g.entropy, g.area = append(g.entropy, entropy), append(g.area, area)
	}
	return g
}

// inner is Σ a b.
func inner(a []float64, b []float32) (sum float64) {
	for i, v := range b {
		if v != 0 {
			sum += float64(a[i] * float64(v))
		}
	}
	return sum
}

// apart are the two distances of a query's mask from a thing.
func (g *gallery) apart(q int, t target) (bce, dice float64) {
	bce = (g.entropy[q] - inner(g.x[q], t.share)) / float64(len(t.share))
	return bce, 1 - (2*inner(g.s[q], t.share)+1)/(g.area[q]+t.area+1)
}

// pair gives each query its thing, or -1.
func (m Matching) pair(g *gallery, things []target) []int {
	of := make([]int, len(g.p))
	cost := make([][]float64, len(of))
	for q := range of {
		of[q] = -1
		for _, t := range things {
			bce, dice := g.apart(q, t)
			cost[q] = append(cost[q], float64(m.Mask*bce)+float64(m.Dice*dice)-float64(m.Class*g.p[q][t.label]))
		}
	}
	rows, columns, err := boxes.Assign(cost, false)
	if err != nil {
		return of // of numbers that are not finite; the optimiser refuses the gradient
	}
	for k, q := range rows {
		of[q] = columns[k]
	}
	return of
}

// slopes writes those of one picture: class has the weight of a label, each that of a thing.
func (m Matching) slopes(g *gallery, things []target, pairs []int, class, each float64) (l loss) {
	queries, classes, pixels := len(g.p), len(g.p[0]), len(g.x[0])
	for q, p := range g.p {
		label, weight := classes-1, float64(m.NoObject*class)
		if pairs[q] >= 0 {
			label, weight = things[pairs[q]].label, class
		}
		l.class -= float64(weight * portable.Log(max(p[label], 1e-300)))
		for k, v := range p {
			if k == label {
				v--
			}
			g.dClasses[q*classes+k] = float32(m.Class * weight * v)
		}
		if pairs[q] < 0 {
			continue
		}
		t := things[pairs[q]]
		bce, dice := g.apart(q, t)
		l.mask, l.dice = l.mask+float64(each*bce), l.dice+float64(each*dice)
		above, below := 2*inner(g.s[q], t.share)+1, g.area[q]+t.area+1
		for at, s := range g.s[q] {
			d := float64(m.Mask * each / float64(pixels) * (s - float64(t.share[at])))
			d += float64(m.Dice * each * (above - float64(2*float64(t.share[at])*below)) / (below * below) * s * (1 - s))
			g.dMasks[at*queries+q] = float32(d)
		}
	}
	return l
}
