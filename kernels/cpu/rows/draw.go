package rows

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Draw is ref.Draw, with a radix select in place of the sort.
func (e *Engine) Draw(a *kernels.Draw, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 {
		ref.Draw(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	s := ref.DrawingOf(a)
	blocks := ref.DrawBlocks(n)
	d, exps, sums, dots := w.row(0, n), w.row(1, n), w.row(2, blocks), w.row(3, blocks)
	for r := lo; r < hi; r++ {
		w.load(d, rowOf(a.X, r))
		s.Punish(d, r)
		m := w.sum(most, n, own(d))
		if !(m > -math.MaxFloat32 && m <= math.MaxFloat32) {
			s.Fail(r, ref.DrawFailure(d, m))
			continue
		}
		if m == 0 { // lanes know either zero, ref the first
			m = d[slices.Index(d, 0)]
		}
		if !w.weigh(d, exps, sums, m, s.Inverse) {
			s.Fail(r, kernels.DrawNotFinite)
			continue
		}
		if s.Most > 0 || s.TopP || s.MinP > 0 {
			w.keep(&s, d, exps, sums)
		}
		if clear(dots); !a.Entropy.Empty() {
			for b, sum := range sums {
				if sum != 0 {
					at, to := b*ref.DrawBlock, min(n, (b+1)*ref.DrawBlock)
					dots[b] = w.sum(dot, to-at, own(exps[at:]), own(d[at:]))
					if dots[b] != dots[b] { // 0 · -Inf
						dots[b] = ref.DotWeighted(exps[at:to], d[at:to])
					}
				}
			}
		}
		s.Finish(r, d, exps, sums, dots)
	}
}

// weigh puts (d - m)·inverse in the place of d, e to its power into exps, and the sums of that by blocks. It reports
// whether all are numbers.
func (w *work) weigh(d, exps, sums []float32, m, inverse float32) bool {
	tops := w.filled(4, ref.DrawBlock, m)
	ok := true
	for b := range sums {
		at := b * ref.DrawBlock
		to := min(len(d), at+ref.DrawBlock)
		next := own(d[min(to, len(d)-1):])
		w.call(w.kernel(sub, kernels.F32, kernels.F32), to-at, own(d[at:]), []operand{own(d[at:]), own(tops)}, 0)
		if inverse != 1 {
			w.s[0] = inverse
			w.call(w.kernel(times, kernels.F32, kernels.F32), to-at, own(d[at:]), []operand{own(d[at:])}, 0)
		}
		w.s[0] = 0
		w.call(w.kernel(expSum, kernels.F32, kernels.F32), to-at, own(exps[at:]), []operand{own(d[at:]), next, next}, 0)
		sums[b] = w.total
		ok = ok && w.total == w.total
	}
	return ok
}

// keep drops the filtered tokens, and adds up the blocks that are left.
func (w *work) keep(s *ref.Drawing, d, exps, sums []float32) {
	last, first := uint32(math.MaxInt32), 0 // the largest key, and the first of those that have it
	if s.Most > 0 {
		var counts [1 << 11]uint64
		for _, v := range d {
			counts[ref.DrawKey(v)>>20]++
		}
		last, _, _ = narrow(&counts, uint64(s.Most), d, last, func(int32) uint64 { return 1 })
	}
	if s.TopP {
		var masses [1 << 11]uint64
		all := uint64(0)
		for i, v := range d {
			if k, mass := ref.DrawKey(v), ref.DrawMass(exps[i]); k <= last {
				masses[k>>20&(1<<11-1)] += mass
				all += mass
			}
		}
		goal := all - s.DrawLimit(all)
		var below uint64
		var ties []int32
		last, below, ties = narrow(&masses, goal, d, last, func(i int32) uint64 { return ref.DrawMass(exps[i]) })
		mass := ref.DrawMass(exps[ties[0]])
		first = int(ties[len(ties)-int((goal-below+mass-1)/mass)])
	}
	for b := range sums {
		at := b * ref.DrawBlock
		to := min(len(d), at+ref.DrawBlock)
		left := 0
		if most := w.sum(most, to-at, own(d[at:])); ref.DrawKey(most) > last {
			for i := range d[at:to] {
				d[at+i] = float32(math.Inf(-1))
			}
			sums[b] = 0 // no one looks at its exponentials
			continue
		}
		for i, v := range d[at:to] {
			if k := ref.DrawKey(v); k < last || k == last && at+i >= first {
				if exps[at+i] >= s.MinP {
					left++
					continue
				}
			}
			d[at+i], exps[at+i] = float32(math.Inf(-1)), 0
		}
		switch left {
		case 0:
			sums[b] = 0
		case to - at:
		default:
			sums[b] = w.sum(sum, to-at, own(exps[at:]))
		}
	}
}

// narrow finds the smallest key up to which weights add up to a goal, of the keys up to a largest: the sum of the
// smaller ones, and its owner. Weights are added up by the upper 11 bits of their keys.
func narrow(coarse *[1 << 11]uint64, goal uint64, d []float32, most uint32, weight func(i int32) uint64) (key uint32, below uint64, who []int32) {
	for below+coarse[key] < goal {
		below += coarse[key]
		key++
	}
	for i, v := range d {
		if k := ref.DrawKey(v); k>>20 == key && k <= most {
			who = append(who, int32(i))
		}
	}
	for _, shift := range []int{10, 0} {
		var fine [1 << 10]uint64
		for _, i := range who {
			fine[ref.DrawKey(d[i])>>shift&(1<<10-1)] += weight(i)
		}
		key <<= 10
		for below+fine[key&(1<<10-1)] < goal {
			below += fine[key&(1<<10-1)]
			key++
		}
		left := who[:0]
		for _, i := range who {
			if ref.DrawKey(d[i])>>shift == key {
				left = append(left, i)
			}
		}
		who = left
	}
	return key, below, who
}
