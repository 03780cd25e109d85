package prompts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// TestEmbeddedEdits: each has its picture, which matches its caption and text; no training saw the held-out captions.
func TestEmbeddedEdits(t *testing.T) {
	for name, heldOut := range map[string]bool{"embed:edits": false, "embed:edits-heldout": true, "embed:edits-in-place": false, "embed:edits-in-place-heldout": true} {
		list, err := Open(name)
		if err != nil || len(list) < 48 {
			t.Fatalf("%d prompts, %v", len(list), err)
		}
		for i, p := range list {
			var caption string
			raw, _ := p.Meta.Get("scene")
			if err := json.Unmarshal(raw, &caption); err != nil || scenes.HeldOut(caption) != heldOut {
				t.Fatalf("%s, %d: %q (%v)", name, i, caption, err)
			}
			e, err := scenes.EditOf(caption, p.Text)
			if err != nil {
				t.Fatal(err)
			}
			if e.Begins([]string{"move"}) && strings.Contains(name, "in-place") {
				t.Errorf("%s: %q", name, p.Text)
			}
			if i%40 != 0 {
				continue
			}
			all, err := p.OpenSources("nowhere")
			if err != nil || len(all) != 1 || p.HasSources("nowhere") != nil {
				t.Fatalf("%d pictures, %v", len(all), err)
			}
			if done, kept, err := e.Score(all[0].Pix, all[0].Pix); err != nil || kept != 1 || done != 0 {
				t.Errorf("%q as it was: done %v, kept %v (%v)", p.Text, done, kept, err)
			}
		}
	}
}
