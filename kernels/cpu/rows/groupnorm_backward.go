package rows

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

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
