package owl

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/detr"
)

// Card: OWLv2. Towers as CLIP's; each patch is a box:
//
//	x      = norm(patch token · class token)
//	box    = sigmoid(mlp(x) + logit(the patch's lower right corner, a patch's size))     cx, cy, w, h
//	logit  = (cosine(linear(x), query) + linear(x)) · (elu(linear(x)) + 1)
//	object = mlp(x)
//
// A query is a text's vector, or linear(x) of the most object-like patch of another picture. Boxes are shares of
// the padded square. Held to eyes.owlv2.

// Network is an Owlv2ForObjectDetection.
type Network struct {
	texts               *clip.Text
	vision              *clip.Vision
	norm                *nn.Norm
	class, shift, scale *nn.Linear
	box, object         [3]*nn.Linear
	side                int // patches
}

// New asks p for a network's parameters; the first norm of pictures has CLIP's name, pre_layrnorm.
func New(p *nn.Params, c Config) *Network {
	p.Ignore("box_bias", "owlv2\\.visual_projection\\..*", "owlv2\\.logit_scale", "owlv2\\..*position_ids")
	w, o := c.Vision.Width, p.Sub("owlv2")
	head := func(name string, out int) [3]*nn.Linear {
		s := p.Sub(name)
		return [3]*nn.Linear{s.Linear("dense0", w, w, true), s.Linear("dense1", w, w, true), s.Linear("dense2", w, out, true)}
	}
	h := p.Sub("class_head")
	return &Network{texts: clip.NewText(o, c.Text, true), vision: clip.NewSight(o, c.Vision), norm: p.LayerNorm("layer_norm", w, c.Vision.Eps), side: c.Vision.Side / c.Vision.Patch,
		class: h.Linear("dense0", w, c.Text.Width, true), shift: h.Linear("logit_shift", w, 1, true), scale: h.Linear("logit_scale", w, 1, true),
		box: head("box_head", 4), object: head("objectness_head", 1)}
}

// A Sight is a network's answer about a picture, a row a patch.
type Sight struct {
	Tokens       []float32   // after the norm
	Classes      [][]float64 // vectors that queries are compared with
	Shift, Scale []float32
	Objects      []float32 // logits of being a thing
	Boxes        []float32 // cx, cy, w, h as shares of the padded square
}

func gelus(tp *autograd.Tape, l [3]*nn.Linear, x *autograd.Value) *autograd.Value {
	act := autograd.With{Act: kernels.GELUErf}
	return l[2].Apply(tp, l[1].Apply(tp, l[0].Apply(tp, x, act), act), autograd.With{})
}

// See asks about pictures [B, Side, Side, 3].
func (n *Network) See(tp *autograd.Tape, pictures *autograd.Value) []Sight {
	b := pictures.Dim(0)
	tokens := n.vision.Normed(tp, pictures)
	patches := tokens.Dim(1) - 1
	parts := tp.Split(tokens, 1, 1, patches)
	first := make([]int32, 0, b*patches)
	for i := range b * patches {
		first = append(first, int32(i/patches))
	}
	class := tp.Gather(tp.Reshape(parts[0], b, tokens.Dim(2)), first, b, patches)
	x := n.norm.Apply(tp, tp.Mul(parts[1], class))
	plain := autograd.With{}
	states, classes, shift, scale := x.F32(), n.class.Apply(tp, x, plain), n.shift.Apply(tp, x, plain).F32(), n.scale.Apply(tp, x, plain).F32()
	objects, boxes := gelus(tp, n.object, x).F32(), gelus(tp, n.box, x).F32()
	vectors, width := classes.F32(), classes.Dim(2)
	bias := n.bias()
	seen := make([]Sight, b)
	for i := range seen {
		s, lo, hi := &seen[i], i*patches, (i+1)*patches
		s.Tokens, s.Shift, s.Scale, s.Objects = states[lo*x.Dim(2):hi*x.Dim(2)], shift[lo:hi], scale[lo:hi], objects[lo:hi]
		for k := lo; k < hi; k++ {
			row := make([]float64, width)
			for j, v := range vectors[k*width : (k+1)*width] {
				row[j] = float64(v)
			}
			s.Classes = append(s.Classes, row)
			for j := range 4 {
				s.Boxes = append(s.Boxes, float32(detr.Sigmoid(float64(boxes[4*k+j])+bias[4*(k-lo)+j])))
			}
		}
	}
	return seen
}

