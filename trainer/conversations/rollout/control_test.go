package rollout_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// TestControl: part of a group sees its clip with shuffled frames: the others are as without it, a control has the
// same frames in another order, Eval's log-probabilities of its tokens are Roll's, and one that travelled has the
// order that it had. Of a question without a clip nobody is a control.
func TestControl(t *testing.T) {
	p := policy(t, true)
	picture, tool := p.Prompts, p.Protocol
	p.Protocol, p.VideoOptions = framing(), experiment.Clips{Count: 4, Most: 56 * 56}
	film := moving.Small.Draw(moving.All()[3], moving.Place{Half: 5})
	p.Prompts = func(int) (chat.Prompt, error) {
		return chat.Prompt{Clips: []*video.Clip{film},
			Messages: []vlm.Message{{Role: "user", Content: []vlm.Part{{Kind: vlm.ClipPart}, {Text: "Where does it go?"}}}}}, nil
	}
	plain := rolled(t, p, keys(0))
	p.Control = func(k trainer.Key) bool { return k.Sample >= 2 }
	samples := rolled(t, p, keys(0))
	a, err := p.Eval(trainer.Current, points(samples))
	if err != nil {
		t.Fatal(err)
	}
	seen := rollout.EpisodeOf(plain[0]).Album.Clip
	for i, s := range samples {
		if !slices.Equal(a.Outputs[i], s.Decisions.LogProb) {
			t.Errorf("episode %d: Eval says %v, Roll said %v", i, a.Outputs[i], s.Decisions.LogProb)
		}
		if s.Control != (s.Key.Sample >= 2) {
			t.Errorf("episode %d is a control: %v", i, s.Control)
		}
		if !s.Control {
			sameSamples(t, "one that sees the clip as it is", plain[i:i+1], samples[i:i+1])
			continue
		}
		clip := rollout.EpisodeOf(s).Album.Clip
		moved := 0
		for at, f := range clip {
			if !bytes.Equal(f.Pix, seen[at].Pix) {
				moved++
			}
			if !slices.ContainsFunc(seen, func(g *vision.Image) bool { return bytes.Equal(f.Pix, g.Pix) }) {
				t.Errorf("episode %d: frame %d is none of the clip's", i, at)
			}
		}
		if len(clip) != len(seen) || moved == 0 || slices.Equal(s.Decisions.LogProb, plain[i].Decisions.LogProb) {
			t.Errorf("episode %d: %d of %d frames stand elsewhere", i, moved, len(seen))
		}
	}
	m := &conversations.Model{Policy: p}
	back, said := slices.Clone(samples), make([]model.EncodedEpisode, len(samples))
	for i := range back {
		if said[i], err = m.Encode(back[i]); err != nil {
			t.Fatal(err)
		}
		back[i].Item.Episode, back[i].Control = nil, false
	}
	if err := m.Decode(back, said); err != nil {
		t.Fatal(err)
	}
	for i := range back {
		if back[i].Control != samples[i].Control || !reflect.DeepEqual(back[i].Item.Episode, samples[i].Item.Episode) {
			t.Errorf("episode %d came back as another", i)
		}
	}
	p.Prompts, p.Protocol = picture, tool
	if s := rolled(t, p, keys(0)[3:4]); s[0].Control {
		t.Error("a control of a question without a clip")
	}
}
