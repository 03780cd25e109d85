package rows

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// lanes64 are the float64 lanes of ref's sum.go.
type lanes64 [32]float64

// addAll adds elements from lane 0 on.
func (l *lanes64) addAll(x []float32) {
	for ; len(x) >= 32; x = x[32:] {
		for j, v := range x[:32] {
			l[j] += float64(v)
		}
	}
	for j, v := range x {
		l[j] += float64(v)
	}
}

func (l *lanes64) total() float64 {
	for h := 16; h > 0; h /= 2 {
		for j := range h {
			l[j] += l[j+h]
		}
	}
	return l[0]
}

// Reduce is ref.Reduce.
func (e *Engine) Reduce(a *kernels.Reduce, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 || a.Op == kernels.ReduceMax {
		ref.Reduce(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	terms := w.row(0, longest)
	for r := lo; r < hi; r++ {
		var l lanes64
		x, y := rowOf(a.X, r), operand{}
		if a.Op == kernels.ReduceDot {
			y = rowOf(a.Y, r)
		}
		for at := 0; at < n; at += longest {
			t := terms[:min(longest, n-at)]
			switch a.Op {
			case kernels.ReduceSum:
				w.apply(actIdentity, len(t), own(t), x.at(at))
			case kernels.ReduceSquares:
				w.apply(actSquare, len(t), own(t), x.at(at))
			case kernels.ReduceDot:
				w.apply(mul, len(t), own(t), x.at(at), y.at(at))
			}
			l.addAll(t)
		}
		a.Out.F64()[r] = l.total()
	}
}

// Row is ref.Row.
func (e *Engine) Row(a *kernels.Row, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 {
		ref.Row(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	mean, next := w.row(0, n), w.row(1, n)
	for s := lo; s < hi; s++ {
		w.s[0] = a.A[s]
		w.apply(times, n, own(mean), rowOf(a.X, s))
		for k, out := range a.Out {
			w.s[0] = a.B[k][s]
			w.apply(addTimes, n, own(mean), rowOf(out, s), own(mean))
		}
		w.put(a.Mean, s, mean)
		switch {
		case a.Given:
			w.load(next, rowOf(a.Next, s))
		case a.Noise.Empty():
			copy(next, mean)
		default:
			w.s[0] = a.C[s]
			w.apply(addTimes, n, own(next), rowOf(a.Noise, s), own(mean))
		}
		if !a.Given {
			w.put(a.Next, s, next)
		}
		if !a.Square.Empty() {
			var l lanes64
			w.apply(sub, n, own(next), own(next), own(mean))
			w.apply(actSquare, n, own(next), own(next))
			l.addAll(next)
			a.Square.F64()[s] = l.total()
		}
	}
}
