package pipeline

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// along checks a gradient by the change of f along it.
func along(t *testing.T, what string, x, g []float64, f func(x []float64) float64) {
	t.Helper()
	alongBy(t, 2e-2, what, x, g, f)
}

// alongBy is along with a step of a length.
func alongBy(t *testing.T, length float64, what string, x, g []float64, f func(x []float64) float64) {
	t.Helper()
	norm := 0.0
	for _, v := range g {
		norm += v * v
	}
	if norm == 0 {
		t.Errorf("%s: the gradient is 0", what)
		return
	}
	h := length / math.Sqrt(norm)
	at := func(by float64) float64 {
		y := slices.Clone(x)
		for i, v := range g {
			y[i] += by * v
		}
		return f(y)
	}
	if slope := (at(h) - at(-h)) / (2 * h * norm); !(slope > 0.98 && slope < 1.02) {
		t.Errorf("%s changes %v times as the gradient says (|g|² = %v)", what, slope, norm)
	}
}

// weighed are drawn numbers.
func weighed(t *testing.T, n int, key string) []float32 {
	t.Helper()
	w := make([]float32, n)
	start, _ := Draws(3, len(key), n)
	start.Normal(w, 0)
	return w
}

// TestPullDecode: gradients of pictures agree with differences, in every family; pictures and
// gradients do not depend on the batch.
func TestPullDecode(t *testing.T) {
	for _, name := range small {
		p := open(t, filepath.Join(recorded, name), Options{})
		at := stochastic(t, p, Guidance{}).At
		x := [][]float64{widened(weighed(t, at.Len(), "a")), widened(weighed(t, at.Len(), "ab"))}
		w := weighed(t, 3*at.Height*at.Width, "weights")
		pull := func(x ...[]float64) (raw [][]float32, grads [][]float64) {
			t.Helper()
			grads, err := p.PullDecode(x, at, func(from int, some [][]float32) ([][]float32, error) {
				raw = append(raw, some...)
				return slices.Repeat([][]float32{w}, len(some)), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return raw, grads
		}
		both, grads := pull(x...)
		plain, err := p.DecodeAll(x, at)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x {
			one, g := pull(x[i])
			if !slices.Equal(both[i], plain[i]) || !slices.Equal(one[0], plain[i]) {
				t.Errorf("%s: picture %d is not what DecodeAll gives", name, i)
			}
			if !slices.Equal(g[0], grads[i]) {
				t.Errorf("%s: the gradient of picture %d depends on its batch", name, i)
			}
		}
		along(t, name, x[0], grads[0], func(x []float64) (sum float64) {
			raw, err := p.Decode(x, at)
			if err != nil {
				t.Fatal(err)
			}
			for e, v := range raw {
				sum += float64(v) * float64(w[e])
			}
			return sum
		})
		if p.autoencoder.alone { // its pictures come one by one, each with its gradient
			continue
		}
		for says, grad := range map[string][][]float32{"1 gradients for 2": {w}, "numbers for a picture": {w, w[1:]},
			"infinite or none": {w, append(slices.Clone(w[1:]), float32(math.NaN()))}} {
			_, err := p.PullDecode(x, at, func(int, [][]float32) ([][]float32, error) { return grad, nil })
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v; %q was expected", name, err, says)
			}
		}
	}
}

// TestPull: gradients at latents agree with differences, with guidance of either kind, and those
// of parameters are Back's.
func TestPull(t *testing.T) {
	for _, name := range small {
		for _, g := range []Guidance{{Scale: 1, Embedded: 2}, {Scale: 2.5, Embedded: 2}, {Scale: 2.5, Embedded: 2, Norm: true}} {
			p := open(t, filepath.Join(recorded, name), Options{Train: []string{`.*to_q\.weight`}})
			params, err := p.Denoiser()
			if err != nil {
				t.Fatal(err)
			}
			s := stochastic(t, p, g)
			pic := pictures(t, p, 1)[0]
			q := Point{Latents: widened(weighed(t, s.At.Len(), "start")), Time: s.Times[1], Text: pic.Text, Negative: pic.Negative}
			w := widened(weighed(t, s.At.Len(), "seed"))
			tape := p.Tape(true, 0)
			trained := func() []float32 {
				x := slices.Clone(params.Trained()[0].Grad().F32())
				for _, p := range params.Trained() {
					p.ZeroGrad()
				}
				return x
			}
			grads, err := p.Pull(tape, s.At, g, []Point{q}, [][]float64{w})
			if err != nil {
				t.Fatal(err)
			}
			tape.Reset()
			pulled := trained()
			a, err := p.Forward(tape, s.At, g, []Point{q})
			if err == nil {
				err = a.Back([][]float64{w})
			}
			if err != nil {
				t.Fatal(err)
			}
			tape.Reset()
			if !slices.Equal(pulled, trained()) {
				t.Errorf("%s: Pull and Back disagree on parameters", name)
			}
			along(t, name, q.Latents, grads[0], func(x []float64) (sum float64) {
				defer tape.Reset()
				a, err := p.Forward(tape, s.At, g, []Point{{Latents: x, Time: q.Time, Text: q.Text, Negative: q.Negative}})
				if err != nil {
					t.Fatal(err)
				}
				for e, v := range a.Outputs[0] {
					sum += v * w[e]
				}
				return sum
			})
		}
	}
}

// TestGridTurnsRound: packed latents come back as they were.
func TestGridTurnsRound(t *testing.T) {
	for _, name := range small {
		p := open(t, filepath.Join(recorded, name), Options{})
		at := stochastic(t, p, Guidance{}).At
		x := widened(weighed(t, at.Len(), name))
		if !slices.Equal(p.ungrid(widened(p.Grid(x, at)), at), x) {
			t.Errorf("%s: latents are not what they were", name)
		}
	}
}
