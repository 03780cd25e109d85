package rows

import "github.com/darkroom-rl/darkroom/kernels"

// pixels is what group norms run over, a sample at a time: n pixels of c channels, in
// groups of per. Its memory is a worker's scratch, which the caller of a norm holds for
// the whole call: what a call allocates would set off the collector every few calls.
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

// each calls f for every block of size pixels, from pixel lo to hi-1; a task is a block, or
// several. A pass after another takes blocks from the last one back: what was read last
// is still in cache.
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

// pastCaches is the size in bytes of a result that is written past the caches: it would
// push out what is read meanwhile, and would not be there when it is read.
const pastCaches = 8 << 20

// writing is a kernel, or its twin that writes past the caches.
func (g *pixels) writing(w *work, k kernel, in kernels.DType, y operand) kernel {
	row := g.repeat * g.c * y.d.Size()
	if g.n*g.c*y.d.Size() < g.e.past || row%64 > 0 || uintptr(y.p)%64 > 0 || w.kernel(k+1, in, y.d) == nil {
		return k
	}
	return k + 1
}
