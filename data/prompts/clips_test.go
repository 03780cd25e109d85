package prompts

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// TestClips: drawn scenes and files are opened; an error names a file that is missing or outside of the folder.
func TestClips(t *testing.T) {
	dir := t.TempDir()
	of := func(clip string) Prompt { return Prompt{Meta: Meta(`{"clip": ` + clip + `}`)} }
	drawn, err := of(`"embed:moving/7"`).Clips(dir)
	if err != nil || len(drawn) != 1 {
		t.Fatalf("%d clips, %v", len(drawn), err)
	}
	if err := video.WriteFile(filepath.Join(dir, "a.y4m"), drawn[0]); err != nil {
		t.Fatal(err)
	}
	both, err := of(`["a.y4m", "embed:moving/8"]`).Clips(dir)
	if err != nil || len(both) != 2 || len(both[0].Frames) != len(drawn[0].Frames) || both[0].Rate.FPS() != drawn[0].Rate.FPS() {
		t.Errorf("%d clips, %v", len(both), err)
	}
	for clip, want := range map[string]string{`"b.y4m"`: "b.y4m", `"../a.y4m"`: "not below the folder", `"embed:moving/x"`: "numbered from 0", `4`: "neither a file's name"} {
		p := of(clip)
		if _, err := p.Clips(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", clip, err)
		}
		if err := p.HasPictures(dir); (err == nil) != strings.HasPrefix(clip, `"embed`) {
			t.Errorf("%s: before the run: %v", clip, err)
		}
	}
	if err := of(`"a.y4m"`).HasPictures(dir); err != nil {
		t.Error(err)
	}
}

// TestAnimate: each prompt has the first frame of its clip, which shows its thing, and is the same wherever the thing
// goes; those held out are of captions that no training saw.
func TestAnimate(t *testing.T) {
	for name, heldOut := range map[string]bool{"embed:animate": false, "embed:animate-heldout": true, "embed:animate64": false, "embed:animate64-heldout": true} {
		f := moving.Small
		if strings.HasPrefix(name, "embed:animate64") {
			f = moving.Large
		}
		list, err := Open(name)
		if err != nil || len(list) < 48 {
			t.Fatalf("%d prompts, %v", len(list), err)
		}
		for i, p := range list {
			s, err := moving.Parse(p.Text)
			if err != nil || moving.HeldOut(p.Text) != heldOut {
				t.Fatalf("%s, %d: %q (%v)", name, i, p.Text, err)
			}
			all, err := p.OpenSources("nowhere")
			if err != nil || len(all) != 1 || p.HasSources("nowhere") != nil {
				t.Fatalf("%d pictures, %v", len(all), err)
			}
			if l := f.Look(s, all[0].Pix); l.Value < 0.88 { // the largest score of another shape
				t.Errorf("%q shows %+v", p.Text, l)
			}
		}
	}
	other := begun.scene(3)
	other.Heading = moving.Headings[(slices.Index(moving.Headings, other.Heading)+1)%len(moving.Headings)]
	at := moving.Place{X: 1, Y: -1, Half: 5.5}
	if a, b := moving.Small.Begin(begun.scene(3), at), moving.Small.Begin(other, at); !slices.Equal(a.Frames[0], b.Frames[0]) || slices.Equal(a.Frames[1], b.Frames[1]) {
		t.Error("the first frame says where the thing goes, or the second does not")
	}
	if _, err := OpenPictures("nowhere", []string{begun.name + "-1"}); err == nil {
		t.Error("a picture before the first was drawn")
	}
}
