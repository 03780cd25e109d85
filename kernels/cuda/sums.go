package cuda

import (
	"encoding/binary"

	"github.com/darkroom-rl/darkroom/kernels"
)

type reduceArgs struct {
	x, y mat
	out  uintptr
	op   int32
	_    int32
}

// Reduce computes every row, a warp each.
func (b *Backend) Reduce(a *kernels.Reduce) {
	b.rows("Reduce", "reduce", a.X.Rows, &reduceArgs{x: matOf(a.X), y: matOf(a.Y), out: at(a.Out), op: int32(a.Op)})
}

type sumRowsArgs struct {
	x             mat
	out, segments uintptr
	count         int64
	accumulate    int32
	_             int32
}

// SumRows computes every column.
func (b *Backend) SumRows(a *kernels.SumRows) {
	args := &sumRowsArgs{x: matOf(a.X), out: at(a.Out), count: 1, accumulate: flag(a.Accumulate)}
	if len(a.Segments) > 0 {
		lengths := make([]int64, len(a.Segments))
		for i, n := range a.Segments {
			lengths[i] = int64(n)
		}
		args.count, args.segments = int64(len(lengths)), b.small("SumRows", int64s(lengths))
	}
	b.columns("SumRows", "sum_rows", a.X.Cols, 1, args)
}

func int64s(x []int64) []byte {
	out := make([]byte, 0, 8*len(x))
	for _, v := range x {
		out = binary.LittleEndian.AppendUint64(out, uint64(v))
	}
	return out
}
