//go:build arm64 && !noasm

package rows

import (
	"sync"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Where a kernel flushed a result that ref may have rounded up (package neon), its formula
// computes the same again: 64 elements at a time, so that few go by it. So a watched kernel keeps
// the operands that it writes over until it knows.

// watch is a kernel with its operands: a letter each, as in gen.
type watch struct {
	src, dst, types string
	fast            func(*job)
	formula         formula
	down, rows, sum bool      // sums down columns; rows in order; a sum over a row
	kept            sync.Pool // of *kept
}

func watched(k kernel, src, dst, types string, fast func(*job)) func(*job) {
	f := formulaOf(k)
	if f == nil {
		return fast
	}
	w := &watch{src: src, dst: dst, types: types, fast: fast, formula: f,
		down: k == columnDot || k == columnMoments, rows: k >= group && k <= groupUnit,
		sum: k == dot || k == squares || k == expSum}
	return w.run
}

func (w *watch) run(j *job) {
	k, _ := w.kept.Get().(*kept)
	if k == nil {
		k = new(kept)
	}
	k.before = *j
	w.keep(&k.before, &k.memory)
	j.flushed = 0
	if w.fast(j); j.flushed != 0 {
		switch {
		case w.down:
			w.downAgain(&k.before, j)
		case w.sum:
			j.total = w.sumAgain(&k.before)
		default:
			w.again(&k.before)
		}
	}
	k.before = job{} // no pointer into an operand stays behind
	w.kept.Put(k)
}

// kept is a job before its kernel, with the operands that the kernel writes over.
type kept struct {
	before job
	memory []byte
}

// size is the bytes of an element of source i, or of dst.
func (w *watch) size(i int) int {
	letter, kind := w.dst, w.types[1]
	if i < len(w.src) {
		letter, kind = w.src[i:i+1], w.types[0]
	}
	if letter == "x" && kind == 'b' {
		return 2
	}
	return 4
}

// keep copies the operands that lie where results go, and points j at the copies.
func (w *watch) keep(j *job, memory *[]byte) {
	elements := j.n
	if w.rows {
		elements *= j.rows
	}
	at := 0
	own := func(p *unsafe.Pointer, n int) {
		if len(*memory) < at+n {
			grown := make([]byte, 2*(at+n)) // pointers into the old memory keep it
			copy(grown, *memory)
			*memory = grown
		}
		copy((*memory)[at:at+n], unsafe.Slice((*byte)(*p), n))
		*p = unsafe.Pointer(&(*memory)[at])
		at += (n + 63) &^ 63
	}
	switch {
	case w.down && len(w.src) == 3: // sums of distances, and of their squares
		own(&j.src[2], 4*j.n)
		fallthrough
	case w.down:
		own(&j.dst, 4*j.n)
	default:
		dst := j.dst
		for i := range w.src {
			if j.src[i] == dst && dst != nil && w.src[i] != 'p' && w.src[i] != 'w' {
				own(&j.src[i], elements*w.size(i))
			}
		}
	}
}

// load is element i of source k.
func (w *watch) load(p unsafe.Pointer, k, i int) float32 {
	if w.size(k) == 2 {
		return ref.Flush(ref.FromBF16(*(*uint16)(unsafe.Add(p, 2*i))))
	}
	return ref.Flush(*(*float32)(unsafe.Add(p, 4*i)))
}

// operands are element i of every source.
func (w *watch) operands(j *job, i int, n *numbersOf) {
	n.s = &j.s
	for k, letter := range []byte(w.src) {
		if letter != 'p' && letter != 'w' {
			n.x[k] = w.load(j.src[k], k, i)
		}
	}
}

// again goes over rows in pieces: as before, and by the formula where a piece flushed something.
func (w *watch) again(j *job) {
	const piece = 64
	rows := 1
	if w.rows {
		rows = j.rows
	}
	for r := range rows {
		for at := 0; at < j.n; at += piece {
			part := *j
			part.n, part.rows, part.flushed = min(piece, j.n-at), 1, 0
			for k, letter := range []byte(w.src) {
				if letter == 'p' || letter == 'w' {
					continue
				}
				offset := at * w.size(k)
				if w.rows && letter != 'c' {
					offset += r * j.stride[k]
				}
				part.src[k] = unsafe.Add(j.src[k], offset)
			}
			offset := at * w.size(len(w.src))
			if w.rows {
				offset += r * j.stride[2]
			}
			part.dst = unsafe.Add(j.dst, offset)
			if w.fast(&part); part.flushed != 0 {
				w.define(&part)
			}
		}
	}
}

// define computes a piece by its formula.
func (w *watch) define(j *job) {
	var n numbersOf
	for i := range j.n {
		w.operands(j, i, &n)
		y := w.formula(&n, 0)
		if w.size(len(w.src)) == 2 {
			*(*uint16)(unsafe.Add(j.dst, 2*i)) = ref.ToBF16(y)
		} else {
			*(*float32)(unsafe.Add(j.dst, 4*i)) = y
		}
	}
}

// sumAgain is a sum over a row. Where there is a dst, its elements are the terms.
func (w *watch) sumAgain(j *job) float32 {
	var lanes ref.Lanes
	var n numbersOf
	for i := range j.n {
		w.operands(j, i, &n)
		lane := &lanes[i%len(lanes)]
		if w.dst == "" {
			*lane = w.formula(&n, *lane)
			continue
		}
		y := w.formula(&n, 0)
		*(*float32)(unsafe.Add(j.dst, 4*i)) = y
		*lane = ref.Add(*lane, y)
	}
	return lanes.Total()
}

// downAgain adds down the rows of each column, to the earlier sums.
func (w *watch) downAgain(j, to *job) {
	var n numbersOf
	n.s = &j.s
	moments := len(w.src) == 3
	for c := range j.n {
		sum, squares := w.load(j.dst, len(w.src), c), float32(0)
		if moments {
			squares = w.load(j.src[2], 2, c)
		}
		for r := range j.rows {
			n.x[0] = w.load(unsafe.Add(j.src[0], r*j.stride[0]), 0, c)
			if !moments {
				n.x[1] = w.load(unsafe.Add(j.src[1], r*j.stride[1]), 1, c)
				sum = w.formula(&n, sum)
				continue
			}
			n.x[1] = w.load(j.src[1], 1, c)
			sum, squares = ref.Add(sum, ref.Sub(n.x[0], n.x[1])), w.formula(&n, squares)
		}
		*(*float32)(unsafe.Add(to.dst, 4*c)) = sum
		if moments {
			*(*float32)(unsafe.Add(to.src[2], 4*c)) = squares
		}
	}
}

// The kernels' formulas in ref's arithmetic, an element at a time: results that a kernel flushed are computed again
// by them (watched_arm64.go).

// numbersOf are an element's operands, and the job's numbers.
type numbersOf struct {
	x [7]float32
	s *[8]float32
}

// formula is the element of dst, or a sum's addition to its lane (lane, where it has one).
type formula func(n *numbersOf, lane float32) float32

// formulaOf is the formula of a kernel that multiplies or divides. The others have none: their flushed results are
// exact.
func formulaOf(k kernel) formula {
	switch {
	case k >= actIdentity && k <= actSquare && k != actIdentity && k != actReLU:
		op := kernels.UnaryOp(k - actIdentity)
		return func(n *numbersOf, _ float32) float32 { return ref.Activate(op, n.x[0]) }
	case k >= gradIdentity && k <= gradSquare && k != gradIdentity && k != gradReLU:
		op := kernels.UnaryOp(k - gradIdentity)
		return func(n *numbersOf, _ float32) float32 { return ref.Mul(ref.ActivateGrad(op, n.x[0]), n.x[1]) }
	}
	return formulas[k]
}

var formulas = map[kernel]formula{
	mul:      func(n *numbersOf, _ float32) float32 { return ref.Mul(n.x[0], n.x[1]) },
	div:      func(n *numbersOf, _ float32) float32 { return ref.Div(n.x[0], n.x[1]) },
	times:    func(n *numbersOf, _ float32) float32 { return ref.Mul(n.x[0], n.s[0]) },
	addTimes: func(n *numbersOf, _ float32) float32 { return ref.FMA(n.s[0], n.x[0], n.x[1]) },
	axpby:    func(n *numbersOf, _ float32) float32 { return ref.FMA(n.s[1], n.x[1], ref.Mul(n.s[0], n.x[0])) },
	modulate: func(n *numbersOf, _ float32) float32 { return ref.FMA(n.x[0], ref.Add(1, n.x[1]), n.x[2]) },
	fma:      func(n *numbersOf, _ float32) float32 { return ref.FMA(n.x[0], n.x[1], n.x[2]) },

	normAlone: func(n *numbersOf, _ float32) float32 { return n.unit() },
	norm:      func(n *numbersOf, _ float32) float32 { return n.normalised() },
	normTwice: func(n *numbersOf, _ float32) float32 { return ref.FMA(n.normalised(), n.x[3], n.x[4]) },
	normGrad: func(n *numbersOf, _ float32) float32 {
		return ref.Mul(ref.FMA(-n.x[0], n.s[1], ref.Sub(n.x[1], n.s[0])), n.s[2])
	},
	softmaxGrad: func(n *numbersOf, _ float32) float32 { return ref.Mul(n.x[0], ref.Sub(n.x[1], n.s[0])) },
	expSum:      func(n *numbersOf, _ float32) float32 { return ref.Exp(ref.Sub(n.x[0], n.s[0])) },
	expTimes:    func(n *numbersOf, _ float32) float32 { return ref.Mul(ref.Exp(ref.Sub(n.x[0], n.s[0])), n.s[1]) },

	dot:       func(n *numbersOf, lane float32) float32 { return ref.FMA(n.x[0], n.x[1], lane) },
	columnDot: func(n *numbersOf, lane float32) float32 { return ref.FMA(n.x[0], n.x[1], lane) },
	squares: func(n *numbersOf, lane float32) float32 {
		d := ref.Sub(n.x[0], n.s[0])
		return ref.FMA(d, d, lane)
	},
	columnMoments: func(n *numbersOf, lane float32) float32 {
		d := ref.Sub(n.x[0], n.x[1])
		return ref.FMA(d, d, lane)
	},

	momentum: func(n *numbersOf, _ float32) float32 {
		return ref.FMA(n.s[1], ref.Sub(ref.Mul(n.x[0], n.s[0]), n.x[1]), ref.Flush(n.x[1]))
	},
	variance: func(n *numbersOf, _ float32) float32 {
		g := ref.Mul(n.x[0], n.s[0])
		return ref.FMA(n.s[2], ref.Mul(g, g), ref.Mul(n.s[3], n.x[1]))
	},
	descend: func(n *numbersOf, _ float32) float32 {
		return ref.Sub(ref.Mul(n.x[0], n.s[7]), ref.Div(ref.Mul(n.s[6], n.x[1]), ref.FMA(ref.Sqrt(n.x[2]), n.s[4], n.s[5])))
	},

	group:     func(n *numbersOf, _ float32) float32 { return n.channel(1) },
	groupSiLU: func(n *numbersOf, _ float32) float32 { return ref.Activate(kernels.SiLU, n.channel(1)) },
	groupGrad: func(n *numbersOf, _ float32) float32 {
		return ref.Mul(ref.FMA(-n.x[0], n.x[2], ref.Sub(ref.Mul(n.x[1], n.x[3]), n.x[4])), n.x[5])
	},
	groupSlope: func(n *numbersOf, _ float32) float32 {
		return ref.Mul(ref.ActivateGrad(kernels.SiLU, n.channel(2)), n.x[1])
	},
	groupUnit: func(n *numbersOf, _ float32) float32 { return ref.Mul(ref.Sub(n.x[0], n.x[1]), n.x[2]) },
}

func (n *numbersOf) unit() float32 { return ref.Mul(ref.Sub(n.x[0], n.s[0]), n.s[1]) }

func (n *numbersOf) normalised() float32 { return ref.FMA(n.unit(), n.x[1], n.x[2]) }

// channel is fma(x - mean, w, b), whose numbers are operands from i on.
func (n *numbersOf) channel(i int) float32 {
	return ref.FMA(ref.Sub(n.x[0], n.x[i]), n.x[i+1], n.x[i+2])
}
