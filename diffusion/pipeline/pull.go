package pipeline

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Gradients with respect to latents: of the network's outputs (Pull) and of pictures
// (PullDecode), for methods that follow a reward's own gradient. The forward has the bits of
// Ask and DecodeAll.
//
// Invariants (tests): gradients agree with differences; a picture's gradient does not depend on
// its batch.

// given puts a network's input on a tape.
type given = func(tp *autograd.Tape, name string, x []float32, shape ...int) *autograd.Value

// variable is an input whose gradient is asked for afterwards.
func variable(tp *autograd.Tape, name string, x []float32, shape ...int) *autograd.Value {
	t := tp.Pool().FromF32(tp.DType, x, shape...).Named(name)
	defer t.Free() // the tape has it now
	return tp.Variable(t)
}

// gradient is a variable's, zeros where nothing reached it.
func gradient(v *autograd.Value) []float64 {
	var g *tensor.Tensor
	if g = v.Grad(); g == nil {
		return make([]float64, v.Tensor().Len())
	}
	return widened(g.F32())
}

// Pull asks as Ask does, on a tape that records, and takes gradients at the outputs back: to
// trained parameters, to whose gradient it adds, and to the questions' latents.
func (p *Pipeline) Pull(tp *autograd.Tape, at Shape, g Guidance, questions []Question, grads [][]float64) ([][]float64, error) {
	a, err := p.ask(tp, at, g, questions, variable)
	if err != nil {
		return nil, err
	}
	if err := a.Back(grads); err != nil {
		return nil, err
	}
	all, n := gradient(a.latents), at.Len()
	out := make([][]float64, len(questions))
	for i, q := range questions {
		if !a.guidance.Combines() {
			out[i] = all[i*n : (i+1)*n : (i+1)*n]
		} else {
			out[i] = make([]float64, n)
			for e := range out[i] {
				out[i][e] = all[2*i*n+e] + all[(2*i+1)*n+e]
			}
		}
		if q.Given != nil { // these latents were not read
			clear(out[i][:len(q.Given.first)])
		}
	}
	return out, nil
}

// mostKept is how many pixels a decoder goes back through with all its values kept; of larger
// pictures its blocks run again.
const mostKept = 256 * 256

// PullDecode decodes samples of one shape, asks of for gradients at the pictures of a batch whose
// first is number from, and takes them back to the latents. Pictures are as DecodeAll's; tiles
// are not possible.
func (p *Pipeline) PullDecode(latents [][]float64, at Shape, of func(from int, raw [][]float32) ([][]float32, error)) ([][]float64, error) {
	if p.Tile != 0 {
		return nil, fmt.Errorf("gradients of pictures that are decoded in tiles: decode them whole")
	}
	d, precision, err := p.openedDecoder()
	if err != nil {
		return nil, err
	}
	pixels, again := at.Pixels(), 0
	if pixels > mostKept {
		again = autograd.AllBlocks
	}
	tp := autograd.New(p.Pool, autograd.Options{DType: precision.dtype(), Math: precision.math(), Train: true, Checkpoint: again})
	defer tp.Reset()
	var out [][]float64
	each := max(1, mostKept/pixels)
	if at.Frames > 0 || d.alone { // clips go through alone
		each = 1
	}
	for from := 0; from < len(latents); from += each {
		some := latents[from:min(from+each, len(latents))]
		var x []float32
		for _, l := range some {
			if len(l) != at.Len() {
				return nil, fmt.Errorf("latents of %d numbers; a picture of %d x %d has %d", len(l), at.Width, at.Height, at.Len())
			}
			x = append(x, p.Grid(l, at)...)
		}
		tp.Reset()
		in := variable(tp, "latents", x, at.maps(len(some), p.family.latents.channels)...)
		y := d.run(tp, in)
		raw, all := make([][]float32, len(some)), y.F32()
		size := 3 * pixels
		for i := range raw {
			if raw[i] = all[i*size : (i+1)*size : (i+1)*size]; !finite(raw[i]) {
				return nil, kernels.NotFiniteError("%s: picture %d holds numbers that are infinite or none (try f32)", d.network.name(), from+i)
			}
		}
		grads, err := of(from, raw)
		if err != nil {
			return nil, err
		}
		seed, err := seeds(grads, len(some), size)
		if err != nil {
			return nil, err
		}
		tp.Backward(autograd.Seed{Of: y, Grad: seed})
		g, n := gradient(in), len(x)/len(some)
		for i := range some {
			out = append(out, p.ungrid(g[i*n:(i+1)*n:(i+1)*n], at))
		}
	}
	return out, nil
}

// seeds joins gradients at n pictures of a size.
func seeds(grads [][]float32, n, size int) ([]float32, error) {
	if len(grads) != n {
		return nil, fmt.Errorf("%d gradients for %d pictures", len(grads), n)
	}
	seed := make([]float32, 0, n*size)
	for i, g := range grads {
		if len(g) != size {
			return nil, fmt.Errorf("gradient %d has %d numbers for a picture of %d", i, len(g), size)
		}
		for _, v := range g {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, kernels.NotFiniteError("gradient %d holds a number that is infinite or none", i)
			}
		}
		seed = append(seed, g...)
	}
	return seed, nil
}

// ungrid is Grid turned round: numbers [Rows, Cols, C] in the order of a sample's latents.
func (p *Pipeline) ungrid(grid []float64, at Shape) []float64 {
	if !p.family.latents.packed {
		return grid
	}
	c, pixels := p.family.latents.channels, at.Rows*at.Cols
	planes := make([]float64, len(grid))
	for i := range planes {
		planes[i] = grid[i%pixels*c+i/pixels]
	}
	tokens, _, err := diffusion.Pack(planes, c, at.Rows, at.Cols)
	if err != nil {
		panic(err) // Shape gives sides that can be packed
	}
	return tokens
}

// EncodeAll is the latents of pictures [H, W, 3], or clips [Frames, H, W, 3], between -1 and 1, as diffusion sees them:
// the middle of what the autoencoder allows.
func (p *Pipeline) EncodeAll(pictures [][]float32, at Shape) ([][]float64, error) {
	d, precision, err := p.openedDecoder()
	if err != nil {
		return nil, err
	}
	tp := p.tape(precision)
	defer tp.Reset()
	each, size, n := max(1, (1<<18)/(at.Height*at.Width)), 3*at.Pixels(), max(1, at.Times)*at.Rows*at.Cols*p.family.latents.channels
	if at.Frames > 0 || d.alone { // clips go through alone
		each = 1
	}
	var out [][]float64
	for from := 0; from < len(pictures); from += each {
		some := pictures[from:min(from+each, len(pictures))]
		x, err := seeds(some, len(some), size)
		if err != nil {
			return nil, fmt.Errorf("encoding pictures: %w", err)
		}
		tp.Reset()
		z := widened(d.encode(tp, tp.Upload("pictures", x, at.pictures(len(some))...)).F32())
		for i := range some {
			if one := z[i*n : (i+1)*n : (i+1)*n]; finite(one) {
				out = append(out, p.ungrid(one, at))
			} else {
				return nil, kernels.NotFiniteError("%s: the latents of picture %d are infinite or none (try f32)", d.network.name(), from+i)
			}
		}
	}
	return out, nil
}
