package rollout_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// TestTravels: an episode that came from another process has all that it had there, and one of another prompt, or
// that does not fit, is refused.
func TestTravels(t *testing.T) {
	m := &conversations.Model{Policy: policy(t, true)}
	samples, err := m.Policy.Roll(trainer.Current, keys(0)[:2])
	if err != nil {
		t.Fatal(err)
	}
	drawn := rollout.EpisodeOf(samples[1])
	drawn.Lost = errors.New("tool search: no answer")
	drawn.Album.Pictures[1].From = &tools.Op{Kind: "program"} // cannot be made again
	first := rollout.EpisodeOf(samples[0])
	first.Worth = map[string]float64{"maze": 0.5} // an environment's reward
	if len(first.Album.Pictures) < 2 || len(first.Turns) < 2 {
		t.Fatalf("the episode has %d pictures and %d turns: it shows nothing", len(first.Album.Pictures), len(first.Turns))
	}
	var said []model.EncodedEpisode
	for _, s := range samples {
		one, err := m.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, one)
	}
	if len(said[0].Pictures) != 0 || len(said[1].Pictures) != 1 {
		t.Errorf("%d and %d pictures travel, want none and the one that a program drew", len(said[0].Pictures), len(said[1].Pictures))
	}
	bare := func() []trainer.Sample {
		all := append([]trainer.Sample(nil), samples...)
		for i := range all {
			all[i].Item.Episode = nil
		}
		return all
	}
	back := bare()
	if err := m.Decode(back, said); err != nil {
		t.Fatal(err)
	}
	for i := range back {
		got, want := rollout.EpisodeOf(back[i]), rollout.EpisodeOf(samples[i])
		if (got.Lost == nil) != (want.Lost == nil) || got.Lost != nil && got.Lost.Error() != want.Lost.Error() {
			t.Errorf("lost: %v, and was %v", got.Lost, want.Lost)
		}
		got.Lost = want.Lost
		if !reflect.DeepEqual(got, want) {
			t.Errorf("episode %d came back as another", i)
		}
	}
	if err := m.Decode(bare(), said); err != nil { // nothing of it was changed by reading it
		t.Fatal(err)
	}
	swap := func(old, with string) func(*model.EncodedEpisode) {
		return func(s *model.EncodedEpisode) { s.Text = []byte(strings.ReplaceAll(string(s.Text), old, with)) }
	}
	hash := first.Shots[1].Hash
	for what, c := range map[string]struct {
		spoil func(*model.EncodedEpisode)
		step  int
		says  string
	}{
		"no JSON":       {func(s *model.EncodedEpisode) { s.Text = []byte("{") }, 0, "unexpected end"},
		"nothing":       {func(s *model.EncodedEpisode) { s.Text = []byte("{}") }, 0, "without a transcript"},
		"pixels":        {swap(hash, strings.Repeat("0", len(hash))), 0, "other pixels here"},
		"a picture":     {func(s *model.EncodedEpisode) { s.Pictures = []*vision.Image{vision.New(3, 3)} }, 0, "nobody shows them"},
		"a token":       {swap(`"tokens":[`, `"tokens":[99999999,`), 0, "vocabulary"},
		"more tokens":   {swap(`"tokens":[`, `"tokens":[1,`), 0, "lengths"},
		"an operation":  {swap(`"Kind":"crop"`, `"Kind":"melt"`), 0, "nothing that can be done"},
		"its decisions": {func(*model.EncodedEpisode) {}, 1, "not the tokens that were drawn"},
	} {
		one := model.EncodedEpisode{Text: said[0].Text}
		c.spoil(&one)
		s := bare()[:1]
		s[0].Decisions.Step = s[0].Decisions.Step[c.step:]
		if err := m.Decode(s, []model.EncodedEpisode{one}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}
