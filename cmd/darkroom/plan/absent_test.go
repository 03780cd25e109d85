package plan

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestStandIn: absent parts of a recipe are known with their commands, have stand-ins that go again, and the file's own
// names stay. A part that is here has no stand-in, and a part of unknown origin neither.
func TestStandIn(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "")
	read := func(name string, sets ...string) *experiment.Experiment {
		text, err := assets.Recipe(name)
		if err != nil {
			t.Fatal(err)
		}
		e, err := experiment.Parse(name+".toml", text, sets)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := read("sd35m_flow_grpo_ocr_1gpu")
	s, err := standInFor(e)
	if err != nil {
		t.Fatal(err)
	}
	want := []Absent{
		{"models/stable-diffusion-3.5-medium", "darkroom pull stabilityai/stable-diffusion-3.5-medium", "accept its licence on its page there first, and set HF_TOKEN"},
		{"flow_grpo/dataset/ocr/train.txt", "git clone --depth 1 https://github.com/yifan123/flow_grpo", ""},
		{"flow_grpo/dataset/ocr/test.txt", "git clone --depth 1 https://github.com/yifan123/flow_grpo", ""},
		{"tesseract", "", "a program to install (Debian: tesseract-ocr)"},
	}
	if !slices.Equal(s.absent, want) || s.uncounted != "" || len(s.Rewards) != 1 || s.Rewards[0].Name != "jpeg" {
		t.Errorf("%+v, %q, %v", s.absent, s.uncounted, s.Rewards)
	}
	if e.Model.Path != "models/stable-diffusion-3.5-medium" || e.Rollout.Prompts[0] != want[1].Path || e.Evaluate.Prompts != want[2].Path || e.Rewards[0].Name != "ocr" {
		t.Errorf("the experiment has changed: %+v", e.Rollout)
	}
	if list, err := s.Open(s.Rollout.Prompts[0]); err != nil || len(list) != prompted {
		t.Errorf("%d prompts, %v", len(list), err)
	}
	if _, err := os.Stat(filepath.Join(s.Model.Path, "transformer", "config.json")); err != nil {
		t.Error(err)
	}
	wrong := s.mistake(exits.Usagef("%s: no such size; %s: no prompt", s.Model.Path, s.Rollout.Prompts[0]))
	if !errors.As(wrong, new(exits.UsageError)) || !strings.HasPrefix(wrong.Error(), want[0].Path+": no such size; "+want[1].Path+": no prompt\n") ||
		!strings.Contains(wrong.Error(), "\nnot here yet: "+want[1].Path+" ("+want[1].Fetch+")\n") || s.mistake(nil) != nil {
		t.Errorf("a mistake: %v", wrong)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.folder); err == nil {
		t.Errorf("%s stays", s.folder)
	}
	two, err := standInFor(read("sd35m_flow_grpo_ocr_1gpu", `rollout.prompts=["flow_grpo/dataset/ocr/train.txt", "flow_grpo/dataset/pickscore/train.txt"]`,
		`reward=[{name="geneval", path="embed:tiny-mask2former"}, {name="jpeg"}]`))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, path := range append(slices.Clone(two.Rollout.Prompts), two.Evaluate.Prompts) {
		list, err := two.Open(path)
		if err != nil || len(list) == 0 || seen[list[0].Text] || seen[list[len(list)-1].Text] {
			t.Errorf("%s has prompts of another list: %v", path, err)
		}
		for _, p := range list {
			seen[p.Text] = true
		}
	}
	if !slices.Equal(two.unread, []string{"geneval"}) {
		t.Errorf("rewards without a list: %v", two.unread)
	}
	if err := two.close(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		of     *experiment.Experiment
		absent int
	}{
		{read("sd15_ddpo", `model.path="mine"`, `reward.0.path="own"`), 1}, // animals are in the program; own is fetched into own
		{read("sd15_ddpo", `model.path="mine"`, `reward=[{name="jpeg"}]`), 0},
		{read("sd15_dpo"), 4},
		{read("qwen25_vl_deepeyes"), 3},
	} {
		s, err := standInFor(c.of)
		if err != nil || len(s.absent) != c.absent {
			t.Errorf("%+v, %v", s.absent, err)
			continue
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if needed, err := Needed(c.of); err != nil || len(needed) != c.absent {
			t.Errorf("%+v, %v", needed, err)
		}
	}
}
