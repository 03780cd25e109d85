package clip

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// vitL14 is the picture tower of OpenAI's ViT-L/14.
func vitL14() VisionConfig {
	return VisionConfig{Encoder: Encoder{Width: 1024, Inner: 4096, Layers: 24, Heads: 16, Act: "quick_gelu", Eps: 1e-5, Out: 768}, Side: 224, Patch: 14, Channels: 3}
}

// BenchmarkViTL14 is a picture's vector, and the way back to its pixels, by a tower of the
// published size with random weights, four pictures at once.
func BenchmarkViTL14(b *testing.B) {
	path, err := isa.Choose()
	if err != nil {
		b.Fatal(err)
	}
	const n = 4
	x := make([][]float32, n)
	for i := range x {
		x[i] = make([]float32, 3*224*224)
		for k := range x[i] {
			x[i][k] = float32((k*2654435761)%1009)/504 - 1
		}
	}
	for _, threads := range []int{1, 2} {
		for name, p := range map[string]features.Precision{"fp32": features.F32, "bf16": features.BF16} {
			be := cpu.NewWith(cpu.Options{Threads: threads, Path: path})
			d := features.On(tensor.NewPool(be), p)
			var m *Vision
			params, err := d.Load(nil, func(p *nn.Params) { m = NewVision(p, vitL14()) })
			if err != nil {
				b.Fatal(err)
			}
			t := &features.Tower{Device: d, Prepare: vision.CLIPPillow(224), Batch: n, Width: 768,
				Forward: func(tp *autograd.Tape, x *autograd.Value) *autograd.Value { return m.Forward(tp, x).Projected }}
			run := func(what string, f func() error) {
				b.Run(fmt.Sprintf("%s/%s/threads=%d", what, name, threads), func(b *testing.B) {
					best := time.Duration(math.MaxInt64) // other work of the machine only adds
					for range b.N {
						begin := time.Now()
						if err := f(); err != nil {
							b.Fatal(err)
						}
						best = min(best, time.Since(begin))
					}
					b.ReportMetric(best.Seconds()/n, "s/picture")
				})
			}
			run("forward", func() error {
				_, err := t.Vectors(context.Background(), x)
				return err
			})
			run("gradient", func() error {
				_, err := t.Pull(context.Background(), x, func(_ int, v [][]float64) ([][]float64, error) { return v, nil })
				return err
			})
			d.Free(params)
			be.Close()
		}
	}
}
