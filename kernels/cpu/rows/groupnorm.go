package rows

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Slots of scratch that group norms hold on to besides weightSlot and biasSlot, and
// those of a block.
const (
	meanSlot   = 2
	factorSlot = 3 // rstd·w
	firstSlot  = 4
	sumSlot    = 0
	squareSlot = 1
	middleSlot = 2
)

// GroupNorm is ref.GroupNorm over all samples: a pass that takes the moments of every
// block of pixels, which the caller combines in order, and a pass that writes.
func (e *Engine) GroupNorm(a *kernels.GroupNorm, par Parallel) {
	if e.set == nil || a.HW == 0 || a.C == 0 || a.Groups <= 0 || a.C%a.Groups != 0 {
		par(a.N, func(n int) { ref.GroupNorm(a, n, n+1) })
		return
	}
	k := group
	switch a.Act {
	case kernels.Identity:
	case kernels.SiLU:
		k = groupSiLU
	default:
		panic("kernels: GroupNorm with " + a.Act.String())
	}
	w := e.begin()
	defer w.end(e)
	g := e.pixels(a, par)
	p := g.parameters(w, a)
	for n := range a.N {
		x, y := from(a.X, n*a.HW*a.C), from(a.Y, n*a.HW*a.C)
		first := w.row(firstSlot, a.C)
		w.load(first, x)
		moments := g.moments(w, x, first)
		for group := range a.Groups {
			mean, variance := ref.Statistics(first[group*g.per], moments[group], a.HW*g.per)
			rstd := ref.Div(1, ref.Sqrt(ref.Add(variance, a.Eps)))
			p.take(g, group, mean, rstd)
			if !a.Mean.Empty() {
				a.Mean.F32()[n*a.Groups+group] = mean
			}
			if !a.Rstd.Empty() {
				a.Rstd.F32()[n*a.Groups+group] = rstd
			}
		}
		g.repeated(p.mean, p.scale)
		most := pieceElements
		if w.kernel(k, x.d, y.d) == nil {
			most = longest // through scratch in L1
		}
		k := g.writing(w, k, x.d, y)
		g.each(ref.PixelBlock, true, func(w *work, _, lo, hi int) {
			g.chunks(lo, hi, most, func(at, rows, cols int) {
				w.down(k, rows, cols, y.at(at*g.c), []operand{x.at(at * g.c)}, p.mean, p.scale, p.bias)
			})
		})
	}
}

// channelNumbers are what a pixel's channels are normalised with.
type channelNumbers struct{ weight, bias, mean, scale []float32 }

func (g *pixels) parameters(w *work, a *kernels.GroupNorm) *channelNumbers {
	p := &channelNumbers{g.channels(w, weightSlot), g.channels(w, biasSlot), g.channels(w, meanSlot), g.channels(w, factorSlot)}
	copy(p.weight, numbers(w.parameter(wideSlot, a.Weight, a.C, 1), a.C))
	copy(p.bias, numbers(w.parameter(wideSlot, a.Bias, a.C, 0), a.C))
	g.repeated(p.weight, p.bias)
	return p
}

// take is a group's statistics.
func (p *channelNumbers) take(g *pixels, group int, mean, rstd float32) {
	for c := group * g.per; c < (group+1)*g.per; c++ {
		p.mean[c], p.scale[c] = mean, ref.Mul(rstd, p.weight[c])
	}
}

// moments are those of every group's blocks, measured from the group's first number.
func (g *pixels) moments(w *work, x operand, first []float32) [][]ref.Moments {
	groups, blocks := g.c/g.per, g.blocks(ref.MomentBlock)
	out := w.blockMoments(groups, blocks)
	g.each(ref.MomentBlock, false, func(w *work, b, lo, hi int) {
		sums, squares, middle := w.row(sumSlot, g.c), w.row(squareSlot, g.c), w.row(middleSlot, g.c)
		clear(sums)
		clear(squares)
		w.load(middle, x.at(ref.Middle(lo, hi)*g.c))
		w.fromMiddle(sums, squares, x.at(lo*g.c), hi-lo, (hi-lo)/2)
		for group := range groups {
			at, end := group*g.per, (group+1)*g.per
			out[group][b] = ref.BlockMoments(first[at], middle[at:end], sums[at:end], squares[at:end], hi-lo)
		}
	})
	return out
}

// blockMoments is scratch of the caller's.
func (w *work) blockMoments(groups, blocks int) [][]ref.Moments {
	if cap(w.moments) < groups*blocks {
		w.moments = make([]ref.Moments, groups*blocks)
	}
	if cap(w.groups) < groups {
		w.groups = make([][]ref.Moments, groups)
	}
	for i := range groups {
		w.groups[:groups][i] = w.moments[:groups*blocks][i*blocks : (i+1)*blocks]
	}
	return w.groups[:groups]
}

// fromMiddle adds distances from the middle one of n pixels, and their squares, to the
// channels' sums.
func (w *work) fromMiddle(sums, squares []float32, x operand, n, middle int) {
	c := len(sums)
	add := func(x, from operand, n int) {
		w.stride[0], w.job.rows = c*x.d.Size(), n
		w.call(w.kernel(columnMoments, x.d, kernels.F32), c, own(sums), []operand{x, from, own(squares)}, 0)
	}
	from, many := x.at(middle*c), 64
	wide := w.kernel(columnMoments, x.d, kernels.F32) == nil
	if wide {
		from, many = w.widened(wideSlot, from, c), max(1, longest/c)
	}
	for p := 0; p < n; p += many {
		m := min(many, n-p)
		piece := x.at(p * c)
		if wide {
			piece = w.widened(wideSlot+1, piece, m*c)
		}
		add(piece, from, m)
	}
}
