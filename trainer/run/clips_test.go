package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
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

// twoNetworks is a recorded Wan 2.2, and oneNetwork the same without its second network: what Wan 2.1 is.
const twoNetworks = "../../cmd/parity/testdata/golden/models/pipe_wan22_t2v"

var oneNetwork = sync.OnceValues(func() (string, error) {
	dir := ownDir("wan")
	if err := os.CopyFS(dir, os.DirFS(twoNetworks)); err != nil {
		return "", err
	}
	index := filepath.Join(dir, "model_index.json")
	text, err := os.ReadFile(index)
	if err != nil {
		return "", err
	}
	var said map[string]any
	if err := json.Unmarshal(text, &said); err != nil {
		return "", err
	}
	delete(said, "boundary_ratio")
	delete(said, "transformer_2")
	if text, err = json.Marshal(said); err != nil {
		return "", err
	}
	if err := os.RemoveAll(filepath.Join(dir, "transformer_2")); err != nil {
		return "", err
	}
	return dir, os.WriteFile(index, text, 0o644)
})

func parseClips(t *testing.T, sets ...string) *experiment.Experiment {
	t.Helper()
	dir, err := oneNetwork()
	if err != nil {
		t.Fatal(err)
	}
	return parseText(t, clips, append([]string{"model.path=" + dir}, sets...)...)
}

// TestClips: clips are trained on as pictures are. The first ratio is 1; neither threads, nor the samples in a pass, nor
// a stop change a byte; a clip is kept that plays.
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

// TestTwoNetworks: of two networks the first is trained, and steps of the second are sampled.
func TestTwoNetworks(t *testing.T) {
	few := []string{"model.path=" + twoNetworks, "run.iterations=1", `evaluate.prompts=""`, "sampler.guidance_2=1.5"}
	e := parseText(t, clips, append(few, `sampler.window={ kind = "frozen", size = 1 }`)...)
	dir := t.TempDir()
	if _, err := train(t, e, dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	if l := firstLine(t, dir); len(l.Updates) == 0 || l.Check.Ratio != 1 {
		t.Errorf("%+v", l)
	}
	for want, sets := range map[string][]string{
		"is the second network's":     {`sampler.window={ kind = "full" }`},
		"the second one's is missing": {"sampler.guidance_2=0"},
		"objectives of steps":         {"preset=nft", "sampler.solver=euler"},
		"sampler.frames is missing":   {"sampler.frames=0", "reward=[{name = 'jpeg'}]"},
		"there must be 1 more than":   {"sampler.frames=6"},
	} {
		e := parseText(t, clips, append(few, sets...)...)
		if _, err := train(t, e, t.TempDir(), false, 2, -1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", sets, err)
		}
	}
}

// TestClipsOfPictures: a clip is made between the two pictures that its prompt names; neither threads, nor the samples in
// a pass, nor a stop change a byte, and prompts that name too few are refused.
func TestClipsOfPictures(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		m := vision.New(40, 30)
		for k := range m.Pix {
			m.Pix[k] = uint8(60*i + k%53)
		}
		out, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.png", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(vision.EncodePNG(out, m), out.Close()); err != nil {
			t.Fatal(err)
		}
	}
	list := func(name string, lines ...string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	both := list("both.jsonl", `{"prompt": "a cat runs", "image": ["0.png", "1.png"]}`, `{"prompt": "a cat runs", "image": ["1.png", "2.png"]}`)
	sets := []string{"model.path=../../cmd/parity/testdata/golden/models/pipe_wan_flf2v", "rollout.prompts=" + both, "sampler.guidance=1"}
	e := parseText(t, clips, append(sets, "evaluate.prompts=''")...)
	whole, broken := t.TempDir(), t.TempDir()
	if _, err := train(t, e, whole, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	if c := firstLine(t, whole).Check; c == nil || c.Ratio != 1 {
		t.Errorf("the check is %+v", c)
	}
	e.Run.Memory = "1MiB"
	if _, err := train(t, e, broken, false, 1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := train(t, e, broken, true, 1, -1); err != nil {
		t.Fatal(err)
	}
	same(t, "stopped, with one thread and one sample in a pass", contents(t, broken), contents(t, whole))
	for want, line := range map[string]string{"it names no image": `{"prompt": "a"}`, "a clip's first and last": `{"prompt": "a", "image": "0.png"}`} {
		few := list("few.jsonl", line, `{"prompt": "b", "image": ["0.png", "1.png"]}`)
		e := parseText(t, clips, append(sets, "evaluate.prompts=''", "rollout.prompts="+few)...)
		if _, err := train(t, e, t.TempDir(), false, 2, -1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestClipsOfManySizes: prompts of one iteration name frames and sizes of their own; neither threads nor the samples in a
// pass change a byte, held-out clips have their prompt's frames, and impossible ones are refused at their place.
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

// TestClipMemory: what clips take is counted by their frames.
func TestClipMemory(t *testing.T) {
	peak := func(frames string) int64 {
		n, err := Memory(parseClips(t, "sampler.frames="+frames), cpu.NewDry(cpu.Options{}), 0)
		if err != nil {
			t.Fatal(err)
		}
		return n.Training + n.Decoding
	}
	if few, many := peak("5"), peak("17"); many < few+few/4 {
		t.Errorf("17 frames take %d bytes, and 5 take %d", many, few)
	}
}
