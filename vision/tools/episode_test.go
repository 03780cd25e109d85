package tools

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

// written is a model that writes these texts, a byte a token.
type written struct {
	turns []string
	read  [][]int32
}

func (w *written) Sample(_ context.Context, tokens []int32, _ []Picture) (Sampled, error) {
	w.read = append(w.read, append([]int32(nil), tokens...))
	text := w.turns[0]
	if len(w.turns) > 1 {
		w.turns = w.turns[1:]
	}
	s := Sampled{Text: text}
	for i, c := range []byte(text) {
		s.IDs, s.LogProb = append(s.IDs, int32(c)), append(s.LogProb, -float64(i+1))
	}
	s.ModelLogProb = s.LogProb
	return s, nil
}

const place = 1000

// bytewise writes a byte a token, and four places a picture.
type bytewise struct{}

func (bytewise) Code(text string, shown []Picture) (Seen, error) {
	var s Seen
	for i, part := range strings.Split(text, "<|image_pad|>") {
		if i > 0 {
			s.Engine, s.Tokens = append(s.Engine, place), append(s.Tokens, place, place, place, place)
		}
		for _, c := range []byte(part) {
			s.Engine, s.Tokens = append(s.Engine, int32(c)), append(s.Tokens, int32(c))
		}
	}
	return s, nil
}

func played(t *testing.T, l Limits, turns ...string) (*Transcript, *written) {
	t.Helper()
	w := &written{turns: turns}
	e := Episode{
		Protocol: Darkroom(), State: &State{Album: NewAlbum(striped(100, 80))}, Limits: l, Sampler: w, Coder: bytewise{},
		Prompt: Seen{Tokens: []int32{place, place, place, place, 7}, Engine: []int32{place, 7}},
	}
	got, err := e.Play(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Check(place, pads(len(got.Shots))); err != nil {
		t.Error(err)
	}
	return got, w
}

func pads(pictures int) []int {
	all := make([]int, pictures)
	for i := range all {
		all[i] = 4
	}
	return all
}

var zooms = call("zoom", `{"bbox_2d": [10, 10, 60, 60]}`)

// TestPlay: the model's next input begins with all earlier tokens, token for token; its own tokens are marked, and
// nothing else.
func TestPlay(t *testing.T) {
	got, w := played(t, Limits{}, zooms, call("zoom", `{"bbox_2d": [1]}`), "<answer>B</answer>")
	if got.End != Answered || got.Answer != "B" || len(got.Turns) != 3 || got.Answers != 2 || got.Calls != 2 || got.Over {
		t.Errorf("%s %q %d %d %d", got.End, got.Answer, len(got.Turns), got.Answers, got.Calls)
	}
	for i := 1; i < len(w.read); i++ {
		if before := w.read[i-1]; !reflect.DeepEqual(w.read[i][:len(before)], before) {
			t.Errorf("turn %d does not begin with the turns before it", i)
		}
	}
	for i, turn := range got.Turns {
		text := ""
		for k := turn.From; k < turn.To; k++ {
			text += string(rune(got.Tokens[k]))
			if got.LogProb[k] != -float64(k-turn.From+1) {
				t.Errorf("token %d has log-probability %v", k, got.LogProb[k])
			}
		}
		if want := []string{zooms, call("zoom", `{"bbox_2d": [1]}`), "<answer>B</answer>"}[i]; text != want {
			t.Errorf("turn %d: %q", i, text)
		}
	}
	if made, refused := got.ToolCalls(); made != 2 || refused != 1 || got.Turns[1].Calls[0].Refused != BoxArity {
		t.Errorf("%d calls, %d refused", made, refused)
	}
	if s := got.Shots[1]; s.Root != 0 || s.Box != (Box{10, 10, 60, 60}) || s.Turn != 0 || s.Hash == "" {
		t.Errorf("%+v", s)
	}
}

// TestEnds: each limit ends an episode for its own reason; who still asked is marked.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		text   string
		end    End
		over   bool
		shots  int
	}{
		{Limits{Turns: 2}, zooms, Turns, true, 2},
		{Limits{Observations: 2}, zooms, Observations, true, 3},
		{Limits{Pictures: 3}, zooms, Pictures, true, 3},
		{Limits{Pixels: 100*80 + 1}, zooms, Pixels, true, 2},
		{Limits{Tokens: len(zooms)}, zooms, Spent, true, 1},
		{Limits{Response: len(zooms) + 10}, zooms, Dropped, true, 1},
		{Limits{Response: 1000, Margin: 990}, zooms, Spent, true, 1},
		{Limits{}, "I do not know", NoCall, false, 1},
		{Limits{}, "", Empty, false, 1},
		{Limits{Response: 3}, "<answer>B</answer>", Spent, false, 1},
	} {
		got, _ := played(t, c.limits, c.text)
		if got.End != c.end || got.Over != c.over || len(got.Shots) != c.shots {
			t.Errorf("%+v: %s, over %v, %d pictures", c.limits, got.End, got.Over, len(got.Shots))
		}
		if c.limits.Response > 0 && len(got.Response()) > c.limits.Response {
			t.Errorf("%d tokens of %d", len(got.Response()), c.limits.Response)
		}
	}
}

