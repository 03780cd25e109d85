package owl

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detr"
)

// Card: OWLv2's preprocessing. Bytes become numbers in 0..1; a picture is padded with zeros on the right and below
// to a square; where it shrinks, it is blurred by a Gaussian of (factor - 1)/2 pixels; then bilinear, mean and
// deviation. Two programs differ:
//
//	torchvision   2 ceil(3 sigma) + 1 weights, mirrored borders; pixels outside are those of the border
//	scipy         weights up to int(4 sigma + 1/2) pixels away; mirrored borders, of the resize, too; cut to the
//	              input's range
//
// Held to eyes.owlv2.

// A Processor is such a preprocessing.
type Processor struct {
	Side      int
	Mean, Std [3]float32
	Scale     float64
	SciPy     bool
}

func readProcessor(dir string, side int) (Processor, error) {
	usual := detr.Processor{Height: side, Width: side, Filter: vision.Bilinear, Scale: 1.0 / 255,
		Mean: [3]float32{0.48145466, 0.4578275, 0.40821073}, Std: [3]float32{0.26862954, 0.26130258, 0.27577711}}
	p, err := detr.ReadProcessor(dir, usual, true)
	if err == nil && (p.Height != side || p.Width != side) {
		err = fmt.Errorf("%s: the preprocessor makes pictures of %d x %d, the network reads %d x %d", dir, p.Width, p.Height, side, side)
	}
	return Processor{Side: side, Mean: p.Mean, Std: p.Std, Scale: p.Scale}, err
}

// Apply is a picture as the network reads it, [Side, Side, 3].
func (p Processor) Apply(m *vision.Image) ([]float32, error) {
	if m == nil || m.Width < 1 || m.Height < 1 || max(m.Width, m.Height) > 1<<14 {
		return nil, fmt.Errorf("there is no picture, or one with a side above %d", 1<<14)
	}
	n := max(m.Width, m.Height)
	x := make([]float32, n*n*3)
	for y := range m.Height {
		for i, v := range m.Row(y) {
			x[y*n*3+i] = float32(float64(v) * p.Scale)
		}
	}
	lo, hi := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	if sigma := (float64(n)/float64(p.Side) - 1) / 2; sigma > 0 {
		weights := p.gaussian(sigma)
		x = blurred(blurred(x, n, weights, 3, n*3), n, weights, n*3, 3)
	}
	out := p.resized(x, n)
	for i, v := range out {
		if p.SciPy {
			v = min(max(v, lo), hi)
		}
		out[i] = (v - p.Mean[i%3]) / p.Std[i%3]
	}
	return out, nil
}

// gaussian are the weights from the middle outwards; those outwards count twice.
func (p Processor) gaussian(sigma float64) []float64 {
	far := int(math.Ceil(3 * sigma))
	if p.SciPy {
		far = int(4*sigma + 0.5)
	}
	out, sum := make([]float64, far+1), 0.0
	for i := range out {
		d := float64(i) / sigma
		out[i] = portable.Exp(-float64(d*d) / 2)
		sum += out[i]
		if i > 0 {
			sum += out[i]
		}
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// mirrored is a place in a line of n, which goes on as in a mirror behind its last pixels.
func mirrored(i, n int) int {
	if n == 1 {
		return 0
	}
	i = ((i % (2*n - 2)) + 2*n - 2) % (2*n - 2)
	return min(i, 2*n-2-i)
}

// blurred weighs the pixels along one direction of a square of n; step is the distance of neighbours, lines that of
// lines.
func blurred(x []float32, n int, weights []float64, step, lines int) []float32 {
	out := make([]float32, len(x))
	detr.Share(n, func(line int) {
		for i := range n {
			for c := range 3 {
				sum := 0.0
				for d := 1 - len(weights); d < len(weights); d++ {
					sum += float64(weights[max(d, -d)] * float64(x[line*lines+mirrored(i+d, n)*step+c]))
				}
				out[line*lines+i*step+c] = float32(sum)
			}
		}
	})
	return out
}

func (p Processor) resized(x []float32, n int) []float32 {
	if !p.SciPy {
		return detr.Resized(x, 1, detr.Size{H: n, W: n}, detr.Size{H: p.Side, W: p.Side}, 3)
	}
	type place struct {
		a, b  int
		share float64
	}
	at := make([]place, p.Side)
	for i := range at {
		s := float64((float64(i)+0.5)*(float64(n)/float64(p.Side))) - 0.5
		k := int(math.Floor(s))
		at[i] = place{mirrored(k, n), mirrored(k+1, n), s - float64(k)}
	}
	out := make([]float32, p.Side*p.Side*3)
	for y, v := range at {
		for i, u := range at {
			for c := range 3 {
				of := func(y, i int) float64 { return float64(x[(y*n+i)*3+c]) }
				up := of(v.a, u.a) + float64(u.share*(of(v.a, u.b)-of(v.a, u.a)))
				down := of(v.b, u.a) + float64(u.share*(of(v.b, u.b)-of(v.b, u.a)))
				out[(y*p.Side+i)*3+c] = float32(up + float64(v.share*(down-up)))
			}
		}
	}
	return out
}
