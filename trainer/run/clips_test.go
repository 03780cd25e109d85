package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/video"
)

// clips is an experiment on a recorded Wan, whose clips are five frames of 32 x 32.
const clips = `
[run]
name = "clips"
iterations = 2
[model]
path = "WAN"
text_length = 8
lora = { rank = 2, alpha = 4, targets = ["to_q"] }
[sampler]
solver = "flow-wan"
noise = 1
schedule = { kind = "unipc", shift = 3 }
steps = 3
eval_steps = 2
guidance = 2
frames = 5
width = 32
height = 32
[rollout]
prompts = "testdata/prompts.txt"
prompts_per_iteration = 2
group = 2
[[reward]]
name = "magnitude"
motion = { per_second = 0 }
[[reward]]
name = "sharpness"
frames = "worst"
train = false
[loss]
clip_range = 1e-3
[optim]
lr = 1e-2
[evaluate]
prompts = "PROMPTS"
[checkpoint]
every = 1
`

func parseClips(t *testing.T, sets ...string) *experiment.Experiment {
	t.Helper()
	return parseText(t, clips, append([]string{"model.path=" + wanFolder(t, "t2v")}, sets...)...)
}

// TestClips: clips are trained on as pictures are. The first ratio is 1; neither threads, nor the samples in a pass,
// nor a stop change a byte; a clip is kept that plays.
func TestClips(t *testing.T) {
	e := parseClips(t)
	whole := t.TempDir()
	result, err := train(t, e, whole, false, 2, -1)
	if err != nil {
		t.Fatal(err)
	}
	if result.Status != ledger.Finished || len(result.HeldOut) != 3 {
		t.Fatalf("%+v", result)
	}
	line := firstLine(t, whole)
	if c := line.Check; c == nil || c.Ratio != 1 || c.Transitions == 0 {
		t.Errorf("the check is %+v", c)
	}
	if x := line.Pictures["brightness"]; x <= 0 {
		t.Errorf("the brightness of clips is %v", x)
	}
	for _, name := range []string{"000001_best.png", "heldout_before.png"} {
		c, err := video.Open(filepath.Join(whole, "images", name), video.Limits{})
		if err != nil || len(c.Frames) != 5 || c.Rate.FPS() != 16 {
			t.Errorf("%s is no clip of 5 frames at 16 a second: %+v, %v", name, c, err)
		}
	}
	brokenLike(t, e, whole)
}

// brokenLike stops a run after its first iteration, and goes on with one thread and one sample in a pass: the bytes
// must be those of the whole one.
func brokenLike(t *testing.T, e *experiment.Experiment, whole string) {
	t.Helper()
	broken := t.TempDir()
	e.Run.Memory = "1MiB"
	if _, err := train(t, e, broken, false, 1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := train(t, e, broken, true, 1, -1); err != nil {
		t.Fatal(err)
	}
	same(t, "stopped, with one thread and one sample in a pass", contents(t, broken), contents(t, whole))
}

// firstLine is a ledger's.
func firstLine(t *testing.T, dir string) ledger.Line {
	t.Helper()
	lines, _, err := ledger.Read(filepath.Join(dir, "ledger.jsonl"))
	if err != nil || len(lines) == 0 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	return lines[0]
}

// TestClipObjectives: kernels, windows and objectives of published systems go through an iteration on clips.
func TestClipObjectives(t *testing.T) {
	short := []string{"run.iterations=1", `evaluate.prompts=""`, "loss.noise_floor=off"}
	for name, sets := range map[string][]string{
		"DanceGRPO":  {"sampler.preset=dance", "sampler.guidance_kind=cfg"},
		"MixGRPO":    {"sampler.solver=dance", `sampler.window={ kind = "sliding", size = 1, every = 1 }`, "sampler.noise=0.3"},
		"Flash":      {`sampler.window={ kind = "frozen", size = 1 }`, "sampler.flash={ ratio = 1.0 }"},
		"NFT":        {"preset=nft", "sampler.solver=euler"},
		"full":       {`model.train=["blocks.*attn1.*"]`, "model.precision=f32"},
		"Flash-GRPO": {"preset=flash_grpo", `sampler.window={ kind = "frozen", size = 2, one = true }`},
		"CPS":        {"sampler.solver=cps", "sampler.noise=0.7"},
	} {
		t.Run(name, func(t *testing.T) {
			e := parseClips(t, append(sets, append(short, "sampler.steps=3", "rollout.group=2", "rollout.prompts_per_iteration=2")...)...)
			dir := t.TempDir()
			if _, err := train(t, e, dir, false, 2, -1); err != nil {
				t.Fatal(err)
			}
			if l := firstLine(t, dir); len(l.Updates) == 0 || l.Updates[0].Gradient == 0 || l.Check != nil && l.Check.Ratio != 1 {
				t.Errorf("%+v, %+v", l.Updates, l.Check)
			}
		})
	}
}

// TestClipsOfManySizes: prompts of one iteration name frames and sizes of their own; neither threads nor the samples in
// a pass change a byte, held-out clips have their prompt's frames, and impossible ones are refused at their place.
func TestClipsOfManySizes(t *testing.T) {
	dir := t.TempDir()
	list := func(name string, lines ...string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	many := list("many.jsonl", `{"prompt": "a cat runs"}`, `{"prompt": "a dog runs", "frames": 9, "width": 48, "height": 32}`)
	held := list("held.jsonl", `{"prompt": "a cat sits", "frames": 9}`)
	sets := []string{"run.iterations=1", "sampler.guidance=1", "rollout.prompts=" + many, "evaluate.prompts=" + held}
	e := parseClips(t, sets...)
	whole, broken := t.TempDir(), t.TempDir()
	if _, err := train(t, e, whole, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	if c := firstLine(t, whole).Check; c == nil || c.Ratio != 1 {
		t.Errorf("the check is %+v", c)
	}
	if c, err := video.Open(filepath.Join(whole, "images", "heldout_before.png"), video.Limits{}); err != nil || len(c.Frames) != 9 {
		t.Errorf("the held-out clip is no one of 9 frames: %v", err)
	}
	e.Run.Memory = "1MiB"
	if _, err := train(t, e, broken, false, 1, -1); err != nil {
		t.Fatal(err)
	}
	same(t, "with one thread and one sample in a pass", contents(t, broken), contents(t, whole))
	for want, line := range map[string]string{
		"a clip of 6 frames": `{"prompt": "a", "frames": 6}`, "frames are 1, where others have 5": `{"prompt": "a", "frames": 1}`, "a clip of -1 frames": `{"prompt": "a", "frames": -1}`,
	} {
		e := parseClips(t, append(sets, "rollout.prompts="+list("few.jsonl", line, `{"prompt": "b"}`))...)
		if _, err := train(t, e, t.TempDir(), false, 2, -1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestClipMemory: the memory of clips is counted by their frames.
func TestClipMemory(t *testing.T) {
	peak := func(frames string) int64 {
		n, err := Memory(parseClips(t, "sampler.frames="+frames), cpu.NewDry(cpu.Options{}), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return n.Training + n.Decoding
	}
	if few, many := peak("5"), peak("17"); many < few+few/4 {
		t.Errorf("17 frames take %d bytes, and 5 take %d", many, few)
	}
}
