package rewards

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

// wordy judges by the words of a prompt, and likes every picture by 5.
type wordy struct{ asked []string }

func (w *wordy) Judge(_ context.Context, items []Item) []Result {
	out := make([]Result, len(items))
	for i, item := range items {
		w.asked = append(w.asked, item.Prompt)
		out[i].Value = 5
		switch {
		case strings.HasPrefix(item.Prompt, "photo"):
			out[i].Value += 2
		case strings.HasPrefix(item.Prompt, "unreadable"):
			out[i].Missing = errors.New("no answer")
		}
	}
	return out
}

func TestRelative(t *testing.T) {
	items := []Item{{Prompt: "a cat"}, {Prompt: "a dog"}}
	of := &wordy{}
	for k, want := range map[float64]float64{0: 2, 0.5: 5.5} {
		got := Relative{Positive: "photo", Negative: "drawing", K: k, Of: of}.Judge(t.Context(), items)
		if len(got) != 2 || got[0].Value != want || got[1].Value != want || got[0].Parts["positive"] != 7 || got[0].Parts["negative"] != 5 {
			t.Errorf("k %v: %+v", k, got)
		}
	}
	if of.asked[0] != "photo. a cat" || of.asked[3] != "drawing. a dog" || items[0].Prompt != "a cat" {
		t.Errorf("asked about %q", of.asked)
	}
	if got := (Relative{Positive: "{prompt}, as a photo", Of: of}).Judge(t.Context(), items); got[0].Value != 0 || of.asked[len(of.asked)-4] != "a cat, as a photo" || of.asked[len(of.asked)-1] != "a dog" {
		t.Errorf("%+v, asked about %q", got, of.asked)
	}
	for _, r := range []Relative{{Positive: "unreadable", Of: of}, {Positive: "photo", Negative: "unreadable", Of: of}} {
		if got := r.Judge(t.Context(), items); got[0].Missing == nil || !strings.Contains(got[0].Missing.Error(), "no answer") {
			t.Errorf("a score that is missing: %+v", got[0])
		}
	}
	told := 0
	Relative{Positive: "photo", Negative: "photo "}.Check(func(_, _, _ string) { told++ })
	Relative{Positive: "photo"}.Check(func(_, _, _ string) { told++ })
	if told != 1 {
		t.Errorf("%d complaints", told)
	}
}

// linear is a reward of pixels that its prompt's length scales.
type linear struct{}

func (linear) Judge(context.Context, []Item) []Result { return nil }

func (linear) PixelGradient(_ context.Context, items []Item, pictures []vision.Pixels) (values []float64, grads [][]float32, err error) {
	for i, item := range items {
		n := float32(len(item.Prompt))
		values = append(values, float64(n*pictures[i].RGB[0]))
		grads = append(grads, []float32{n, 0})
	}
	return values, grads, nil
}

// TestRelativeGradient: the slope is the difference's, and swapped words turn it round.
func TestRelativeGradient(t *testing.T) {
	r := Relative{Positive: "{prompt}{prompt}{prompt}", Negative: "{prompt}", K: 0.5, Of: linear{}}
	items, pictures := []Item{{Prompt: "ab"}, {Prompt: "abcd"}}, []vision.Pixels{{RGB: []float32{2, 9}}, {RGB: []float32{1, 9}}}
	for _, c := range []struct {
		r      Relative
		values []float64
		slopes []float32
	}{{r, []float64{14, 14}, []float32{7, 14}}, {r.Swapped(), []float64{-6, -6}, []float32{-3, -6}}} {
		values, grads, err := c.r.PixelGradient(t.Context(), items, pictures)
		if err != nil {
			t.Fatal(err)
		}
		for i := range items {
			if values[i] != c.values[i] || grads[i][0] != c.slopes[i] || grads[i][1] != 0 {
				t.Errorf("sample %d: %v with slope %v, not %v with %v", i, values[i], grads[i], c.values[i], c.slopes[i])
			}
		}
	}
	r.Of = &wordy{}
	if _, _, err := r.PixelGradient(t.Context(), items, pictures); err == nil {
		t.Error("a reward without a gradient has one")
	}
}