// bias is where boxes are before they are moved, as logits.
func (n *Network) bias() (all []float64) {
	const eps = 1e-4
	logit := func(x float64) float64 { return portable.Log(x+eps) - portable.Log1p(-x+eps) }
	for y := range n.side {
		for x := range n.side {
			size := logit(1 / float64(n.side))
			all = append(all, logit(float64(x+1)/float64(n.side)), logit(float64(y+1)/float64(n.side)), size, size)
		}
	}
	return all
}

// floor is added to lengths of vectors that are compared.
const floor = 1e-6

// Unit is a vector of length 1, as they are compared.
func Unit(v []float64) []float64 { return unit(v, floor) }

// Logits compare patches with queries, [patches, queries].
func (s Sight) Logits(queries [][]float64) []float32 {
	var units [][]float64
	for _, q := range queries {
		units = append(units, Unit(q))
	}
	out := make([]float32, len(s.Classes)*len(queries))
	detr.Share(len(s.Classes), func(k int) {
		c := Unit(s.Classes[k])
		scale := float64(s.Scale[k])
		if scale < 0 { // elu
			scale = portable.Expm1(scale)
		}
		for q, u := range units {
			dot := 0.0
			for j, v := range u {
				dot += float64(v * c[j])
			}
			out[k*len(units)+q] = float32((dot + float64(s.Shift[k])) * (scale + 1))
		}
	})
	return out
}

// Named are boxes with the likeliest of the queries, in the order of patches, with scores above least.
func (s Sight) Named(logits []float32, queries int, shown detr.Size, least float64) (found []detr.Box) {
	side := float64(max(shown.H, shown.W))
	for k := range s.Objects {
		row, best := logits[k*queries:][:queries], 0
		for q, v := range row {
			if v > row[best] {
				best = q
			}
		}
		if score := detr.Sigmoid(float64(row[best])); score > least {
			found = append(found, detr.Box{Label: best, Score: score, Box: detr.Corners(s.Boxes[4*k:], side, side)})
		}
	}
	return found
}

// Query is the vector of the most object-like patch: the thing in a picture.
func (s Sight) Query() []float64 {
	best := 0
	for k, v := range s.Objects {
		if v > s.Objects[best] {
			best = k
		}
	}
	return s.Classes[best]
}

// Like are boxes of things like a query, without those that overlap a likelier one by more than overlap; scores
// below least do not count, and those left are spread from a tenth of the largest, which is 0, to the largest, 1.
func (s Sight) Like(query []float64, shown detr.Size, least, overlap float64) (found []detr.Box) {
	logits := s.Logits([][]float64{query})
	n := len(logits)
	scores, corners := make([]float64, n), make([][4]float64, n)
	for k, v := range logits {
		scores[k], corners[k] = detr.Sigmoid(float64(v)), detr.Corners(s.Boxes[4*k:], 1, 1)
	}
	for _, k := range detr.Falling(logits) {
		if scores[k] == 0 {
			continue
		}
		for j := range scores {
			if j != k && detr.IoU(corners[k], corners[j]) > overlap {
				scores[j] = 0
			}
		}
	}
	most := 0.0
	for k, v := range scores {
		if v < least {
			scores[k] = 0
		}
		most = max(most, scores[k])
	}
	most += floor
	side := float64(max(shown.H, shown.W))
	for k, v := range scores {
		if spread := math.Min((v-float64(most*0.1))/float64(most*0.9), 1); spread > 0 {
			found = append(found, detr.Box{Score: spread, Box: detr.Corners(s.Boxes[4*k:], side, side)})
		}
	}
	return found
}
