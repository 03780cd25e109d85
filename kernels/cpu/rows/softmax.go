package rows

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Softmax is ref.Softmax: the maximum, exponentials with their sum, the products. A row
// of fp32 keeps its exponentials where its result goes. Exponentials take longest, so
// while they are computed the next row of X and this row of Y are asked for.
func (e *Engine) Softmax(a *kernels.Softmax, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 {
		ref.Softmax(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	exps := own(w.row(0, n))
	for r := lo; r < hi; r++ {
		x, y := rowOf(a.X, r), rowOf(a.Y, r)
		if y.d == kernels.F32 {
			exps = y
		}
		w.s[0] = ref.Div(1, w.exps(exps, x, n, rowOf(a.X, min(r+1, hi-1)), y))
		w.apply(times, n, y, exps)
	}
}

// exps puts e^(x - max) into dst and returns their sum; it leaves max in s[0]. The next inputs and outputs may be
// asked for meanwhile.
func (w *work) exps(dst, x operand, n int, read, write operand) float32 {
	x = w.known(most, 1, x, n)
	w.s[0] = w.sum(most, n, x)
	w.call(w.kernel(expSum, x.d, kernels.F32), n, dst, []operand{x, read, write}, 0)
	return w.total
}

// SoftmaxBackward is ref.SoftmaxBackward.
func (e *Engine) SoftmaxBackward(a *kernels.SoftmaxBackward, lo, hi int) {
	n := a.Y.Cols
	if e.set == nil || n == 0 {
		ref.SoftmaxBackward(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	for r := lo; r < hi; r++ {
		y, dy := rowOf(a.Y, r), rowOf(a.DY, r)
		if y.d != dy.d || w.kernel(dot, y.d, kernels.F32) == nil {
			y, dy = w.widened(0, y, n), w.widened(1, dy, n)
		}
		w.s[0] = w.sum(dot, n, y, dy)
		w.apply(softmaxGrad, n, rowOf(a.DX, r), y, dy)
	}
}

// LogSoftmaxGather is ref.LogSoftmaxGather.
func (e *Engine) LogSoftmaxGather(a *kernels.LogSoftmaxGather, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 {
		ref.LogSoftmaxGather(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	z, exps := w.row(0, n), w.row(1, n)
	for r := lo; r < hi; r++ {
		w.scaled(z, a, r)
		s := w.exps(own(exps), own(z), n, own(z), own(exps))
		lse := ref.Add(w.s[0], ref.Log(s))
		if !a.LSE.Empty() {
			a.LSE.F32()[r] = lse
		}
		if !a.Out.Empty() {
			out := float32(0)
			if i := a.Index.I32()[r]; i >= 0 {
				out = ref.Sub(z[i], lse)
			}
			a.Out.F32()[r] = out
		}
		if !a.Entropy.Empty() {
			for i, v := range exps {
				if v == 0 {
					z[i] = 0
				}
			}
			a.Entropy.F32()[r] = ref.Sub(lse, ref.Mul(w.sum(dot, n, own(exps), own(z)), ref.Div(1, s)))
		}
	}
}

// scaled is row r of X over the temperature, in fp32.
func (w *work) scaled(z []float32, a *kernels.LogSoftmaxGather, r int) {
	w.s[0] = ref.InverseTemperature(a) // times 1 changes nothing
	w.apply(times, len(z), own(z), rowOf(a.X, r))
}

// LogSoftmaxGatherBackward is ref.LogSoftmaxGatherBackward.
func (e *Engine) LogSoftmaxGatherBackward(a *kernels.LogSoftmaxGatherBackward, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 {
		ref.LogSoftmaxGatherBackward(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	z := w.row(0, n)
	for r := lo; r < hi; r++ {
		at := int(a.Index.I32()[r])
		if at < 0 {
			clear(z)
		} else {
			w.scaled(z, &a.LogSoftmaxGather, r)
			d := ref.Mul(a.DOut.F32()[r], ref.InverseTemperature(&a.LogSoftmaxGather))
			w.s[0], w.s[1] = a.LSE.F32()[r], -d
			w.apply(expTimes, n, own(z), own(z))
			z[at] = ref.Add(d, z[at])
		}
		w.apply(actIdentity, n, rowOf(a.DX, r), own(z))
	}
}

func numbers(o operand, n int) []float32 { return unsafe.Slice((*float32)(o.p), n) }
