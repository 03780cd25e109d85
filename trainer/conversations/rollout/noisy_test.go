package rollout_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
)

// TestNoisy: part of a group sees distorted pictures, and is judged on the clean ones: those that do
// not are as without noise, and Eval has the bits that the roll's Noise has. However many are under
// way, the bytes are the same.
func TestNoisy(t *testing.T) {
	p := policy(t, false, ".*")
	clean := rolled(t, p, keys(0))
	p.Noise = func(k trainer.Key) int {
		if k.Sample < 2 {
			return -1
		}
		return 600
	}
	some := rolled(t, p, keys(0))
	p.Parallel = 1
	sameSamples(t, "one under way", some, rolled(t, p, keys(0)))
	a, err := p.Eval(trainer.Current, points(some))
	if err != nil {
		t.Fatal(err)
	}
	differ, crops := false, 0
	for i, s := range some {
		e := rollout.EpisodeOf(s)
		if s.Key.Sample < 2 {
			sameSamples(t, "a clean one", clean[i:i+1], some[i:i+1])
			continue
		}
		if e.Noise == nil || e.Noise.Step != 600 || !slices.Equal(e.Noise.LogProb, a.Outputs[i]) {
			t.Fatalf("sample %d: noise %+v, and on clean pictures %v", i, e.Noise, a.Outputs[i])
		}
		differ = differ || !slices.Equal(e.Noise.LogProb, s.Decisions.LogProb)
		if !bytes.Equal(e.Album.Pictures[0].Image.Pix, rollout.EpisodeOf(clean[0]).Album.Pictures[0].Image.Pix) || e.Shots[0].Hash == e.Album.Pictures[0].Hash() {
			t.Errorf("sample %d: learned from a picture that is not the clean one, or it saw that", i)
		}
		for k, picture := range e.Album.Pictures[1:] { // made again, from the clean ones
			m, err := picture.From.Make(e.Album)
			if err != nil || !bytes.Equal(m.Pix, picture.Image.Pix) {
				t.Errorf("sample %d: crop %d is not of the clean picture: %v", i, k, err)
			}
			crops++
		}
	}
	if !differ || crops == 0 {
		t.Errorf("log-probabilities differ: %v; %d crops", differ, crops)
	}
	p.Clean = true
	for i, s := range rolled(t, p, keys(0)) {
		if !slices.Equal(s.Decisions.LogProb, a.Outputs[i]) {
			t.Errorf("sample %d: ratios would not be from the clean picture", i)
		}
	}
}
