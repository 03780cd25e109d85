package augment

import (
	"bytes"
	"image/color"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestNoisySchedules: steps by hand, with the published code's numbers.
func TestNoisySchedules(t *testing.T) {
	var n experiment.Noisy
	n.SetDefaults()
	for _, c := range []struct {
		schedule             string
		coef                 float64
		iteration, all, want int
	}{
		{"none", 1, 7, 100, 500}, {"linear", 1, 25, 100, 375}, {"linear", 1, 100, 100, 0},
		{"pow", 2, 50, 100, 375}, {"exp", 0.5, 98, 100, 375}, {"exp", 0.5, 100, 100, 0},
		{"sigmoid", 30, 40, 60, 250},                            // half, at the middle
		{"sigmoid", 30, 1, 60, 499}, {"sigmoid", 30, 60, 60, 0}, // 500·σ(∓): 1/(1+e^-19.5) and 1/(1+e^10)
		{"sigmoid", 30, 42, 60, 134}, // 500/(1+e)
	} {
		n.Schedule, n.Coef = c.schedule, c.coef
		if got := NoiseStep(n, c.iteration, c.all); got != c.want {
			t.Errorf("%s %v: iteration %d of %d has step %d, not %d", c.schedule, c.coef, c.iteration, c.all, got, c.want)
		}
	}
	if n.Of(12) != 6 || n.Of(5) != 3 {
		t.Errorf("half of 12 is %d, of 5 %d", n.Of(12), n.Of(5))
	}
}

// TestDistorted: noise has the deviation of its step, about a mean that fell with it; the same key
// draws the same picture, another one another.
func TestDistorted(t *testing.T) {
	m := vision.NewFilled(128, 96, color.RGBA{128, 128, 128, 255})
	for _, step := range []int{0, 100, 300} { // beyond, much is cut
		got := Distort(m, step, rng.New(4))
		sum, squares := 0.0, 0.0
		for _, x := range got.Pix {
			sum, squares = sum+float64(x), squares+float64(x)*float64(x)
		}
		count := float64(len(got.Pix))
		mean, deviation := sum/count, math.Sqrt(squares/count-sum/count*sum/count)
		keep := ladder(step)
		wantMean, want := 128*math.Sqrt(keep)-0.5, 255*math.Sqrt(1-keep)
		if math.Abs(mean-wantMean) > 0.6 || math.Abs(deviation-want) > 0.03*want+0.4 {
			t.Errorf("step %d: mean %.2f, deviation %.2f; %.2f and %.2f were expected", step, mean, deviation, wantMean, want)
		}
		if again := Distort(m, step, rng.New(4)); !bytes.Equal(got.Pix, again.Pix) {
			t.Error("the same key draws other noise")
		}
		if other := Distort(m, step, rng.New(5)); bytes.Equal(got.Pix, other.Pix) {
			t.Error("another key draws the same noise")
		}
	}
	if k := ladder(999); k > 0.1 || k < 0.01 {
		t.Errorf("the last step keeps %v", k)
	}
}
