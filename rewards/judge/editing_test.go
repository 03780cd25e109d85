package judge

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision"
)

// edit is a red cup that was made of a darker picture.
func edit() rewards.Item {
	return rewards.Item{Prompt: "make it red", Meta: rewards.Meta{"requirement": []byte(`"the cup is red"`)}, Image: shade(9), Sources: []*vision.Image{shade(3)}}
}

// TestEditScore: two questions, the first about both pictures; the least marks count, and 2.5 of 25 are one of 10.
func TestEditScore(t *testing.T) {
	replies := map[string]string{"overediting": `{"reasoning": "so", "score": [20, 15]}`, "naturalness": "```json\n{\"score\": [25, 10]}\n```"}
	m := says(func(shown []uint8, text string) (string, error) {
		if strings.Contains(text, "overediting") {
			if !slices.Equal(shown, []uint8{3, 9}) || !strings.Contains(text, "Editing instruction: make it red") || !strings.Contains(text, "From scale 0 to 25") {
				t.Errorf("asked about %v: %s", shown, text)
			}
			return replies["overediting"], nil
		}
		if !slices.Equal(shown, []uint8{9}) {
			t.Errorf("asked about %v: %s", shown, text)
		}
		return replies["naturalness"], nil
	})
	s, err := EditScore{m}.Score(t.Context(), edit())
	if want := math.Sqrt(6 * 4); err != nil || s.Value != want || s.Parts["following"] != 8 || s.Parts["consistency"] != 6 || s.Parts["quality"] != 4 {
		t.Errorf("%+v, want %v (%v)", s, want, err)
	}
	replies["naturalness"] = "It is fine."
	if s, err := (EditScore{m}).Score(t.Context(), edit()); !errors.Is(err, errUnreadable) {
		t.Errorf("%+v, %v", s, err)
	}
	bare := edit()
	bare.Sources = nil
	for name, r := range map[string]rewards.Reward{"editscore": EditScore{m}, "edit_r1": EditChance{nil}, "edit_following": func() Pointwise { p, _ := NewPointwise("edit_following", m); return p }()} {
		if s, err := r.Score(t.Context(), bare); !errors.Is(err, errNoSource) {
			t.Errorf("%s of a picture that was made of none: %+v, %v", name, s, err)
		}
	}
}

// chances tells them.
type chances []float64

func (c chances) Chances(_ context.Context, pictures []*vision.Image, text string, answers []string) ([]float64, error) {
	if len(pictures) != 2 || pictures[0].Pix[0] != 3 || !strings.Contains(text, "Instruction: make it red\nRequirements: the cup is red\n") || strings.Join(answers, "") != "012345" {
		return nil, errors.New("asked otherwise: " + text)
	}
	return c, nil
}

// TestEditChance: the mean digit by its chance among the six, which is the softmax over their six logits, over 5.
func TestEditChance(t *testing.T) {
	logits, sum := []float64{-3, 0.5, 1, 2, -1, 0}, 0.0
	all, want := chances{}, 0.0
	for _, z := range logits {
		sum += math.Exp(z)
	}
	for d, z := range logits {
		all = append(all, math.Exp(z)/sum/3) // other tokens have the rest
		want += float64(d) * math.Exp(z) / sum / 5
	}
	if s, err := (EditChance{all}).Score(t.Context(), edit()); err != nil || math.Abs(s.Value-want) > 1e-15 {
		t.Errorf("%+v, want %v (%v)", s, want, err)
	}
	if s, err := (EditChance{chances{0, 0, 0, 0, 1, 0}}).Score(t.Context(), edit()); err != nil || s.Value != 0.8 {
		t.Errorf("%+v (%v)", s, err)
	}
	if _, err := (EditChance{chances{0, 0, 0, 0, 0, 0}}).Score(t.Context(), edit()); err == nil {
		t.Error("no chance is a score")
	}
}

// TestServerChances: a server says the likeliest first tokens.
func TestServerChances(t *testing.T) {
	reply := `{"choices": [{"message": {"content": "4"}, "logprobs": {"content": [{"token": "4", "top_logprobs": [{"token": "4", "logprob": -0.6931471805599453}, {"token": "5", "logprob": -1.3862943611198906}, {"token": " 4", "logprob": -3}]}]}}]}`
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		asked = string(body)
		_, _ = w.Write([]byte(reply))
	}))
	defer s.Close()
	c := Chat{URL: s.URL, Model: "m", Caller: call.NewCaller(call.Policy{Timeout: 10 * time.Second, Tries: 1}, nil)}
	got, err := c.Chances(t.Context(), nil, "how good?", []string{"3", "4", "5"})
	if err != nil || got[0] != 0 || math.Abs(got[1]-0.5) > 1e-12 || math.Abs(got[2]-0.25) > 1e-12 {
		t.Errorf("%v, %v", got, err)
	}
	for _, part := range []string{`"logprobs":true`, `"top_logprobs":20`, `"max_tokens":1`} {
		if !strings.Contains(asked, part) {
			t.Errorf("asked without %s: %s", part, asked)
		}
	}
	for _, bad := range []string{`{"choices": [{"message": {"content": "4"}}]}`, strings.ReplaceAll(reply, `"4"`, `"x"`)} {
		reply = strings.ReplaceAll(bad, `"5"`, `"y"`)
		if got, err := c.Chances(t.Context(), nil, "how good?", []string{"4", "5"}); err == nil {
			t.Errorf("%s: %v", reply, got)
		}
	}
}

// TestEditPairs: the source is shown before both edits, and the win rate is of edited images.
func TestEditPairs(t *testing.T) {
	items := []rewards.Item{edit(), edit(), edit()}
	for i := range items {
		items[i].Image = shade(uint8(10 + i))
	}
	p := Pairwise{Form: "edit_pairwise", AtOnce: 1, Model: says(func(shown []uint8, text string) (string, error) {
		if len(shown) != 3 || shown[0] != 3 || !strings.Contains(text, "make it red") {
			t.Errorf("asked about %v", shown)
		}
		if shown[1] > shown[2] {
			return "<answer>Edited Image 1 is better</answer>", nil
		}
		return "<answer>edited image 2 is better</answer>", nil
	})}
	for i, r := range p.Judge(t.Context(), items) {
		if r.Missing != nil || r.Value != []float64{0, 0.5, 1}[i] {
			t.Errorf("%d: %+v", i, r)
		}
	}
	items[0].Sources = nil
	if r := p.Judge(t.Context(), items); !errors.Is(r[1].Missing, errNoSource) {
		t.Errorf("%+v", r[1])
	}
}
