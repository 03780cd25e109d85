package detr

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
)

// Card: torch's bilinear interpolation, align_corners off, without anti-aliasing: pixel i of n, made of size, lies at
// (i + 1/2) size/n - 1/2, at least 0, between its two neighbours.

// axis are the neighbours of the pixels of one direction, and the share of the second.
func axis(size, n int) (first, second []int, share []float32) {
	first, second, share = make([]int, n), make([]int, n), make([]float32, n)
	for i := range n {
		at := max(float64((float64(i)+0.5)*(float64(size)/float64(n)))-0.5, 0)
		k := min(int(at), size-1)
		first[i], second[i], share[i] = k, min(k+1, size-1), float32(at-float64(k))
	}
	return first, second, share
}

// Resized are maps [n, from.H, from.W, channels] at another size.
func Resized(x []float32, n int, from, to Size, channels int) []float32 {
	if from == to {
		return append([]float32(nil), x...)
	}
	xa, xb, xs := axis(from.W, to.W)
	ya, yb, ys := axis(from.H, to.H)
	out := make([]float32, n*to.H*to.W*channels)
	Share(n*to.H, func(row int) {
		m, y := row/to.H, row%to.H
		line := func(k int) []float32 { return x[(m*from.H+k)*from.W*channels:][:from.W*channels] }
		a, b, s := line(ya[y]), line(yb[y]), ys[y]
		into := out[row*to.W*channels:][:to.W*channels]
		for i := range to.W {
			p, q, t := xa[i]*channels, xb[i]*channels, xs[i]
			for c := range channels {
				up := a[p+c] + float32(t*(a[q+c]-a[p+c]))
				down := b[p+c] + float32(t*(b[q+c]-b[p+c]))
				into[i*channels+c] = up + float32(s*(down-up))
			}
		}
	})
	return out
}

// unresized takes the gradient at Resized's result to the gradient at its operand.
func unresized(d []float32, n int, from, to Size, channels int) []float32 {
	xa, xb, xs := axis(from.W, to.W)
	ya, yb, ys := axis(from.H, to.H)
	out := make([]float32, n*from.H*from.W*channels)
	Share(n, func(m int) {
		into := out[m*from.H*from.W*channels:]
		for y := range to.H {
			for i := range to.W {
				for k, part := range [4]float32{(1 - ys[y]) * (1 - xs[i]), (1 - ys[y]) * xs[i], ys[y] * (1 - xs[i]), ys[y] * xs[i]} {
					row, column := ya[y], xa[i]
					if k >= 2 {
						row = yb[y]
					}
					if k%2 == 1 {
						column = xb[i]
					}
					g, at := d[((m*to.H+y)*to.W+i)*channels:], (row*from.W+column)*channels
					for c := range channels {
						into[at+c] += float32(part * g[c])
					}
				}
			}
		}
	})
	return out
}

// Resize is a map [B, H, W, C] at another size.
func Resize(tp *autograd.Tape, x *autograd.Value, to Size) *autograd.Value {
	n, from, channels := x.Dim(0), Size{x.Dim(1), x.Dim(2)}, x.Dim(3)
	if from == to {
		return x
	}
	return tp.Host(autograd.Host{Name: "resize", In: []*autograd.Value{x}, Shape: []int{n, to.H, to.W, channels},
		Forward: func(in, _ [][]float32) []float32 { return Resized(in[0], n, from, to, channels) },
		Backward: func(_, _ [][]float32, dy []float32, _ [][]float32) [][]float32 {
			return [][]float32{unresized(dy, n, from, to, channels)}
		}})
}

// Flat is a map's pixels in a row, [B, H·W, C].
func Flat(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return tp.Reshape(x, x.Dim(0), x.Dim(1)*x.Dim(2), x.Dim(3))
}

// Waves are sin and cos of 2π x / temperature^(2 floor(k/2) / features), in turn.
func Waves(x float64, features int, temperature float64) []float32 {
	x = float64(x * 2 * math.Pi)
	out := make([]float32, features)
	for k := range out {
		angle := x / portable.Pow(temperature, float64(k/2*2)/float64(features))
		if k%2 == 0 {
			out[k] = float32(portable.Sin(angle))
		} else {
			out[k] = float32(portable.Cos(angle))
		}
	}
	return out
}

