package judge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// says is a model that answers by the first bytes of the pictures it sees.
type says func(shown []uint8, text string) (string, error)

func (s says) Complete(_ context.Context, pictures []*vision.Image, text string) (string, error) {
	var shown []uint8
	for _, m := range pictures {
		shown = append(shown, m.Pix[0])
	}
	return s(shown, text)
}

func shade(v uint8) *vision.Image {
	m := vision.New(2, 2)
	for i := range m.Pix {
		m.Pix[i] = v
	}
	return m
}

func TestPointwise(t *testing.T) {
	for form, c := range map[string]struct {
		reply string
		want  float64
	}{
		"flow_grpo":        {"Final Score: 4", 0.8},
		"mixgrpo":          {"Final Score: 4.5", 4.5},
		"mixgrpo_semantic": {"Alignment Score (1-5): 3", 3},
		"unified":          {"Alignment Score (1-5): 3\nCoherence Score (1-5): 4\nStyle Score (1-5): 5", 4},
		"edit_quality":     {`{"score": [20, 10]}`, 15},
	} {
		for _, reply := range []string{c.reply, "I would rather not say.", "broken"} {
			p, err := NewPointwise(form, says(func(shown []uint8, text string) (string, error) {
				if len(shown) != 1 || shown[0] != 9 || form != "edit_quality" && !strings.Contains(text, "a red cup") {
					t.Errorf("%s: asked about %v: %s", form, shown, text)
				}
				if reply == "broken" {
					return "", errors.New("broken")
				}
				return reply, nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.Score(t.Context(), rewards.Item{Prompt: "a red cup", Image: shade(9)})
			if reply == c.reply && (err != nil || s.Value != c.want || s.Evidence[0].Text != reply) || reply != c.reply && err == nil {
				t.Errorf("%s: %q is %+v, %v", form, reply, s, err)
			}
		}
		p, _ := NewPointwise(form, says(nil))
		if s, err := p.Score(t.Context(), rewards.Item{Prompt: "a red cup"}); err == nil {
			t.Errorf("%s: nothing is %+v", form, s)
		}
	}
	if _, err := NewPointwise("none", nil); err == nil {
		t.Error("a form that there is not")
	}
}

// items of a group, by their shade.
func group(shades ...uint8) []rewards.Item {
	var all []rewards.Item
	for _, v := range shades {
		all = append(all, rewards.Item{Prompt: "a red cup", Image: shade(v)})
	}
	return all
}

func TestPairwise(t *testing.T) {
	brighter := says(func(shown []uint8, _ string) (string, error) {
		if shown[0] > shown[1] {
			return "<answer>Image 1 is better</answer>", nil
		}
		return "<answer>Image 2 is better</answer>", nil
	})
	first := says(func([]uint8, string) (string, error) { return `{"winner": "Image 1"}`, nil })
	for _, c := range []struct {
		name  string
		judge Pairwise
		want  [3]float64
	}{
		{"the brighter one", Pairwise{Model: brighter, Form: "think", AtOnce: 3}, [3]float64{0.5, 1, 0}},
		{"in both orders", Pairwise{Model: brighter, Form: "think", BothOrders: true}, [3]float64{0.5, 1, 0}},
		{"always the first", Pairwise{Model: first, Form: "flex"}, [3]float64{1, 0.5, 0}},
		{"always the first, in both orders", Pairwise{Model: first, Form: "flex", BothOrders: true}, [3]float64{0.5, 0.5, 0.5}},
	} {
		got := c.judge.Judge(t.Context(), group(50, 90, 10))
		for i, r := range got {
			if r.Missing != nil || r.Value != c.want[i] || len(r.Evidence) == 0 {
				t.Errorf("%s: item %d is %+v, want %v", c.name, i, r, c.want[i])
			}
		}
	}
	// Who cannot be compared has no score; the others have.
	moody := says(func(shown []uint8, text string) (string, error) {
		if shown[0] == 10 || shown[1] == 10 {
			return "", errors.New("moody")
		}
		return brighter(shown, text)
	})
	got := Pairwise{Model: moody, Form: "think"}.Judge(t.Context(), append(group(50, 90, 10), rewards.Item{}))
	if got[0].Missing != nil || got[1].Value != 1 || got[2].Missing == nil || !strings.Contains(got[2].Missing.Error(), "moody") || !errors.Is(got[3].Missing, errNoPicture) {
		t.Errorf("%+v", got)
	}
	for name, c := range map[string]struct {
		form  string
		items []rewards.Item
	}{"alone": {"think", group(1)}, "no form": {"dance", group(1, 2)}, "no pictures": {"think", make([]rewards.Item, 2)}} {
		for _, r := range (Pairwise{Model: brighter, Form: c.form}).Judge(t.Context(), c.items) {
			if r.Missing == nil {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

func TestClips(t *testing.T) {
	clip := &video.Clip{Width: 2, Height: 2}
	for v := range uint8(20) {
		clip.Frames = append(clip.Frames, shade(v).Pix)
	}
	model := says(func(shown []uint8, text string) (string, error) {
		if len(shown) != 2*frames || shown[0] != 0 || !strings.Contains(text, "ideo") {
			t.Errorf("asked about %v: %.80s", shown, text)
		}
		return "<answer>Video 2 is better</answer>", nil
	})
	got := Pairwise{Model: model, Form: "think"}.Judge(t.Context(), []rewards.Item{{Clip: clip}, {Clip: clip}})
	if got[0].Missing != nil || got[1].Value != 1 {
		t.Errorf("%+v", got)
	}
}

func TestChat(t *testing.T) {
	reply := `{"choices": [{"message": {"content": "Final Score: 3"}}]}`
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		var body struct {
			Model       string
			Temperature *float64
			Messages    []struct{ Content []struct{ Type string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer k" ||
			body.Model != "UnifiedReward-7b-v1.5" || *body.Temperature != 0 || body.Messages[0].Content[0].Type != "image_url" {
			t.Errorf("%s, %v, %+v, %v", r.URL, r.Header, body, err)
		}
		_, _ = io.WriteString(w, reply)
	}))
	defer s.Close()
	cache, err := call.OpenCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{s.URL, s.URL + "/", s.URL + "/v1", s.URL + "/v1/"} {
		chat := FlowGRPO(url, call.NewCaller(call.Policy{Timeout: 20 * time.Second, Tries: 1, Bytes: 5000}, cache))
		chat.Key = "k"
		said, err := chat.Complete(t.Context(), []*vision.Image{shade(3)}, "well?")
		if err != nil || said != "Final Score: 3" || asked != 1 {
			t.Errorf("%s: %q after %d, %v", url, said, asked, err)
		}
	}
	chat := FlowGRPO(s.URL, call.NewCaller(call.Policy{Timeout: 20 * time.Second, Tries: 1, Bytes: 5000}, nil))
	chat.Key = "k"
	for _, reply = range []string{"", "{}", `{"choices": []}`, `{"choices": [{"message": {"content": null}}]}`, `{"choices": [{"message": {"content": 5}}]}`, "<html>", strings.Repeat("x", 6000)} {
		if said, err := chat.Complete(t.Context(), []*vision.Image{shade(3)}, "well?"); err == nil || strings.Contains(err.Error(), "Bearer") {
			t.Errorf("%.40q: %q, %v", reply, said, err)
		}
	}
	if _, err := chat.Complete(t.Context(), []*vision.Image{nil}, "well?"); err == nil {
		t.Error("no picture was sent")
	}
	if b, err := PrefGRPO("", nil).Body([]*vision.Image{shade(1)}, "x"); err != nil || !strings.Contains(string(b), `"do_sample":false`) {
		t.Error(string(b), err)
	}
}

// TestSwiss: a judge of one mind gives the order of a whole tournament in a third of its calls, and with all rounds
// everyone has met everyone.
func TestSwiss(t *testing.T) {
	var calls atomic.Int64
	brighter := says(func(shown []uint8, _ string) (string, error) {
		calls.Add(1)
		if shown[0] > shown[1] {
			return "<answer>Image 1 is better</answer>", nil
		}
		return "<answer>Image 2 is better</answer>", nil
	})
	shades := []uint8{50, 90, 10, 200, 120, 30, 70, 160, 20, 240, 100, 140}
	rates := func(rounds int) []float64 {
		var out []float64
		for i, r := range (Pairwise{Model: brighter, Form: "think", Rounds: rounds, AtOnce: 2}).Judge(t.Context(), group(shades...)) {
			if r.Missing != nil || len(r.Evidence) == 0 {
				t.Errorf("%d rounds: item %d is %+v", rounds, i, r)
			}
			out = append(out, r.Value)
		}
		return out
	}
	whole := rates(0)
	if calls.Swap(0) != 66 {
		t.Error("a whole tournament of twelve has 66 comparisons")
	}
	few := rates(4)
	if n := calls.Swap(0); n != 24 {
		t.Errorf("four rounds of twelve took %d comparisons", n)
	}
	if c := rankCorrelation(whole, few); c < 0.9 {
		t.Errorf("four rounds order items otherwise: %v and %v (%.3f)", few, whole, c)
	}
	sum := 0.0
	for _, r := range few {
		sum += r
	}
	if math.Abs(sum/12-0.5) > 1e-3 {
		t.Errorf("rates have the mean %g", sum/12)
	}
	all := rates(40)
	if n := calls.Load(); n != 66 {
		t.Errorf("forty rounds took %d comparisons", n)
	}
	if c := rankCorrelation(whole, all); c != 1 {
		t.Errorf("all rounds order items otherwise: %v and %v", all, whole)
	}
}

// rankCorrelation is Spearman's, of numbers without equals.
func rankCorrelation(x, y []float64) float64 {
	ranks := func(x []float64) []float64 {
		s := slices.Sorted(slices.Values(x))
		out := make([]float64, len(x))
		for i, v := range x {
			out[i] = float64(slices.Index(s, v))
		}
		return out
	}
	a, b, d, n := ranks(x), ranks(y), 0.0, float64(len(x))
	for i := range a {
		d += (a[i] - b[i]) * (a[i] - b[i])
	}
	return 1 - 6*d/(n*(n*n-1))
}
