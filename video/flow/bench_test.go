package flow

import (
	"math"
	"math/rand/v2"
	"testing"
)

// waves is a picture of forty waves of 5 to 45 pixels, defined between pixels, moved by
// (dx, dy).
func waves(width, height int, dx, dy float64) Gray {
	r := rand.New(rand.NewPCG(11, 12))
	v := make([]float64, width*height)
	for range 40 {
		long := math.Exp(math.Log(5) + math.Log(9)*r.Float64())
		angle, phase, high := math.Pi*r.Float64(), 2*math.Pi*r.Float64(), math.Pow(long, 0.6)*(0.5+r.Float64())
		kx, ky := 2*math.Pi/long*math.Cos(angle), 2*math.Pi/long*math.Sin(angle)
		for i := range v {
			v[i] += high * math.Cos((float64(i%width)-dx)*kx+(float64(i/width)-dy)*ky+phase)
		}
	}
	g := Gray{width, height, make([]uint8, width*height)}
	for i := range v {
		g.Pix[i] = uint8(min(max(math.Round(127.5+1.6*v[i]), 0), 255))
	}
	return g
}

// The pair that OpenCV is timed on, too: 832 x 480, one thread.
func benchmark(b *testing.B, flow func(first, second Gray) error) {
	first, second := waves(832, 480, 0, 0), waves(832, 480, 2.4, -1.3)
	for b.Loop() {
		if err := flow(first, second); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFarneback(b *testing.B) {
	for name, f := range map[string]Farneback{"box": {}, "gaussian": {PyramidScale: 0.6, Levels: 2, Window: 13, Iterations: 2, PolyN: 7, PolySigma: 1.5, Gaussian: true}} {
		b.Run(name, func(b *testing.B) {
			benchmark(b, func(x, y Gray) error { _, err := f.Flow(x, y); return err })
		})
	}
}

func BenchmarkDIS(b *testing.B) {
	for name, p := range map[string]Preset{"medium": Medium, "fast": Fast, "ultrafast": UltraFast} {
		b.Run(name, func(b *testing.B) {
			benchmark(b, func(x, y Gray) error { _, err := (DIS{Preset: p}).Flow(x, y); return err })
		})
	}
}