// Sines are positions of pixels, [H·W, 2·features], as DETR has them: of y, then of x, each
//
//	sin and cos of place / temperature^(2 floor(k/2) / features), in turn
//
// where places count from 1, and, as a share of the last with 1e-6 more, go up to 2π.
func Sines(s Size, features int, temperature float64) []float32 {
	return MaskedSines(s, s, features, temperature, 0)
}

// MaskedSines are Sines of a map of which only the first inside.H rows and inside.W columns show a picture: places
// stop there. Places are less by shift.
func MaskedSines(s, inside Size, features int, temperature, shift float64) []float32 {
	waves := func(at, last int) []float32 {
		return Waves((float64(at)-shift)/(float64(last)+1e-6), features, temperature)
	}
	rows, columns := make([][]float32, s.H), make([][]float32, s.W)
	for i := range rows {
		rows[i] = waves(min(i+1, inside.H), inside.H)
	}
	for i := range columns {
		columns[i] = waves(min(i+1, inside.W), inside.W)
	}
	out := make([]float32, 0, s.H*s.W*2*features)
	for y := range s.H {
		for x := range s.W {
			out = append(append(out, rows[y]...), columns[x]...)
		}
	}
	return out
}

// Numbers are lo to hi-1, some times in a row: indices of a table's rows for a batch.
func Numbers(lo, hi, times int) []int32 {
	all := make([]int32, 0, (hi-lo)*times)
	for range times {
		for i := lo; i < hi; i++ {
			all = append(all, int32(i))
		}
	}
	return all
}

// Layers are the linear layers of a head, ReLU between them.
type Layers []*nn.Linear

// Apply computes the layers.
func (l Layers) Apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	for i, each := range l {
		var o autograd.With
		if i < len(l)-1 {
			o.Act = kernels.ReLU
		}
		x = each.Apply(tp, x, o)
	}
	return x
}

// Depthwise is a convolution in which each channel has a square kernel of its own, padded by half the kernel.
type Depthwise struct {
	channels, size, stride int
	weight, bias           *autograd.Param
}

// NewDepthwise asks for name.weight [channels, 1, size, size] and name.bias.
func NewDepthwise(p *nn.Params, name string, channels, size, stride int) *Depthwise {
	return &Depthwise{channels, size, stride, p.Vector(name+".weight", channels, 1, size, size), p.Vector(name+".bias", channels)}
}

// Apply computes the layer of maps [N, H, W, channels].
func (d *Depthwise) Apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	n, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), d.channels
	pad := d.size / 2
	to := Size{(h+2*pad-d.size)/d.stride + 1, (w+2*pad-d.size)/d.stride + 1}
	return tp.Host(autograd.Host{Name: "depthwise", In: []*autograd.Value{x}, Params: []*autograd.Param{d.weight, d.bias}, Shape: []int{n, to.H, to.W, c}, Forward: func(in, params [][]float32) []float32 {
		turned, out := make([]float32, len(params[0])), make([]float32, n*to.H*to.W*c)
		for k := range c {
			for i := range d.size * d.size {
				turned[i*c+k] = params[0][k*d.size*d.size+i]
			}
		}
		Share(n*to.H, func(row int) {
			m, y := row/to.H, row%to.H*d.stride-pad
			for i := range to.W {
				into, left := out[(row*to.W+i)*c:][:c], i*d.stride-pad
				copy(into, params[1])
				for dy := max(-y, 0); dy < min(d.size, h-y); dy++ {
					for dx := max(-left, 0); dx < min(d.size, w-left); dx++ {
						from, by := in[0][((m*h+y+dy)*w+left+dx)*c:][:c], turned[(dy*d.size+dx)*c:][:c]
						for k, v := range from {
							into[k] += float32(v * by[k])
						}
					}
				}
			}
		})
		return out
	}})
}
