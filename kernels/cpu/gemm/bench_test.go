package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// peerShapes are [m, n, k] of the peer's linear layers.
var peerShapes = [][3]int{{1024, 1024, 1024}, {974, 1536, 1536}, {974, 6144, 1536}, {974, 1536, 6144}, {4096, 1536, 1536},
	{4608, 128, 128}, {4608, 512, 128}, {77, 768, 768}, {8, 4096, 1024}, {8, 151936, 1024}}

func randomMat(d kernels.DType, rows, cols int) kernels.Mat {
	b := &kernels.Buffer{Host: make([]byte, rows*cols*d.Size()+64)}
	off := int(-uintptr(pointer(b.Host))&63) / d.Size()
	m := kernels.NewMat(kernels.Span{Buf: b, Off: off, Len: rows * cols, DType: d}, rows, cols)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range rows * cols {
		if d == kernels.F32 {
			m.F32()[i] = r.Float32() - 0.5
		} else {
			m.BF16()[i] = uint16(r.Uint32())&0x807f | 0x3f00
		}
	}
	return m
}

// BenchmarkPeer reports the best GF/s of one thread on the path of DARKROOM_CPU: go test -bench Peer -benchtime 5x.
func BenchmarkPeer(b *testing.B) {
	path, err := isa.Choose()
	if err != nil {
		b.Skip(err)
	}
	e := New(path, 1)
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		m := [...]kernels.Math{kernels.MathF32, kernels.MathBF16}[d]
		for _, s := range peerShapes {
			run := func(name string, g *kernels.Gemm) {
				b.Run(fmt.Sprintf("%s/%s/%dx%dx%d", name, d, s[0], s[1], s[2]), func(b *testing.B) {
					b.ReportAllocs()
					e.Gemm(g, serial)
					best := time.Hour
					for b.Loop() {
						t := time.Now()
						e.Gemm(g, serial)
						best = min(best, time.Since(t))
					}
					b.ReportMetric(2*float64(s[0])*float64(s[1])*float64(s[2])/best.Seconds()/1e9, "GF/s")
				})
			}
			if testing.Short() && s[1] > 100000 {
				continue
			}
			x, w, y := randomMat(d, s[0], s[2]), randomMat(d, s[1], s[2]), randomMat(d, s[0], s[1])
			packed := e.packed(w, m)
			run("packed", &kernels.Gemm{Layout: kernels.NT, Math: m, A: x, W: packed, C: y})
			run("linear", &kernels.Gemm{Layout: kernels.NT, Math: m, A: x, B: w, C: y})
			if s[0] > 100 {
				dx, dw := randomMat(d, s[0], s[2]), randomMat(d, s[1], s[2])
				run("dx-packed", &kernels.Gemm{Layout: kernels.NN, Math: m, A: y, W: packed, C: dx})
				run("dx", &kernels.Gemm{Layout: kernels.NN, Math: m, A: y, B: w, C: dx})
				run("dw", &kernels.Gemm{Layout: kernels.TN, Math: m, A: y, B: x, C: dw})
			}
		}
	}
}
