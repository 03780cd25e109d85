package rows

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// pixels is the operand of group norms, a sample at a time: n pixels of c channels, in groups of per. Its memory is a
// worker's scratch, which the caller of a norm holds for the whole call: allocations in a call would set off the
// collector every few calls.
type pixels struct {
	e         *Engine
	par       Parallel
	n, c, per int
	repeat    int // pixels of a row of channels' numbers, so that no row is short
}

func (e *Engine) pixels(a *kernels.GroupNorm, par Parallel) *pixels {
	return &pixels{e: e, par: par, n: a.HW, c: a.C, per: a.C / a.Groups, repeat: max(1, min(a.HW, 512/a.C))}
}

// blocks is the number of blocks of size pixels.
func (g *pixels) blocks(size int) int { return (g.n + size - 1) / size }

// pieceElements is the size of a task: a few microseconds at least.
const pieceElements = 1 << 15

// each calls f for every block of size pixels, from pixel lo to hi-1; a task is a block, or several. A pass after
// another takes blocks from the last one back: the last ones are still in cache.
func (g *pixels) each(size int, backwards bool, f func(w *work, block, lo, hi int)) {
	blocks := g.blocks(size)
	many := max(1, pieceElements/(g.c*size))
	tasks := (blocks + many - 1) / many
	g.par(tasks, func(i int) {
		if backwards {
			i = tasks - 1 - i
		}
		w := g.e.begin()
		defer w.end(g.e)
		for b := i * many; b < min((i+1)*many, blocks); b++ {
			f(w, b, b*size, min((b+1)*size, g.n))
		}
	})
}

// chunks calls f for pieces of pixels lo to hi-1, of about most elements: rows of some
// pixels each, of cols elements together, from pixel p on.
func (g *pixels) chunks(lo, hi, most int, f func(p, rows, cols int)) {
	for p := lo; p < hi; {
		wide := min(g.repeat, hi-p)
		rows := min((hi-p)/wide, max(1, most/(wide*g.c)))
		f(p, rows, wide*g.c)
		p += rows * wide
	}
}

// channels is a row of numbers for each channel, repeated.
func (g *pixels) channels(w *work, slot int) []float32 { return w.row(slot, g.repeat*g.c) }

// repeated copies the first pixel's numbers to the others.
func (g *pixels) repeated(rows ...[]float32) {
	for _, row := range rows {
		for at := g.c; at < len(row); at *= 2 {
			copy(row[at:], row[:at])
		}
	}
}

// spread gives a group's number to its channels.
func (g *pixels) spread(row []float32, group int, x float32) {
	for c := group * g.per; c < (group+1)*g.per; c++ {
		row[c] = x
	}
}

// down runs a kernel down contiguous rows: of the sources, and of numbers by column.
func (w *work) down(k kernel, rows, cols int, dst operand, src []operand, numbers ...[]float32) {
	n, in := rows*cols, src[0].d
	same := len(src) == 1 || src[1].d == in
	f := w.kernel(k, in, dst.d)
	to := dst
	all := make([]operand, 0, len(w.src))
	all = append(all, src...)
	if !same || f == nil {
		for i, s := range src {
			all[i] = w.widened(wideSlot+i, s, n)
		}
		if dst.d != kernels.F32 {
			to = own(w.row(wideSlot, n))
		}
		f = w.kernel(k, kernels.F32, kernels.F32)
	}
	for i, s := range all {
		w.stride[i] = cols * s.d.Size()
	}
	w.stride[2], w.job.rows = cols*to.d.Size(), rows
	for _, row := range numbers {
		all = append(all, own(row))
	}
	w.call(f, cols, to, all, 0)
	if to != dst {
		w.store(dst, to, n)
	}
}

// pastCaches is the size in bytes of a result that is written past the caches: it would push out the other operands,
// and would not be there when it is read.
const pastCaches = 8 << 20

// writing is a kernel, or its twin that writes past the caches.
func (g *pixels) writing(w *work, k kernel, in kernels.DType, y operand) kernel {
	row := g.repeat * g.c * y.d.Size()
	if g.n*g.c*y.d.Size() < g.e.past || row%64 > 0 || uintptr(y.p)%64 > 0 || w.kernel(k+1, in, y.d) == nil {
		return k
	}
	return k + 1
}

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

// channelNumbers are the parameters of a pixel's channels.
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

// Slots of scratch that the gradient holds on to besides the norm's, and of a chunk's
// normalised pixels and gradients.
const (
	rstdSlot   = 4
	term1Slot  = 5
	term2Slot  = 6
	partsSlot  = 7
	unitSlot   = 2
	signalSlot = 3
)

