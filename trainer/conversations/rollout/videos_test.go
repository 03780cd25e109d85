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
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// framing answers every turn with a frame of the clip.
func framing() *tools.Protocol {
	p := tools.Darkroom()
	p.Read = func(text string) tools.Reading { return tools.Reading{Calls: []tools.Call{{Name: "look", Args: text}}} }
	p.Tools = []tools.Tool{{Name: "look", Plan: func(s *tools.State, args any) (tools.Plan, error) {
		return tools.Plan{Ops: []tools.Op{{Kind: "frame", Picture: len(args.(string)) % len(s.Album.Clip)}}}, nil
	}}}
	return p
}

// TestClips: a question about a clip is answered from its frames, tools show one of them, Eval's log-probabilities of
// its tokens are Roll's, another clip leads to other words, and an episode that travelled has its clip.
func TestClips(t *testing.T) {
	p := policy(t, true)
	p.Protocol, p.VideoOptions = framing(), experiment.Clips{Count: 4, Most: 56 * 56}
	scene := moving.All()[3]
	about := func(c *video.Clip) {
		p.Prompts = func(int) (chat.Prompt, error) {
			return chat.Prompt{Clips: []*video.Clip{c},
				Messages: []vlm.Message{{Role: "user", Content: []vlm.Part{{Kind: vlm.ClipPart}, {Text: "Where does it go?"}}}}}, nil
		}
	}
	film := moving.Small.Draw(scene, moving.Place{Half: 5})
	about(film)
	samples := rolled(t, p, keys(0))
	a, err := p.Eval(trainer.Current, points(samples))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for i, s := range samples {
		if !slices.Equal(a.Outputs[i], s.Decisions.LogProb) {
			t.Errorf("episode %d: Eval says %v, Roll said %v", i, a.Outputs[i], s.Decisions.LogProb)
		}
		e := rollout.EpisodeOf(s)
		if n := count(e.Tokens[:e.Prompt], p.VLM.Marks.Clip); n == 0 || n%2 != 0 || count(e.Tokens[e.Prompt:], p.VLM.Marks.Clip) != 0 {
			t.Errorf("episode %d has %d places of two frames of patches", i, n)
		}
		for _, m := range e.Album.Pictures {
			shown++
			if !slices.ContainsFunc(film.Frames, func(f []uint8) bool { return bytes.Equal(f, m.Image.Pix) }) {
				t.Errorf("episode %d shows what is no frame", i)
			}
		}
	}
	if shown == 0 {
		t.Error("no tool showed a frame")
	}
	m := &conversations.Model{Policy: p}
	var said []model.EncodedEpisode
	back := slices.Clone(samples)
	for i := range back {
		one, err := m.Encode(back[i])
		if err != nil {
			t.Fatal(err)
		}
		said, back[i].Item.Episode = append(said, one), nil
	}
	if err := m.Decode(back, said); err != nil {
		t.Fatal(err)
	}
	for i := range back {
		if !reflect.DeepEqual(back[i].Item.Episode, samples[i].Item.Episode) {
			t.Errorf("episode %d came back as another", i)
		}
	}
	reversed := *film
	reversed.Frames = slices.Clone(film.Frames)
	slices.Reverse(reversed.Frames)
	about(&reversed)
	if other := rolled(t, p, keys(0)[:1]); slices.Equal(other[0].Decisions.LogProb, samples[0].Decisions.LogProb) {
		t.Error("a clip that runs backwards is answered the same")
	}
	unknown := *film
	unknown.Rate = video.Rate{}
	about(&unknown)
	if _, err := p.Roll(trainer.Current, keys(0)[:1]); err == nil {
		t.Error("a clip without a rate was read")
	}
}

func count(tokens []int32, of int32) (n int) {
	for _, id := range tokens {
		if id == of {
			n++
		}
	}
	return n
}
