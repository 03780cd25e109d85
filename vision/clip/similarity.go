package clip

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Similarity of pictures and texts, in float64 over their features:
//
//	logits[i][t] = exp(scale) · <x_i/|x_i|, y_t/|y_t|>
//
// and its gradient, which starts backward at the features and the scale: with unit vectors
// u, v and g = dL/dlogits,
//
//	dL/dx_i = exp(scale) · (d - <d, u_i> u_i) / |x_i|,  d = sum over t of g[i][t]·v_t
//
// and the same for texts; dL/dscale = sum of g · logits.
//
// Invariant (tests): gradients agree with finite differences.

// Similarities are features' logits, and the values that their gradients need.
type Similarities struct {
	Logits       [][]float64 // [pictures][texts]
	images, text [][]float64 // unit vectors
	imageNorms   []float64
	textNorms    []float64
	scale        float64
}

// Similarity compares rows of features; logScale is the logarithm of the scale.
func Similarity(images, texts [][]float64, logScale float64) *Similarities {
	s := &Similarities{scale: portable.Exp(logScale)}
	s.images, s.imageNorms = Units(images)
	s.text, s.textNorms = Units(texts)
	for _, u := range s.images {
		row := make([]float64, len(texts))
		for t, v := range s.text {
			row[t] = s.scale * dot(u, v)
		}
		s.Logits = append(s.Logits, row)
	}
	return s
}

// Gradients takes dL/dlogits to the features and the logarithm of the scale.
func (s *Similarities) Gradients(g [][]float64) (images, texts [][]float64, logScale float64) {
	back := func(n int, at func(i, t int) float64, own, other [][]float64, norms []float64) [][]float64 {
		out := make([][]float64, n)
		for i := range out {
			d := make([]float64, len(own[i]))
			for t, v := range other {
				for k := range d {
					d[k] += float64(s.scale * at(i, t) * v[k])
				}
			}
			along := dot(d, own[i])
			for k := range d {
				d[k] = (d[k] - float64(along*own[i][k])) / norms[i]
			}
			out[i] = d
		}
		return out
	}
	images = back(len(s.images), func(i, t int) float64 { return g[i][t] }, s.images, s.text, s.imageNorms)
	texts = back(len(s.text), func(t, i int) float64 { return g[i][t] }, s.text, s.images, s.textNorms)
	for i, row := range s.Logits {
		for t, l := range row {
			logScale += float64(g[i][t] * l)
		}
	}
	return images, texts, logScale
}

// Units are the rows divided by their lengths, and these.
func Units(rows [][]float64) (unit [][]float64, norms []float64) {
	for _, x := range rows {
		n := math.Sqrt(dot(x, x))
		u := make([]float64, len(x))
		for k, v := range x {
			u[k] = v / n
		}
		unit, norms = append(unit, u), append(norms, n)
	}
	return unit, norms
}

func dot(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += float64(v * y[i])
	}
	return sum
}