// GroupNormBackward is ref.GroupNormBackward over all samples: a pass that takes both
// sums of every channel over blocks of pixels, and a pass that writes DX. Both form the
// normalised pixels and the gradient before the norm anew, in L1.
func (e *Engine) GroupNormBackward(a *kernels.GroupNormBackward, par Parallel) {
	if e.set == nil || a.HW == 0 || a.C == 0 || a.Groups <= 0 || a.C%a.Groups != 0 || a.Act != kernels.Identity && a.Act != kernels.SiLU {
		ref.GroupNormBackward(a, 0, a.N)
		return
	}
	w := e.begin()
	defer w.end(e)
	d := &groupGradient{pixels: e.pixels(&a.GroupNorm, par), a: a}
	d.channelNumbers = d.parameters(w, &a.GroupNorm)
	d.rstd = d.channels(w, rstdSlot)
	m1, m2 := d.channels(w, term1Slot), d.channels(w, term2Slot)
	d.parts = w.row(partsSlot, d.blocks(ref.PixelBlock)*2*a.C)
	total := make([]float64, 2*a.C)
	for n := range a.N {
		d.x, d.dy = from(a.X, n*a.HW*a.C), from(a.DY, n*a.HW*a.C)
		for group := range a.Groups {
			mean, rstd := a.Mean.F32()[n*a.Groups+group], a.Rstd.F32()[n*a.Groups+group]
			d.take(d.pixels, group, mean, rstd)
			d.spread(d.rstd, group, rstd)
		}
		d.repeated(d.mean, d.scale, d.rstd)
		d.sums(total)
		s1, s2 := total[:a.C], total[a.C:]
		d.add(w, a.DBias, s1)
		d.add(w, a.DWeight, s2)
		if a.DX.Empty() {
			continue
		}
		t1, t2 := ref.GroupTerms(d.weight[:a.C], a.HW, s1, a.Groups), ref.GroupTerms(d.weight[:a.C], a.HW, s2, a.Groups)
		for group := range a.Groups {
			d.spread(m1, group, t1[group])
			d.spread(m2, group, t2[group])
		}
		d.repeated(m1, m2)
		dx := from(a.DX, n*a.HW*a.C)
		k := d.writing(w, groupGrad, kernels.F32, dx)
		d.each(ref.PixelBlock, true, func(w *work, _, lo, hi int) {
			d.chunks(lo, hi, longest, func(at, rows, cols int) {
				unit, signal := d.chunk(w, at, rows, cols)
				signal = w.widened(signalSlot, signal, rows*cols)
				w.down(k, rows, cols, dx.at(at*a.C), []operand{unit, signal}, m2, d.weight, m1, d.rstd)
			})
		})
	}
}

// groupGradient is the gradient of one sample.
type groupGradient struct {
	*pixels
	*channelNumbers
	a     *kernels.GroupNormBackward
	x, dy operand
	rstd  []float32
	parts []float32 // of each block: the channels' first sums, and their second
}

// chunk is n and d of some pixels: the normalised ones, and the gradient before the norm.
func (d *groupGradient) chunk(w *work, at, rows, cols int) (unit, signal operand) {
	x, dy := d.x.at(at*d.c), d.dy.at(at*d.c)
	unit, signal = own(w.row(unitSlot, rows*cols)), dy
	w.down(groupUnit, rows, cols, unit, []operand{x}, d.mean, d.rstd)
	if d.a.Act == kernels.SiLU {
		signal = own(w.row(signalSlot, rows*cols))
		w.down(groupSlope, rows, cols, signal, []operand{x, dy}, d.mean, d.scale, d.bias)
	}
	return unit, signal
}

// sums are the channels' sums over all pixels: of d, and of d·n.
func (d *groupGradient) sums(total []float64) {
	c := d.c
	d.each(ref.PixelBlock, false, func(w *work, b, lo, hi int) {
		part := d.parts[b*2*c : (b+1)*2*c]
		clear(part)
		d.chunks(lo, hi, longest, func(at, rows, cols int) {
			unit, signal := d.chunk(w, at, rows, cols)
			pixels := rows * cols / c
			w.columns(columnSum, part[:c], pixels, []operand{signal}, []int{c})
			signal = w.widened(signalSlot, signal, rows*cols)
			w.columns(columnDot, part[c:], pixels, []operand{signal, unit}, []int{c, c})
		})
	})
	const wide = 64 // channels that a goroutine adds up
	d.par((2*c+wide-1)/wide, func(i int) {
		lo, hi := i*wide, min((i+1)*wide, 2*c)
		t := total[lo:hi]
		clear(t)
		for b := range d.blocks(ref.PixelBlock) {
			for i, v := range d.parts[b*2*c+lo : b*2*c+hi] {
				t[i] += float64(v)
			}
		}
	})
}

// add adds a sample's sums to an accumulator, if there is one.
func (d *groupGradient) add(w *work, to kernels.Span, sums []float64) {
	row := w.row(wideSlot+3, d.c)
	for c, v := range sums {
		row[c] = ref.Flush(float32(v))
	}
	w.addTo(to, row)
}
