package bench

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// matrixProducts: linear layers with weights packed once ("linear") and on every
// call ("linear_repacked"), and the two products of their backward; of the sizes that are asked for, if any.
func matrixProducts(sizes [][3]int) []workload {
	// SD3-medium's width, a tiny model's, a block of text, one decoding step.
	forward := [][3]int{{1024, 1024, 1024}, {974, 1536, 1536}, {974, 6144, 1536}, {974, 1536, 6144}, {4096, 1536, 1536},
		{4608, 128, 128}, {4608, 512, 128}, {77, 768, 768}, {8, 4096, 1024}, {8, 151936, 1024}}
	backward := [][3]int{{1024, 1024, 1024}, {974, 1536, 1536}, {974, 6144, 1536}, {4608, 512, 128}}
	if len(sizes) > 0 {
		forward, backward = sizes, sizes
	}
	var all []workload
	add := func(op string, s [3]int, d kernels.DType, prepare func(m *maker, M, N, K int, d kernels.DType) (func(), func() (int, error))) {
		all = append(all, workload{op: op, shape: s[:], dtype: d, work: 2 * float64(s[0]) * float64(s[1]) * float64(s[2]),
			prepare: func(m *maker) (func(), func() (int, error)) { return prepare(m, s[0], s[1], s[2], d) }})
	}
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, s := range forward {
			add("linear", s, d, linear)
			if s[1] < 100000 {
				add("linear_repacked", s, d, linearRepacked)
			}
		}
	}
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, s := range backward {
			add("linear_dx", s, d, linearDX)
			add("linear_dw", s, d, linearDW)
		}
	}
	return all
}

// largeProducts are those of pictures of 1024 x 1024, and squares that fill a device.
func largeProducts() []workload {
	var all []workload
	for _, s := range [][3]int{{4352, 1536, 1536}, {4352, 6144, 1536}, {4352, 1536, 6144}, {4096, 4096, 4096}, {8192, 8192, 8192}} {
		work := 2 * float64(s[0]) * float64(s[1]) * float64(s[2])
		all = append(all, workload{op: "linear", shape: s[:], dtype: kernels.BF16, work: work,
			prepare: func(m *maker) (func(), func() (int, error)) { return linear(m, s[0], s[1], s[2], kernels.BF16) }},
			workload{op: "linear_dx", shape: s[:], dtype: kernels.BF16, work: work,
				prepare: func(m *maker) (func(), func() (int, error)) { return linearDX(m, s[0], s[1], s[2], kernels.BF16) }})
	}
	return all
}

func linear(m *maker, M, N, K int, d kernels.DType) (func(), func() (int, error)) {
	x, w, y := m.matrix(d, M, K), m.matrix(d, N, K), m.result(d, M, N)
	packed := m.b.Pack(w, mathOf(d))
	m.owned = append(m.owned, packed.Buf)
	run := func() { m.b.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: mathOf(d), A: x, W: packed, C: y}) }
	return run, func() (int, error) { return checkNT(m, x, w, y, mathOf(d)) }
}

func linearRepacked(m *maker, M, N, K int, d kernels.DType) (func(), func() (int, error)) {
	x, w, y := m.matrix(d, M, K), m.matrix(d, N, K), m.result(d, M, N)
	run := func() { m.b.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: mathOf(d), A: x, B: w, C: y}) }
	return run, func() (int, error) { return checkNT(m, x, w, y, mathOf(d)) }
}

// checkNT recomputes the first, a middle and the last row at the first and last columns.
func checkNT(m *maker, x, w, y kernels.Mat, math kernels.Math) (int, error) {
	hx, hw, hy := m.hostMat(x), m.hostMat(w), m.hostMat(y)
	wide := min(96, hy.Cols)
	total := 0
	for _, r := range sampled(hy.Rows) {
		for _, c := range []int{0, hy.Cols - wide} {
			want := freshMat(y.DType, 1, wide)
			ref.Backend{}.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: math, A: hx.RowRange(r, r+1), B: hw.RowRange(c, c+wide), C: want})
			n, err := m.same(hy.RowRange(r, r+1).ColRange(c, c+wide), want)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}

// linearDX is dX[M,K] = dY[M,N]·W, with the weight packed for the forward.
func linearDX(m *maker, M, N, K int, d kernels.DType) (func(), func() (int, error)) {
	dy, w, dx := m.matrix(d, M, N), m.matrix(d, N, K), m.result(d, M, K)
	packed := m.b.Pack(w, mathOf(d))
	m.owned = append(m.owned, packed.Buf)
	run := func() { m.b.Gemm(&kernels.Gemm{Layout: kernels.NN, Math: mathOf(d), A: dy, W: packed, C: dx}) }
	return run, func() (int, error) {
		hy, hw, hx := m.hostMat(dy), m.hostMat(w), m.hostMat(dx)
		total := 0
		for _, r := range sampled(M) {
			want := freshMat(d, 1, min(96, K))
			ref.Backend{}.Gemm(&kernels.Gemm{Layout: kernels.NN, Math: mathOf(d), A: hy.RowRange(r, r+1), B: hw.ColRange(0, want.Cols), C: want})
			n, err := m.same(hx.RowRange(r, r+1).ColRange(0, want.Cols), want)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	}
}

// linearDW is dW[N,K] = dYᵀ·X, in f32 as the optimiser wants it.
func linearDW(m *maker, M, N, K int, d kernels.DType) (func(), func() (int, error)) {
	dy, x, dw := m.matrix(d, M, N), m.matrix(d, M, K), m.result(kernels.F32, N, K)
	run := func() { m.b.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: mathOf(d), A: dy, B: x, C: dw}) }
	return run, func() (int, error) {
		hy, hx, hw := m.hostMat(dy), m.hostMat(x), m.hostMat(dw)
		total := 0
		for _, r := range sampled(N) {
			want := freshMat(kernels.F32, 1, min(96, K))
			ref.Backend{}.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: mathOf(d), A: hy.ColRange(r, r+1), B: hx.ColRange(0, want.Cols), C: want})
			n, err := m.same(hw.RowRange(r, r+1).ColRange(0, want.Cols), want)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	}
}

// sampled are the rows that are checked: ends, and two between.
func sampled(rows int) []int {
	return []int{0, rows / 3, rows * 2 / 3, rows - 1}
}