// TestCheck: each part of a broken transcript is found.
func TestCheck(t *testing.T) {
	for what, spoil := range map[string]func(t *Transcript){
		"a short slice":          func(t *Transcript) { t.LogProb = t.LogProb[1:] },
		"a prompt too long":      func(t *Transcript) { t.Prompt = 1 << 20 },
		"a gap between turns":    func(t *Transcript) { t.Turns[1].From++ },
		"a token marked":         func(t *Transcript) { t.Sampled[0] = true },
		"an observation marked":  func(t *Transcript) { t.Sampled[t.Turns[0].To] = true },
		"a log-probability":      func(t *Transcript) { t.LogProb[0] = -1 },
		"a sampled place":        func(t *Transcript) { t.Tokens[t.Prompt] = place },
		"a picture without room": func(t *Transcript) { t.Shots = t.Shots[:1] },
	} {
		got, _ := played(t, Limits{}, zooms, "<answer>B</answer>")
		spoil(got)
		if got.Check(place, pads(len(got.Shots))) == nil {
			t.Errorf("%s was not found", what)
		}
	}
}

// FuzzStep: whatever a model writes, every protocol answers, and the pictures can be made.
func FuzzStep(f *testing.F) {
	for _, s := range []string{
		zooms, "<answer>B</answer>", `<grounding>{"bbox_2d": [0.1, 0.2, 0.6, 0.9], "source": "observation_1"}</grounding>`, "<bbox>[1, 2, 300, 400]</bbox>",
		call("image_zoom_in_tool", `{"bbox_2d": [1, 2, 3.5, 70]}`), call("image_rotate_tool", `{"angle": NaN}`), call("crop_image_normalized", `{"bbox_2d": [0.1, 0.2, 0.6, 0.9], "target_image": 0}`),
		call("select_frames", `{"target_frames": [0, 2]}`), "<code>```python\nx\n```</code>", call("grid", `{"cells": 3}`), call("draw_line", `{"bbox_2d": [1, 1, 1e6, -1e6]}`),
	} {
		f.Add(s)
	}
	m := striped(64, 48)
	all := byName()
	f.Fuzz(func(t *testing.T, text string) {
		for name, p := range all {
			s := &State{Album: NewAlbum(m, m)}
			s.Album.Show(1, 32, 24)
			s.Album.Clip = []*vision.Image{m, m}
			r := p.Step(s, text)
			if r.End == "" && r.Text == "" {
				t.Errorf("%s goes on and says nothing", name)
			}
			if n, err := r.Make(s.Album); err == nil && n != r.Pictures {
				t.Errorf("%s made %d pictures of %d", name, n, r.Pictures)
			}
		}
		allTagged(text, "a", "b")
	})
}

// FuzzArguments: the same for calls that are written rightly, with any arguments.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		`{"bbox_2d": [1, 2, 3.5, 70], "label": "x", "target_image": 1, "picture": 2, "target_frames": [1], "frame": 1, "angle": 5, "axis": "vertical", "cells": 3, "point_2d": [1, 2]}`,
		`{"bbox_2d": ["1", 2, null, true]}`, `{"bbox_2d": "1234"}`, `{"bbox_2d": {"a": 1, "b": 2, "c": 3, "d": 4}}`, `{"bbox_2d": [1e400, -1e400, NaN, 0.5]}`, `[0.1, "a", (2, 3), -4]`, `[]`, `null`,
	} {
		f.Add(s)
	}
	m := striped(64, 48)
	all := byName()
	f.Fuzz(func(t *testing.T, args string) {
		for name, p := range all {
			texts := []string{`<grounding>{"bbox_2d": ` + args + `, "source": "observation_1"}</grounding>`, "<bbox>" + args + "</bbox>"}
			for _, tool := range p.Tools {
				texts = append(texts, call(tool.Name, args))
			}
			for _, text := range texts {
				s := &State{Album: NewAlbum(m, m)}
				s.Album.Show(1, 32, 24)
				s.Album.Clip = []*vision.Image{m, m}
				r := p.Step(s, text)
				if n, err := r.Make(s.Album); err == nil && n != r.Pictures {
					t.Errorf("%s made %d pictures of %d for %q", name, n, r.Pictures, text)
				}
			}
		}
	})
}
