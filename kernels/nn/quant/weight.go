package quant

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// A Weight is a compressed tensor.
type Weight interface {
	// Unpack writes the values from the place at on, in row-major order, before they are rounded to the weight's
	// precision. A format may ask that at and len(dst) are multiples of its block; Grain says of which.
	Unpack(dst []float32, at int)
	Grain() int
	// Bytes is the memory of codes and scales.
	Bytes() int
}

// Round rounds values to a precision, in place: nearest, ties to even.
func Round(d safetensors.DType, values []float32) {
	for i, v := range values {
		values[i] = round(d, v)
	}
}

func round(d safetensors.DType, v float32) float32 {
	switch d {
	case safetensors.BF16:
		return safetensors.FromBF16(safetensors.ToBF16(v))
	case safetensors.F16:
		return safetensors.FromF16(safetensors.ToF16(v))
	}
	return v
}

// largest is the largest magnitude of values.
func largest(values []float32) (most float32) {
	for _, v := range values {
		most = max(most, magnitude(v))
	}
	return most
}

func magnitude(v float32) float32 {
	if v < 0 {
		return -v
	}
	return v
}

// A Grid gives each block of a matrix a scale: block (i, j) has Scales[i*across + j]. Blocks at the edges may be short.
type Grid struct {
	Scales       []float32
	Columns      int // of the matrix
	Rows, Across int // of a block; 0: all of the matrix
}

// Whole is one scale of a matrix.
func Whole(scale float32) Grid { return Grid{Scales: []float32{scale}} }

// at is the scale of a value by its place.
func (g Grid) at(place int) float32 {
	if len(g.Scales) == 1 {
		return g.Scales[0]
	}
	row, column, across := place/g.Columns, 0, 1
	if g.Across > 0 {
		column, across = place%g.Columns/g.Across, (g.Columns+g.Across-1)/g.Across
	}
	if g.Rows > 0 {
		row /= g.Rows
	} else {
		row = 0
	}
	return g.Scales[row*across+column]
}

// count is how many blocks a matrix has.
func (g Grid) count(rows int) int {
	n := 1
	if g.Across > 0 {
		n = (g.Columns + g.Across - 1) / g.Across
	}
	if g.Rows > 0 {
		n *= (rows + g.Rows - 1) / g.Rows
	}
	return n
}

// blocks calls f with each block of a matrix: rows from top to bottom-1, columns from left to right-1. Calls run side
// by side.
func (g Grid) blocks(rows int, f func(block, top, bottom, left, right int)) {
	high, wide := g.Rows, g.Across
	if high == 0 {
		high = rows
	}
	if wide == 0 {
		wide = g.Columns
	}
	beside := (g.Columns + wide - 1) / wide
	together((rows+high-1)/high*beside, func(block int) {
		top, left := block/beside*high, block%beside*wide
		f(block, top, min(top+high, rows), left, min(left+wide, g.Columns))
	})
}

// together calls f of 0 to n-1 side by side. A panic of f is one of the caller: codes may lie in a mapped file, which
// somebody may cut.
func together(n int, f func(i int)) {
	var group sync.WaitGroup
	var next atomic.Int64
	var failure atomic.Pointer[any]
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			debug.SetPanicOnFault(true)
			defer func() {
				if r := recover(); r != nil {
					failure.CompareAndSwap(nil, &r)
				}
			}()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	group.Wait()
	if r := failure.Load(); r != nil {
		panic(*r)
	}
}

// chunks calls f with parts of n values, from a multiple of a length on, side by side.
func chunks(n, length int, f func(from, to int)) {
	size := max(1, part/max(1, length)) * length
	together((n+size-1)/size, func(i int) { f(i*size, min((i+1)*size, n)) })
}
