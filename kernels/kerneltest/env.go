package kerneltest

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Env gives a case its operands and takes its results.
type Env struct {
	B     kernels.Backend
	shift int // elements between a guard band and the operand
	seed  uint64
	drawn uint64
	owned []owned
	outs  []output
	nears []func() error
}

type owned struct {
	buf        *kernels.Buffer
	before, at int // bytes: where the operand starts, and where it ends
}

type output struct {
	name string
	span kernels.Span
}

// guard is the number of bytes of guard band after an operand, and at least before it.
const guard = 128

const guardByte = 0xA5

// New is a span of n elements holding given bytes, inside guard bands.
func (e *Env) New(d kernels.DType, n int, contents []byte) kernels.Span {
	size := d.Size()
	off := guard/size + e.shift
	total := (off+n)*size + guard
	buf := e.B.Alloc(total)
	all := make([]byte, buf.Bytes)
	for i := range all {
		all[i] = guardByte
	}
	copy(all[off*size:], contents[:n*size])
	e.B.Upload(kernels.Span{Buf: buf, Len: buf.Bytes, DType: kernels.U8}, all)
	e.owned = append(e.owned, owned{buf, off * size, (off + n) * size})
	return kernels.Span{Buf: buf, Off: off, Len: n, DType: d}
}

func (e *Env) guards(o owned) error {
	all := make([]byte, o.buf.Bytes)
	e.B.Download(all, kernels.Span{Buf: o.buf, Len: o.buf.Bytes, DType: kernels.U8})
	for i, x := range all {
		if (i < o.before || i >= o.at) && x != guardByte {
			return fmt.Errorf("guard band: byte %d from the operand's start was overwritten (the operand has %d)", i-o.before, o.at-o.before)
		}
	}
	return nil
}

// rand is the generator of the next operand.
func (e *Env) rand() *rand.Rand {
	e.drawn++
	return rand.New(rand.NewPCG(e.seed, e.drawn))
}

// bell is a number of mean 0 and deviation 1, the same on every machine: the sum of
// four uniforms, exact in integers.
func bell(r *rand.Rand) float32 {
	var sum int64
	for range 4 {
		sum += int64(r.Uint32() >> 2)
	}
	return float32(sum-1<<31) * 0x1.bb67aep-30
}

// Floats is a span of n seeded numbers, bell-shaped times scale, in F32 or BF16.
func (e *Env) Floats(d kernels.DType, n int, scale float32) kernels.Span {
	r := e.rand()
	x := make([]float32, n)
	for i := range x {
		x[i] = bell(r) * scale
	}
	return e.Values(d, x)
}

// Wild is a span of n numbers among them zeros of both signs, infinities, NaNs,
// denormals, and exponents of all sizes.
func (e *Env) Wild(d kernels.DType, n int) kernels.Span {
	r := e.rand()
	x := make([]float32, n)
	for i := range x {
		switch r.IntN(16) {
		case 0:
			x[i] = float32(math.Copysign(0, float64(r.IntN(2))-0.5))
		case 1:
			x[i] = float32(math.Inf(r.IntN(2)*2 - 1))
		case 2:
			x[i] = float32(math.NaN())
		case 3:
			x[i] = math.Float32frombits(r.Uint32() & 0x807f_ffff)
		case 4, 5:
			x[i] = math.Float32frombits(r.Uint32() & 0xff7f_ffff)
		default:
			x[i] = bell(r) * 3
		}
	}
	return e.Values(d, x)
}

// Ending is Floats, but for the last eighth, which is x.
func (e *Env) Ending(d kernels.DType, n int, x float32) kernels.Span {
	r := e.rand()
	all := make([]float32, n)
	for i := range all {
		all[i] = bell(r)
		if i >= n*7/8 {
			all[i] = x
		}
	}
	return e.Values(d, all)
}

