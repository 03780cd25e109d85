package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// TestHeldOutPortions: an evaluation whose samples are made and let go of prompt by prompt writes the bytes of one that
// has all in memory.
func TestHeldOutPortions(t *testing.T) {
	if testing.Short() {
		t.Skip("evaluates the embedded model guided, twice; left out by -short")
	}
	list := filepath.Join(t.TempDir(), "held.txt")
	if err := os.WriteFile(list, []byte("a red circle\na blue square\ntwo green circles\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	dirs, portions := []string{t.TempDir(), t.TempDir()}, []int{}
	for i, room := range []int64{model.EvaluatedBytes, 1} {
		e := parse(t, "run.iterations=1", "evaluate.every=0", "evaluate.prompts="+list, "evaluate.samples=2", "evaluate.guided=2", "run.memory=1MiB")
		be := fastest(t, 2)
		r, err := open(t.Context(), ModalityOf(e), e, Options{Dir: dirs[i], Backend: be, Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		settings, err := r.Evaluating(r.Sampler)
		if err != nil {
			t.Fatal(err)
		}
		r.evaluation.room = room
		portions = append(portions, portionOf(settings, r.heldOut, e.Evaluate.Samples, r.model.Portion(), room))
		if _, err := r.guarded(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.close(nil); err != nil {
			t.Fatal(err)
		}
		be.Close()
	}
	if portions[0] != 3 || portions[1] != 1 {
		t.Errorf("portions of %v prompts, want all 3 and 1", portions)
	}
	same(t, "prompt by prompt", contents(t, dirs[1]), contents(t, dirs[0]))
}

// TestPortionOf: the memory of held-out samples has a bound, however long the list and large the samples.
func TestPortionOf(t *testing.T) {
	long := make([]prompts.Prompt, 5000)
	for name, c := range map[string]struct {
		sets []string
		want int
	}{
		"small":    {[]string{"sampler.width=64", "sampler.height=64"}, 5000},
		"pictures": {[]string{"sampler.width=1024", "sampler.height=1024"}, 43},
		"clips":    {[]string{"sampler.width=832", "sampler.height=480", "sampler.frames=81"}, 2},
	} {
		e := parse(t, c.sets...)
		if n := portionOf(experiment.Settings{Experiment: e, Evaluates: true}, long, 1, 1, model.EvaluatedBytes); n < c.want-1 || n > c.want {
			t.Errorf("%s: %d held-out prompts at once, want about %d", name, n, c.want)
		}
	}
}

// TestHeldOutClipsOfManyLengths: held-out clips have the lengths of their prompts, the longest first or last, and the
// sheet plays as long as the longest of them.
func TestHeldOutClipsOfManyLengths(t *testing.T) {
	list := filepath.Join(t.TempDir(), "held.jsonl")
	if err := os.WriteFile(list, []byte(`{"prompt": "a cat sits", "frames": 9}`+"\n"+`{"prompt": "a dog sits"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	e := parseClips(t, "run.iterations=1", "sampler.guidance=1", "evaluate.prompts="+list)
	if r, err := train(t, e, dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, name := range []string{"heldout_before.png", "heldout_000001.png"} {
		if c, err := video.Open(filepath.Join(dir, "images", name), video.Limits{}); err != nil || len(c.Frames) != 9 || c.Rate.FPS() != 16 {
			t.Errorf("%s is no clip of 9 frames at 16 a second: %+v, %v", name, c, err)
		}
	}
}

// TestShown: a sheet has pictures and frames of a size for people, and the first samples alone.
func TestShown(t *testing.T) {
	s := shown{frames: 30}
	for range mostShown + 1 {
		if err := s.add(rewards.Item{Image: vision.New(1024, 512)}); err != nil {
			t.Fatal(err)
		}
	}
	long, short := video.Clip{Width: 832, Height: 480, Rate: video.Rate{Num: 10, Den: 1}}, video.Clip{Width: 32, Height: 32, Rate: video.Rate{Num: 10, Den: 1}}
	for i := range 30 {
		long.Frames = append(long.Frames, make([]byte, 3*832*480))
		if i < 5 {
			short.Frames = append(short.Frames, []byte(strings.Repeat(string(rune('a'+i)), 3*32*32)))
		}
	}
	for _, c := range []*video.Clip{&short, &long} {
		if err := s.add(rewards.Item{Clip: c}); err != nil {
			t.Fatal(err)
		}
	}
	if m := s.pictures[0]; len(s.pictures) != mostShown || m.Width != pictureSide || m.Height != pictureSide/2 {
		t.Errorf("%d pictures of %d x %d", len(s.pictures), m.Width, m.Height)
	}
	a, b := s.clips[0], s.clips[1]
	if len(a.Frames) != mostFrames || len(b.Frames) != mostFrames || b.Width != clipSide || a.Width != 32 || a.Rate != b.Rate || a.Rate.FPS() != 8 {
		t.Errorf("clips of %d and %d frames, %d wide, %v and %v a second", len(a.Frames), len(b.Frames), b.Width, a.Rate.FPS(), b.Rate.FPS())
	}
	if a.Frames[0][0] != 'a' || a.Frames[mostFrames-1][0] != 'e' {
		t.Errorf("the short clip begins with %c and ends with %c", a.Frames[0][0], a.Frames[mostFrames-1][0])
	}
	e := &samples{shown: s, prompts: make([]prompts.Prompt, mostShown), totals: make([]float64, mostShown)}
	if places, err := e.still(new(bytes.Buffer)); err != nil || len(places) != mostShown {
		t.Errorf("%d places, %v", len(places), err)
	}
}

// TestEvaluationsCounted: plan counts the samples of an evaluation, as many as lie in memory at once.
func TestEvaluationsCounted(t *testing.T) {
	count := func(n int) int64 {
		list := filepath.Join(t.TempDir(), "held.txt")
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "a picture of %d\n", i)
		}
		if err := os.WriteFile(list, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		need, err := Memory(parse(t, "evaluate.prompts="+list), cpu.NewDry(cpu.Options{}), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return need.Samples
	}
	few, many, more := count(6), count(12000), count(24000)
	if many-few < 150<<20 || more-many > 2*model.EvaluatedBytes || more < many {
		t.Errorf("6, 12,000 and 24,000 held-out samples take %d, %d and %d bytes", few, many, more)
	}
}

// TestTrailsOfSheet: beside a sheet of clips lie the ways of their points, in the sheet's pixels from a clip's place; a
// clip of one frame has none, nor has one whose frames are too small for flow, of which the run warns.
func TestTrailsOfSheet(t *testing.T) {
	at, err := folder.Open(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	s := &samples{prompts: make([]prompts.Prompt, 3), totals: make([]float64, 3)}
	scene := moving.Scene{Color: "red", Shape: "square", Heading: "right", Pace: "fast", Background: "white"}
	clip := moving.Large.Begin(scene, moving.Place{Half: 8})
	still := &video.Clip{Width: clip.Width, Height: clip.Height, Rate: clip.Rate, Frames: clip.Frames[:1]}
	tiny := &video.Clip{Width: 6, Height: 6, Rate: clip.Rate, Frames: [][]uint8{make([]uint8, 3*6*6), make([]uint8, 3*6*6)}}
	s.shown.clips = []*video.Clip{clip, still, tiny}
	places, err := s.sheet(at, "images/heldout_before.png")
	if err != nil {
		t.Fatal(err)
	}
	var said string
	v := evaluation{say: func(format string, of ...any) { said = fmt.Sprintf(format, of...) }}
	const warning = "warning: iteration 3: the flow of held-out clips could not be drawn: clip 3: "
	err = v.undrawn(subject{iteration: 3}, s.trails(t.Context(), at, "images/heldout_before.png", places))
	if err != nil || !strings.HasPrefix(said, warning) {
		t.Fatalf("%v, the run says %q", err, said)
	}
	text, err := os.ReadFile(at.Path("images/heldout_before.trails.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]motion.Trail
	if err := json.Unmarshal(text, &all); err != nil || len(all) != 3 || len(all[0]) < 4 || len(all[1]) != 0 || len(all[2]) != 0 {
		t.Fatalf("%s, %v", text, err)
	}
	side := float64(places[0][2])
	for _, trail := range all[0] {
		for _, p := range trail.Points {
			if p[0] < 0.25*side || p[0] > side || p[1] < 0.25*side || p[1] > 0.75*side {
				t.Errorf("a point of a thing in the middle, which moves to the right, is at %v of %g", p, side)
			}
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := v.undrawn(subject{}, s.trails(ended, at, "images/heldout_before.png", places)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
