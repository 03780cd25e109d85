package vlm

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
)

// TestDraw: tokens are those of their numbers, seen and banned ones punished, and their bare log-probabilities have
// the bits of LogProbs; given tokens are kept, and a row that cannot be drawn gives the reason.
func TestDraw(t *testing.T) {
	c := small(0)
	o := precisions["f32"]
	w := newWorkshop(t, c, o)
	r := rand.New(rand.NewPCG(3, 4))
	d := w.m.NewDecoder(w.pool, o, 4)
	defer d.Close()
	if _, err := d.Draw(Sampling{}); err == nil {
		t.Error("a token was drawn behind nothing")
	}
	rows := []int{2, 0, 3}
	if err := d.Read(rows, []Stretch{words(r, 3), words(r, 9), words(r, 5)}); err != nil {
		t.Fatal(err)
	}
	logits := d.Logits()
	s := Sampling{Temperature: 0.8, Repetition: 1.7, Banned: []int{3, int(c.Picture)}, Uniform: []float64{0, 0.4, 0.999}, Given: []int32{-1, -1, 5}}
	drawn, err := d.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int32
	for i, got := range drawn {
		p, sum, seen := make([]float64, len(logits[i])), 0.0, d.IDs(rows[i])
		for id, l := range logits[i] {
			x := float64(l)
			if slices.Contains(seen, int32(id)) {
				x = min(x/s.Repetition, x*s.Repetition)
			}
			if !slices.Contains(s.Banned, id) {
				p[id] = math.Exp(x / s.Temperature)
			}
			sum += p[id]
		}
		want, below, entropy := int32(0), 0.0, 0.0
		for id, x := range p {
			if x == 0 {
				continue
			}
			if want = int32(id); below+x > s.Uniform[i]*sum {
				break
			}
			below += x
		}
		for _, x := range p {
			if x > 0 {
				entropy -= x / sum * math.Log(x/sum)
			}
		}
		if i == 2 {
			want = 5
		}
		if got.Err != nil || got.ID != want || math.Abs(float64(got.LogProb)-math.Log(p[want]/sum)) > 1e-5 || math.Abs(float64(got.Entropy)-entropy) > 1e-5 {
			t.Errorf("row %d: %+v, want token %d with %.6f, entropy %.6f", i, got, want, math.Log(p[want]/sum), entropy)
		}
		ids = append(ids, got.ID)
	}
	bare, err := d.LogProbs(ids, 0.8)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range drawn {
		if got.Bare != bare[i] {
			t.Errorf("row %d: bare log-probability %v, LogProbs has %v", i, got.Bare, bare[i])
		}
	}
	all := make([]int, c.Text.Vocabulary)
	for i := range all {
		all[i] = i
	}
	if drawn, err = d.Draw(Sampling{Banned: all}); err != nil || drawn[1].Err == nil || !strings.Contains(drawn[1].Err.Error(), "no token is left to be drawn") {
		t.Errorf("all banned: %+v, %v", drawn, err)
	}
	if _, err = d.Draw(Sampling{Banned: []int{len(all)}}); err == nil || !strings.Contains(err.Error(), "none of the vocabulary's") {
		t.Errorf("a banned token that is none: %v", err)
	}
	if _, err = d.Draw(Sampling{Given: []int32{-1, int32(len(all)), -1}}); err == nil {
		t.Error("a given token that is none was taken")
	}
	if drawn, err = d.Draw(Sampling{}); err != nil {
		t.Fatal(err)
	}
	for i, got := range drawn {
		if want := slices.Index(logits[i], slices.Max(logits[i])); got.ID != int32(want) {
			t.Errorf("row %d: the likeliest is %d, not %d", i, want, got.ID)
		}
	}
	d.logits.UploadF32(append(slices.Repeat([]float32{float32(math.NaN())}, len(all)), make([]float32, 2*len(all))...))
	if drawn, err = d.Draw(Sampling{}); err != nil || drawn[0].Err == nil || drawn[1].Err != nil {
		t.Fatalf("logits that are none: %+v, %v", drawn, err)
	}
	if _, ok := drawn[0].Err.(kernels.NotFinite); !ok {
		t.Errorf("logits that are none: %v", drawn[0].Err)
	}
}
