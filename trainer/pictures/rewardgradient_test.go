package pictures_test

import (
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/vision"
)

// towards is a reward over pixels: the mean of each times a fixed wave.
func towards(ways []trainer.GradientPath, pictures []vision.Pixels) (values []float64, grads [][]float32, err error) {
	for i, m := range pictures {
		v, g := 0.0, make([]float32, len(m.RGB))
		for e, x := range m.RGB {
			w := math.Sin(float64(e)/700) / float64(len(m.RGB))
			if ways[i].Against {
				w = -w
			}
			v += w * float64(x)
			g[e] = float32(w)
		}
		values, grads = append(values, v), append(grads, g)
	}
	return values, grads, nil
}

// TestDevelopedGradient: through the decoder and the network, with guidance, along every way, the
// loss changes with the adapter as the gradient says; the bytes of the gradient are the same in
// passes of any size.
func TestDevelopedGradient(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	for name, guidance := range map[string]float64{"direct": 1, "refl": 2, "draft": 2} {
		p := painterIn(t, pipeline.F32, guidance, flowSDE)
		p.Trained = []int{steps - 2, steps - 1}
		samples, err := p.Roll(trainer.Current, keys[1:3])
		if err != nil {
			t.Fatal(err)
		}
		o := trainer.RewardGradient{Developer: p, Reward: towards, Ways: map[string]func([]trainer.Sample) ([]trainer.GradientPath, error){
			"direct": trainer.Direct{Step: 0.2, Both: true, Unit: 1000, Draw: func(k trainer.Key, n int) (float64, []float64) {
				noise := make([]float64, p.At.Len())
				for e := range noise {
					noise[e] = math.Cos(float64(e * (1 + k.Sample)))
				}
				return 0.8, noise
			}}.Ways,
			"refl":  trainer.Predicted{Rows: p.Rows, Choose: func(trainer.Key, int) int { return 0 }}.Ways,
			"draft": trainer.Last{Rows: p.Rows}.Ways,
		}[name]}
		params := p.Moved()
		blame := func(micro int) (float64, [][]float32) {
			t.Helper()
			p.Micro = micro
			b, err := o.Evaluate(p, samples, nil)
			if err != nil {
				t.Fatal(err)
			}
			var grads [][]float32
			for _, w := range params {
				grads = append(grads, w.Grad().F32())
				w.ZeroGrad()
			}
			return b.Loss, grads
		}
		_, grads := blame(0)
		_, alone := blame(1)
		norm := 0.0
		for i, g := range grads {
			for e, v := range g {
				norm += float64(v) * float64(v)
				if v != alone[i][e] {
					t.Fatalf("%s: passes of one make another gradient", name)
				}
			}
		}
		start := make([][]float32, len(params))
		for i, w := range params {
			start[i] = w.Value.F32()
		}
		at := func(by float64) float64 {
			t.Helper()
			for i, w := range params {
				x := make([]float32, len(start[i]))
				for e, v := range start[i] {
					x[e] = v + float32(by*float64(grads[i][e]))
				}
				w.Value.UploadF32(x)
				w.Updated()
			}
			loss, _ := blame(0)
			return loss
		}
		h := 0.05 / math.Sqrt(norm)
		if slope := (at(h) - at(-h)) / (2 * h * norm); !(slope > 0.97 && slope < 1.03) {
			t.Errorf("%s: the loss changes %v times as the gradient says (|g|² = %v)", name, slope, norm)
		}
		p.Free()
	}
}
