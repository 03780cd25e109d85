package bench

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Operands of workloads, and how results are compared.

// maker makes operands: random numbers, never zeros, since the clock of some units
// depends on the data.
type maker struct {
	b     kernels.Backend
	near  float64 // Options.Near, of products in bf16; else 0
	owned []*kernels.Buffer
	drawn uint64
}

func (m *maker) free() {
	for _, b := range m.owned {
		m.b.Free(b)
	}
}

func (m *maker) empty(d kernels.DType, n int) kernels.Span {
	buf := m.b.Alloc(n * d.Size())
	m.owned = append(m.owned, buf)
	return kernels.Span{Buf: buf, Len: n, DType: d}
}

// random fills a span with uniform numbers of deviation 1, in pieces that have a stream each.
func (m *maker) random(d kernels.DType, n int) kernels.Span {
	const piece = 1 << 18
	m.drawn++
	raw := make([]byte, n*d.Size())
	var all sync.WaitGroup
	for from := 0; from < n; from += piece {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(from/piece)<<8|11, m.drawn))
			for i := from; i < min(from+piece, n); i++ {
				x := (float32(r.Uint32()>>8)*0x1p-24 - 0.5) * 3.4641016
				if d == kernels.BF16 {
					binary.LittleEndian.PutUint16(raw[2*i:], ref.ToBF16(x))
				} else {
					binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(x))
				}
			}
		})
	}
	all.Wait()
	s := m.empty(d, n)
	m.b.Upload(s, raw)
	return s
}

func (m *maker) matrix(d kernels.DType, rows, cols int) kernels.Mat {
	return kernels.NewMat(m.random(d, rows*cols), rows, cols)
}

func (m *maker) result(d kernels.DType, rows, cols int) kernels.Mat {
	return kernels.NewMat(m.empty(d, rows*cols), rows, cols)
}

// host copies a span to host memory, where ref can read it.
func (m *maker) host(s kernels.Span) kernels.Span {
	raw := make([]byte, s.Len*s.DType.Size())
	m.b.Download(raw, s)
	h := kernels.Span{Buf: ref.Backend{}.Alloc(len(raw)), Len: s.Len, DType: s.DType}
	ref.Backend{}.Upload(h, raw)
	return h
}

// hostMat is host for a matrix of any stride: its rows become contiguous.
func (m *maker) hostMat(a kernels.Mat) kernels.Mat {
	s := m.host(a.Span.Slice(0, (a.Rows-1)*a.Stride+a.Cols))
	return kernels.Mat{Span: s, Rows: a.Rows, Cols: a.Cols, Stride: a.Stride}
}

// fresh is an empty span for ref's result.
func fresh(d kernels.DType, n int) kernels.Span {
	return kernels.Span{Buf: ref.Backend{}.Alloc(n * d.Size()), Len: n, DType: d}
}

func freshMat(d kernels.DType, rows, cols int) kernels.Mat {
	return kernels.NewMat(fresh(d, rows*cols), rows, cols)
}

// same compares equally shaped matrices: bits, or numbers that may be near.
func (m *maker) same(got, want kernels.Mat) (int, error) {
	size := got.DType.Size()
	if m.near > 0 {
		return m.close(got, want)
	}
	for r := range want.Rows {
		g, w := got.Row(r).Raw(), want.Row(r).Raw()
		for c := range want.Cols {
			if x, y := string(g[c*size:(c+1)*size]), string(w[c*size:(c+1)*size]); x != y {
				return 0, fmt.Errorf("sampled row %d, column %d: got bits %x, ref has %x", r, c, x, y)
			}
		}
	}
	return want.Rows * want.Cols, nil
}

// close compares numbers: those of bf16 may also be a rounding apart, and sums in fp32 differ by their order alone.
func (m *maker) close(got, want kernels.Mat) (int, error) {
	near := m.near
	share := near + 1.0/128
	if got.DType == kernels.F32 {
		near = min(near, 3e-4)
		share = near
	}
	for r := range want.Rows {
		g, w := numbers(got.Row(r)), numbers(want.Row(r))
		for c := range want.Cols {
			x, y := g[c], w[c]
			if !(math.Abs(x-y) <= near+share*math.Abs(y)) {
				return 0, fmt.Errorf("sampled row %d, column %d: got %g, ref has %g", r, c, x, y)
			}
		}
	}
	return want.Rows * want.Cols, nil
}

// numbers are a span's, of either type.
func numbers(s kernels.Span) []float64 {
	all := make([]float64, s.Len)
	for i := range all {
		if s.DType == kernels.BF16 {
			all[i] = float64(ref.FromBF16(s.BF16()[i]))
		} else {
			all[i] = float64(s.F32()[i])
		}
	}
	return all
}
