package answers

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
)

func looked(t *testing.T, crops ...boxes.Box) rewards.Item {
	t.Helper()
	i := rewards.Item{Meta: rewards.Meta{"target": json.RawMessage("[100, 100, 200, 150]"), "answer": json.RawMessage(`"7"`)},
		Transcript: &rewards.Transcript{Width: 640, Height: 480}}
	for _, c := range crops {
		i.Transcript.Turns = append(i.Transcript.Turns, rewards.Turn{Text: "<tool_call>", Tool: "zoom"})
		i.Transcript.Crops = append(i.Transcript.Crops, rewards.Crop{Box: c})
		i.Transcript.Pictures++
	}
	i.Transcript.Turns = append(i.Transcript.Turns, rewards.Turn{Text: "<answer>7</answer>"})
	return i
}

func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		crops []boxes.Box
		want  float64
	}{
		"none": {nil, 0}, "exact": {[]boxes.Box{{100, 100, 200, 150}}, 1}, "four fifths": {[]boxes.Box{{120, 100, 230, 150}}, 1},
		"less": {[]boxes.Box{{121, 100, 230, 150}}, 0}, "everything": {[]boxes.Box{{0, 0, 640, 480}}, 0}, "elsewhere, then there": {[]boxes.Box{{300, 300, 400, 400}, {90, 90, 210, 160}}, 1},
	} {
		s, err := DefaultLook().Score(context.Background(), looked(t, c.crops...))
		if err != nil || s.Value != c.want {
			t.Errorf("%s: %v (%v), not %v", name, s.Value, err, c.want)
		}
	}
	i := looked(t)
	delete(i.Meta, "target")
	if _, err := DefaultLook().Score(context.Background(), i); err == nil {
		t.Error("a prompt without a target has a score")
	}
}

func TestToolBonusAndCalls(t *testing.T) {
	right := Rule(Default).Reward()
	exact := boxes.Box{100, 100, 200, 150}
	wrong := looked(t, exact)
	wrong.Transcript.Turns[1].Text = "<answer>8</answer>"
	for name, c := range map[string]struct {
		item         rewards.Item
		bonus, calls float64
	}{"without": {looked(t), 0, 0}, "once": {looked(t, exact), 1, 1}, "wrong": {wrong, 0, 1}, "twice": {looked(t, exact, exact), 1, 0}} {
		if s, err := ToolBonus(right).Score(context.Background(), c.item); err != nil || s.Value != c.bonus {
			t.Errorf("%s: a bonus of %v (%v)", name, s.Value, err)
		}
		if s, err := CallCount().Score(context.Background(), c.item); err != nil || s.Value != c.calls {
			t.Errorf("%s: %v for calls (%v)", name, s.Value, err)
		}
	}
	i := looked(t, exact, exact)
	i.Meta["calls"] = json.RawMessage("4")
	if s, err := CallCount().Score(context.Background(), i); err != nil || s.Value != 0.5 {
		t.Errorf("two calls of four: %v (%v)", s.Value, err)
	}
}
