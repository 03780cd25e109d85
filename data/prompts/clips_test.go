package prompts

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/video"
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
