package rewards

import (
	"encoding/json"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// TestSceneEdit: an edit is worth more than a picture drawn anew and one that nothing happened to, by both parts;
// either part alone is gamed by one of these.
func TestSceneEdit(t *testing.T) {
	const n = 40
	mean := map[EditPart]map[scenes.Made]float64{OfBoth: {}, OfDone: {}, OfKept: {}}
	for i := range n {
		e := scenes.RandomEdit(rng.New(11).Sample(i).Draw())
		caption, err := json.Marshal(e.Before.Prompt)
		if err != nil {
			t.Fatal(err)
		}
		for _, made := range []scenes.Made{scenes.Requested, scenes.Redone, scenes.Kept} {
			before, after := e.Pair(made, rng.New(12).Sample(i).Draw())
			item := Item{Prompt: e.Text, Meta: Meta{"scene": caption}, Image: drawnScene(after), Sources: []*vision.Image{drawnScene(before)}}
			for of := range mean {
				s, err := SceneEdit{of}.Score(t.Context(), item)
				if err != nil || len(s.Parts) != 2 {
					t.Fatalf("%+v, %v", s, err)
				}
				mean[of][made] += s.Value / n
			}
		}
	}
	t.Log(mean)
	if m := mean[OfBoth]; m[scenes.Requested] < 0.7 || m[scenes.Redone] > 0.4 || m[scenes.Kept] != 0 {
		t.Errorf("by both: %v", m)
	}
	if m := mean[OfDone]; m[scenes.Redone] < 0.9*m[scenes.Requested] || m[scenes.Kept] != 0 {
		t.Errorf("by what is done: %v", m)
	}
	if m := mean[OfKept]; m[scenes.Kept] < m[scenes.Requested] || m[scenes.Redone] > 0.5 {
		t.Errorf("by what is kept: %v", m)
	}
}

// TestSceneEditSmall: an edit of half the side scores nearly as at the scene's, and other sides are refused.
func TestSceneEditSmall(t *testing.T) {
	e := scenes.RandomEdit(rng.New(11).Sample(0).Draw())
	caption, err := json.Marshal(e.Before.Prompt)
	if err != nil {
		t.Fatal(err)
	}
	before, after := e.Pair(scenes.Requested, rng.New(12).Sample(0).Draw())
	score := func(side int) (Score, error) {
		m, err := drawnScene(after).Resize(side, side, vision.Lanczos)
		if err != nil {
			t.Fatal(err)
		}
		return SceneEdit{}.Score(t.Context(), Item{Prompt: e.Text, Meta: Meta{"scene": caption}, Image: m, Sources: []*vision.Image{drawnScene(before)}})
	}
	whole, err := score(scenes.Size)
	if err != nil {
		t.Fatal(err)
	}
	if half, err := score(scenes.Size / 2); err != nil || half.Value < 0.7*whole.Value || half.Value > 1 {
		t.Errorf("%v at half the side, %v at the scene's (%v)", half.Value, whole.Value, err)
	}
	for _, side := range []int{16, 96} {
		if s, err := score(side); err == nil {
			t.Errorf("%d pixels: %v", side, s.Value)
		}
	}
}

func drawnScene(px []uint8) *vision.Image {
	return &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: px}
}
