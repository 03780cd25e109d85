package pretrain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// tinyTalker is a recipe of moments.
func tinyTalker() *Talker {
	r := DefaultTalker()
	r.Name = "talker"
	r.Model.Width, r.Model.Inner, r.Model.Heads, r.Model.Layers, r.Model.VisionLayers = 64, 64, 2, 1, 1
	r.Sight.Steps, r.Sight.Batch, r.Places.Steps, r.Places.Batch, r.Skill.Steps, r.Skill.Batch, r.Aim.Steps, r.Aim.Batch, r.Start.Steps, r.Start.Batch = 2, 2, 2, 2, 2, 2, 2, 2, 1, 2
	r.Judge.Tables = 2
	return &r
}

// TestTalker: a recipe makes a folder that can be opened, the same one twice, also where it was
// stopped between its stages.
func TestTalker(t *testing.T) {
	h := Hooks{Backend: backend(t), Log: func(string) {}}
	weights := func(dir string) string {
		data, err := os.ReadFile(filepath.Join(dir, weightsFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	a, b := t.TempDir(), t.TempDir()
	if err := Run(tinyTalker(), a, h); err != nil {
		t.Fatal(err)
	}
	if err := tinyTalker().Frame(b); err != nil {
		t.Fatal(err)
	}
	r := tinyTalker()
	if err := r.stage(b, h, lessons{"sight", true, r.Sight, r.look(0)}); err != nil {
		t.Fatal(err)
	}
	first := weights(b)
	if err := os.WriteFile(filepath.Join(b, "sight.done"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.run(b, h); err != nil {
		t.Fatal(err)
	}
	if weights(a) != weights(b) || weights(a) == first {
		t.Error("a run that was stopped between its stages came out otherwise")
	}
	k, err := chat.Open(a, chat.Options{Pool: tensor.NewPool(h.Backend)})
	if err != nil {
		t.Fatal(err)
	}
	k.Close()
}

// TestConversations: the learnt tokens are those that the protocol reads and answers, one by one, and numbers and
// calls are single tokens.
func TestConversations(t *testing.T) {
	r, dir, key := tinyTalker(), t.TempDir(), rng.New(1)
	if err := r.Frame(dir); err != nil {
		t.Fatal(err)
	}
	k, err := chat.Open(dir, chat.Options{Pool: tensor.NewPool(backend(t)), Train: []string{".*"}, Draw: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	zooms := 0
	for i := range 30 {
		c := r.start(key.Sample(i))
		s, err := c.say(k)
		if err != nil {
			t.Fatal(err)
		}
		spoken := 0
		for at, next := range s.next {
			if next < 0 {
				continue
			}
			if spoken++; next != s.IDs[at+1] {
				t.Fatalf("conversation %d: token %d is learnt as %d, and is %d", i, at+1, next, s.IDs[at+1])
			}
		}
		want := 0
		for _, turn := range c.turns {
			e, err := k.Tokens.Encode(turn.says)
			if err != nil {
				t.Fatal(err)
			}
			ids := e.IDs
			if want += len(ids) + 1; k.Tokens.DecodePlain(ids) != turn.says {
				t.Errorf("%q came back as %q", turn.says, k.Tokens.DecodePlain(ids))
			}
			if strings.HasPrefix(turn.says, "<tool_call>") && len(ids) != 11 {
				t.Errorf("a call has %d tokens: %q", len(ids), turn.says)
			}
			if reading := tools.Darkroom().Read(turn.says); strings.HasPrefix(turn.says, "<tool_call>") && (len(reading.Calls) != 1 || len(turn.pictures) != 1) {
				t.Errorf("%q is read as %+v, with %d pictures", turn.says, reading, len(turn.pictures))
			}
		}
		if spoken != want || spoken != s.spoken {
			t.Errorf("conversation %d: %d tokens are learnt of %d", i, spoken, want)
		}
		zooms += len(s.Pictures.Grids) - 1
	}
	if zooms == 0 || zooms == 30 {
		t.Errorf("%d of 30 conversations look closer", zooms)
	}
}
