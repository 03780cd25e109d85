package bench

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// rowOps: what moves memory more than it computes. Work is bytes read and written.
func rowOps() []workload {
	var all []workload
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		add := func(op string, shape []int, prepare func(m *maker) (func(), func() (int, error))) {
			n := 2 * d.Size()
			for _, s := range shape {
				n *= s
			}
			all = append(all, workload{op: op, shape: shape, dtype: d, work: float64(n), bytes: true, prepare: prepare})
		}
		add("layer_norm", []int{974, 1536}, func(m *maker) (func(), func() (int, error)) {
			return rowwise(m, 974, 1536, d, sampledRows, func(b kernels.Backend, x, y kernels.Mat) {
				b.Norm(&kernels.Norm{Kind: kernels.LayerNorm, X: x, Y: y, Eps: 1e-5})
			})
		})
		add("gelu_tanh", []int{974, 6144}, func(m *maker) (func(), func() (int, error)) {
			return rowwise(m, 974, 6144, d, sampledRows, func(b kernels.Backend, x, y kernels.Mat) {
				b.Unary(&kernels.Unary{Op: kernels.GELUTanh, X: x.Span, Y: y.Span})
			})
		})
		add("softmax", []int{974, 6144}, func(m *maker) (func(), func() (int, error)) {
			return rowwise(m, 974, 6144, d, sampledRows, func(b kernels.Backend, x, y kernels.Mat) { b.Softmax(&kernels.Softmax{X: x, Y: y}) })
		})
		add("group_norm32", []int{1, 512, 128, 128}, func(m *maker) (func(), func() (int, error)) {
			return rowwise(m, 128*128, 512, d, allRows, func(b kernels.Backend, x, y kernels.Mat) {
				b.GroupNorm(&kernels.GroupNorm{X: x.Span, Y: y.Span, N: 1, HW: x.Rows, C: 512, Groups: 32, Eps: 1e-5})
			})
		})
	}
	return all
}

// How much of a result is recomputed: all where a row depends on every row.
const (
	sampledRows = false
	allRows     = true
)

func rowwise(m *maker, rows, cols int, d kernels.DType, all bool, op func(b kernels.Backend, x, y kernels.Mat)) (func(), func() (int, error)) {
	x, y := m.matrix(d, rows, cols), m.result(d, rows, cols)
	return func() { op(m.b, x, y) }, func() (int, error) {
		hx, hy := m.hostMat(x), m.hostMat(y)
		if all {
			want := freshMat(d, rows, cols)
			op(ref.Backend{}, hx, want)
			return m.same(hy, want)
		}
		total := 0
		for _, r := range sampled(rows) {
			want := freshMat(d, 1, cols)
			op(ref.Backend{}, hx.RowRange(r, r+1), want)
			n, err := m.same(hy.RowRange(r, r+1), want)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	}
}