// Values is a span of given numbers, in F32, BF16 or F64. BF16 keeps denormals.
func (e *Env) Values(d kernels.DType, x []float32) kernels.Span {
	b := make([]byte, len(x)*d.Size())
	for i, v := range x {
		switch d {
		case kernels.F32:
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
		case kernels.BF16:
			h := ref.ToBF16(v)
			if u := math.Float32bits(v); u&0x7f80_0000 == 0 {
				h = uint16(u >> 16)
			}
			binary.LittleEndian.PutUint16(b[2*i:], h)
		case kernels.F64:
			binary.LittleEndian.PutUint64(b[8*i:], math.Float64bits(float64(v)))
		default:
			panic("kerneltest: Values of " + d.String())
		}
	}
	return e.New(d, len(x), b)
}

// Ints is a span of given whole numbers.
func (e *Env) Ints(x []int32) kernels.Span {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	}
	return e.New(kernels.I32, len(x), b)
}

// Zeros is a span of n zeros: a destination, or an accumulator.
func (e *Env) Zeros(d kernels.DType, n int) kernels.Span {
	return e.New(d, n, make([]byte, n*d.Size()))
}

// Junk is a span of n elements that must not be read before they are written: NaNs.
func (e *Env) Junk(d kernels.DType, n int) kernels.Span {
	b := make([]byte, n*d.Size())
	for i := range b {
		b[i] = 0xff
	}
	return e.New(d, n, b)
}

// Mat is a seeded matrix whose rows lie pad elements further apart than they are long.
func (e *Env) Mat(d kernels.DType, rows, cols, pad int, scale float32) kernels.Mat {
	return strided(e.Floats(d, max(0, rows*(cols+pad)), scale), rows, cols, pad)
}

// WildMat is Mat with Wild numbers.
func (e *Env) WildMat(d kernels.DType, rows, cols, pad int) kernels.Mat {
	return strided(e.Wild(d, rows*(cols+pad)), rows, cols, pad)
}

// JunkMat is a destination. The memory between its rows must survive, since the whole span is compared where it is
// named as an output by Out.
func (e *Env) JunkMat(d kernels.DType, rows, cols, pad int) kernels.Mat {
	return strided(e.Junk(d, rows*(cols+pad)), rows, cols, pad)
}

func strided(s kernels.Span, rows, cols, pad int) kernels.Mat {
	return kernels.Mat{Span: s, Rows: rows, Cols: cols, Stride: cols + pad}
}

// Out names a result.
func (e *Env) Out(name string, s kernels.Span) { e.outs = append(e.outs, output{name, s}) }

// Near has a naive formula's result for a span: |got - want| <= abs + rel·|want|.
func (e *Env) Near(name string, s kernels.Span, want []float64, abs, rel float64) {
	e.nears = append(e.nears, func() error {
		got := e.Numbers(s)
		if len(got) != len(want) {
			return fmt.Errorf("%s: %d elements, the formula has %d", name, len(got), len(want))
		}
		for i, w := range want {
			if !(math.Abs(got[i]-w) <= abs+rel*math.Abs(w)) && !(math.IsNaN(w) && math.IsNaN(got[i])) && got[i] != w {
				return fmt.Errorf("%s[%d] = %g, the formula gives %g", name, i, got[i], w)
			}
		}
		return nil
	})
}

// Bytes is a span's memory.
func (e *Env) Bytes(s kernels.Span) []byte {
	b := make([]byte, s.Len*s.DType.Size())
	if len(b) > 0 {
		e.B.Download(b, s)
	}
	return b
}

// Numbers is a span's contents as float64.
func (e *Env) Numbers(s kernels.Span) []float64 {
	b := e.Bytes(s)
	n := s.DType.Size()
	x := make([]float64, s.Len)
	for i := range x {
		x[i], _ = number(s.DType, b[i*n:(i+1)*n])
	}
	return x
}

func number(d kernels.DType, b []byte) (float64, bool) {
	switch d {
	case kernels.F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), true
	case kernels.BF16:
		return float64(ref.FromBF16(binary.LittleEndian.Uint16(b))), true
	case kernels.F16:
		return float64(ref.FromF16(binary.LittleEndian.Uint16(b))), true
	case kernels.F64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), true
	case kernels.I32:
		return float64(int32(binary.LittleEndian.Uint32(b))), true
	}
	return 0, false
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}
