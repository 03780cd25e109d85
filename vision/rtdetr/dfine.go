package rtdetr

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision/detr"
)

// Card: D-FINE (Peng et al., 2024) is RT-DETR on an HGNet-v2 with other blocks between maps (elan), a gate in place
// of the second residual, and boxes by distributions: the first layer's box stays, and every layer adds logits of
// the distances of its four sides,
//
//	x      = norm(g1·x + g2·places),             g = sigmoid(linear(x, places))
//	logits = logits + mlp(x + x of the layer before)
//	box    = first box, moved by Σ softmax(logits)·W   per side
//
// The last layer's classes get the quality of its distributions, an mlp of their largest shares. Held to eyes.d_fine.

// elan is a RepNCSPELAN4: half of a map goes through two mixes one after another, and all results become one.
type elan struct {
	first, last *nn.Conv
	mixes       [2]*mix
	convs       [2]*nn.Conv
}

func newElan(p *nn.Params, c Config) *elan {
	h := c.Hidden
	inside := c.elanWidth()
	blocks := int(math.RoundToEven(3 * c.Depth))
	return &elan{first: p.Conv("conv1.conv", nn.Square(2*h, 2*h, 1, 1, 0), true), last: p.Conv("conv4.conv", nn.Square(2*h+2*inside, h, 1, 1, 0), true),
		mixes: [2]*mix{newMix(p.Sub("csp_rep1"), h, inside, inside, blocks), newMix(p.Sub("csp_rep2"), inside, inside, inside, blocks)},
		convs: [2]*nn.Conv{p.Conv("conv2.conv", nn.Square(inside, inside, 3, 1, 1), true), p.Conv("conv3.conv", nn.Square(inside, inside, 3, 1, 1), true)}}
}

// elanWidth is that of an elan's parts.
func (c *Config) elanWidth() int { return int(math.Floor(c.Expansion * float64(c.Hidden) / 2)) }

func (e *elan) apply(tp *autograd.Tape, act kernels.UnaryOp, x *autograd.Value) *autograd.Value {
	conv := func(c *nn.Conv, x *autograd.Value) *autograd.Value {
		return tp.Unary(kernels.SiLU, c.Apply(tp, x, nil))
	}
	y := conv(e.first, x)
	half := y.Dim(3) / 2
	all := tp.Split(y, 3, half, half)
	y = all[1]
	for i, m := range e.mixes {
		y = conv(e.convs[i], m.apply(tp, act, y))
		all = append(all, y)
	}
	return conv(e.last, tp.Concat(3, all...))
}

// gate is norm(g1·a + g2·b).
type gate struct {
	shares *nn.Linear
	norm   *nn.Norm
}

func newGate(p *nn.Params, width int) *gate {
	return &gate{p.Linear("gate", 2*width, 2*width, true), p.LayerNorm("norm", width, 1e-5)}
}

func (g *gate) apply(tp *autograd.Tape, a, b *autograd.Value) *autograd.Value {
	w := a.Dim(2)
	shares := tp.Split(tp.Unary(kernels.Sigmoid, g.shares.Apply(tp, tp.Concat(2, a, b), autograd.With{})), 2, w, w)
	return g.norm.Apply(tp, tp.Add(tp.Mul(shares[0], a), tp.Mul(shares[1], b)))
}

// distances are those of the bins of a side's distribution.
type distances struct {
	steps []float64 // W
	scale float64
}

// newDistances has steps that grow from the middle to both ends.
func newDistances(bins int, up, scale float64) distances {
	d := distances{scale: math.Abs(scale)}
	most := math.Abs(up) * d.scale
	step := portable.Pow(most+1, 2/float64(bins-2))
	d.steps = append(d.steps, -2*most)
	for i := bins/2 - 1; i > 0; i-- {
		d.steps = append(d.steps, 1-portable.Pow(step, float64(i)))
	}
	d.steps = append(d.steps, 0)
	for i := 1; i < bins/2; i++ {
		d.steps = append(d.steps, portable.Pow(step, float64(i))-1)
	}
	d.steps = append(d.steps, 2*most)
	return d
}

// move is a box (cx, cy, w, h) whose sides moved by the means of their distributions.
func (d distances) move(box, logits []float32) []float32 {
	var side [4]float64 // left, top, right, bottom
	for k := range side {
		mean, n := 0.0, len(d.steps)
		for i, p := range portable.Softmax(logits[k*n:][:n]) {
			mean += float64(p * d.steps[i])
		}
		side[k] = float64((0.5*d.scale + mean) * (float64(box[2+k%2]) / d.scale))
	}
	x0, y0, x1, y1 := float64(box[0])-side[0], float64(box[1])-side[1], float64(box[0])+side[2], float64(box[1])+side[3]
	return []float32{float32((x0 + x1) / 2), float32((y0 + y1) / 2), float32(x1 - x0), float32(y1 - y0)}
}

// sure are the largest shares of each side, and their mean.
func (d distances) sure(logits []float32, most int) (all []float32) {
	n := len(d.steps)
	for k := range 4 {
		p, sum := portable.Softmax(logits[k*n:][:n]), 0.0
		slices.Sort(p)
		for i := range most {
			all = append(all, float32(p[n-1-i]))
			sum += p[n-1-i]
		}
		all = append(all, float32(sum/float64(most)))
	}
	return all
}

// refined is the decoder of D-FINE.
func (n *Network) refined(tp *autograd.Tape, x, source *autograd.Value, sizes []detr.Size, boxes []float32) (logits, out []float32) {
	b, each := source.Dim(0), 4*len(n.distances.steps)
	var first, sides []float32
	var before *autograd.Value
	for i, l := range n.decoder {
		place := n.place.Apply(tp, tp.Upload("boxes", boxes, b, n.c.Queries, 4)).F32()
		for k, v := range place {
			place[k] = min(max(v, -10), 10)
		}
		x = l.forward(tp, x, tp.Upload("place", place, b, n.c.Queries, n.c.Width), source, n.looks(sizes, boxes, b))
		y := x
		if i == 0 {
			first, sides = moved(boxes, n.first.Apply(tp, x).F32()), make([]float32, b*n.c.Queries*each)
		} else {
			y = tp.Add(x, before)
		}
		for k, v := range l.box.Apply(tp, y).F32() {
			sides[k] += v
		}
		boxes = make([]float32, 0, len(first))
		for q := range b * n.c.Queries {
			boxes = append(boxes, n.distances.move(first[4*q:][:4], sides[q*each:][:each])...)
		}
		before = x
	}
	last := n.decoder[len(n.decoder)-1]
	logits = last.classes.Apply(tp, x, autograd.With{}).F32()
	var sure []float32
	for q := range b * n.c.Queries {
		sure = append(sure, n.distances.sure(sides[q*each:][:each], n.c.Surest)...)
	}
	quality := last.quality.Apply(tp, tp.Upload("surest", sure, b, n.c.Queries, 4*(n.c.Surest+1))).F32()
	for k := range logits {
		logits[k] += quality[k/len(n.c.Labels)]
	}
	return logits, boxes
}
