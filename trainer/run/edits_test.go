package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
)

// edits is an experiment on a recorded pipeline that changes pictures.
const edits = `
[run]
name = "edits"
iterations = 2
[model]
path = "MODEL"
lora = { rank = 2, alpha = 4, targets = ["to_q"] }
[sampler]
steps = 3
eval_steps = 2
guidance = 1
window = { kind = "sliding", size = 1, every = 1 }
[rollout]
prompts = "EDITS"
prompts_per_iteration = 2
group = 2
[[reward]]
name = "sharpness"
[loss]
clip_range = 1e-3
noise_floor = "off"
[optim]
lr = 1e-2
[evaluate]
prompts = "EDITS"
[checkpoint]
every = 1
`

// editModels are the recorded pipelines that change pictures, with settings that keep their runs small.
var editModels = map[string][]string{
	"pipe_flux_kontext":         {"model.source_area=-1", "model.text_length=16", "sampler.width=32", "sampler.height=32"},
	"pipe_qwen_image_edit_plus": {"model.source_area=4096"},
	"pipe_flux2_klein":          {"model.text_length=32"},
}

// parseEdits names two prompts that are made of pictures of two sizes.
func parseEdits(t *testing.T, name string, sets ...string) *experiment.Experiment {
	t.Helper()
	dir := t.TempDir()
	var lines []string
	for i, height := range []int{64, 96} {
		m := vision.New(64, height)
		for k := range m.Pix {
			m.Pix[k] = uint8(50*i + k%83)
		}
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.png", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := vision.EncodePNG(file, m); err != nil {
			t.Fatal(err)
		}
		file.Close()
		lines = append(lines, fmt.Sprintf(`{"prompt": "make it red", "image": "%d.png"}`, i))
	}
	list, held := filepath.Join(dir, "edits.jsonl"), filepath.Join(dir, "held.jsonl")
	for _, file := range []string{list, held} {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all := append([]string{"model.path=" + golden.Folder("models") + "/" + name, "rollout.prompts=" + list, "evaluate.prompts=" + held}, editModels[name]...)
	e, err := experiment.Parse("edits.toml", []byte(edits), append(all, sets...))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEdits: pictures that are made of pictures are trained on as others are, with each recorded pipeline. The first
// ratio is 1; neither threads, nor the samples in a pass, nor a stop change a byte; the run keeps their sources.
func TestEdits(t *testing.T) {
	if testing.Short() {
		t.Skip("trains three models; left out by -short")
	}
	for name := range editModels {
		t.Run(name, func(t *testing.T) {
			e := parseEdits(t, name)
			whole := t.TempDir()
			if _, err := train(t, e, whole, false, 2, -1); err != nil {
				t.Fatal(err)
			}
			if c := firstLine(t, whole).Check; c == nil || c.Ratio != 1 || c.Transitions == 0 {
				t.Errorf("the check is %+v", c)
			}
			checkKept(t, whole)
			if name == "pipe_flux_kontext" && !*long {
				return // two models are stopped always, and all with -long
			}
			checkStopped(t, e, whole)
		})
	}
}

// checkStopped holds a run that was stopped, and went on with one thread and one sample in a pass, to a whole one.
func checkStopped(t *testing.T, e *experiment.Experiment, whole string) {
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

// TestFamiliesStopped: runs on the recorded pipelines that make pictures of texts, and of which no example is, go on
// after a stop as if there had been none, and their first ratio is 1. Z-Image, the slower,
// does so with -long.
func TestFamiliesStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two models; left out by -short")
	}
	for _, name := range []string{"pipe_qwen_image", "pipe_z_image"} {
		if name == "pipe_z_image" && !*long {
			t.Logf("%s is left out without -long", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			texts := filepath.Join(t.TempDir(), "texts.txt")
			if err := os.WriteFile(texts, []byte("a red circle\na blue square\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			held := filepath.Join(t.TempDir(), "held.txt")
			if err := os.WriteFile(held, []byte("a green star\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			e, err := experiment.Parse("texts.toml", []byte(edits), []string{"model.path=" + golden.Folder("models") + "/" + name,
				"rollout.prompts=" + texts, "evaluate.prompts=" + held, "sampler.width=32", "sampler.height=32", "model.text_length=32"})
			if err != nil {
				t.Fatal(err)
			}
			whole := t.TempDir()
			if _, err := train(t, e, whole, false, 2, -1); err != nil {
				t.Fatal(err)
			}
			if c := firstLine(t, whole).Check; c == nil || c.Ratio != 1 || c.Transitions == 0 {
				t.Errorf("the check is %+v", c)
			}
			checkStopped(t, e, whole)
		})
	}
}

// checkKept looks for the sources of pictures: a file of each kept one, and a sheet as large as that of held-out
// samples.
func checkKept(t *testing.T, dir string) {
	t.Helper()
	kept := map[string]bool{}
	err := folder.ReadLines(filepath.Join(dir, "samples.jsonl"), func(text []byte) error {
		var l ledger.SampleLine
		err := json.Unmarshal(text, &l)
		if (l.Picture != "") != (len(l.Sources) == 1) {
			t.Errorf("sample %d of prompt %d has the picture %q, made of %q", l.Sample, l.Prompt, l.Picture, l.Sources)
		}
		for _, name := range l.Sources {
			m, err := vision.Open(filepath.Join(dir, name), vision.Limits{})
			if kept[name] = true; err != nil || m.Width != 64 || int(m.Pix[0]) != 50*l.Prompt {
				t.Errorf("prompt %d was made of %s (%v)", l.Prompt, name, err)
			}
		}
		return err
	})
	if err != nil || len(kept) == 0 {
		t.Errorf("%d pictures are kept (%v)", len(kept), err)
	}
	before, err := vision.Open(filepath.Join(dir, "images", "heldout_before.png"), vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if made, err := vision.Open(filepath.Join(dir, "images", "heldout_sources.png"), vision.Limits{}); err != nil || made.Width != before.Width || made.Height != before.Height {
		t.Errorf("the sheet of sources: %v", err)
	}
}

// TestEditObjectives: windows and objectives of published systems go through an iteration on edits. Two of them always;
// the others with -long.
func TestEditObjectives(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a model by each; left out by -short")
	}
	for name, sets := range map[string][]string{
		"DanceGRPO": {"sampler.preset=dance", "sampler.guidance_kind=cfg"},
		"MixGRPO":   {"sampler.solver=dance", "sampler.noise=0.3"},
		"NFT":       {"preset=nft", "sampler.solver=euler"},
		"DPO":       {"preset=flow_dpo", "sampler.solver=euler"},
		"AWM":       {"preset=awm", "sampler.solver=euler"},
		"Guard":     {"preset=grpo_guard"},
		"guided":    {"sampler.guidance=3"},
		"full":      {`model.train=["transformer_blocks.*to_q.*"]`, "model.precision=f32"},
	} {
		t.Run(name, func(t *testing.T) {
			if !*long && name != "NFT" && name != "guided" {
				t.Skip("one of many; left out without -long")
			}
			e := parseEdits(t, "pipe_flux2_klein", append(sets, "run.iterations=1", `evaluate.prompts=""`, "sampler.steps=3", "rollout.group=2", "rollout.prompts_per_iteration=2")...)
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

// TestEditMemory: the memory of sources is counted.
func TestEditMemory(t *testing.T) {
	peak := func(area string) int64 {
		n, err := Memory(parseEdits(t, "pipe_qwen_image_edit_plus", "model.source_area="+area, "sampler.width=64", "sampler.height=64"), cpu.NewDry(cpu.Options{}), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return n.Training
	}
	if few, many := peak("4096"), peak("65536"); many < few+few/4 {
		t.Errorf("with sources of 256 x 256 training takes %d bytes, and with 64 x 64 %d", many, few)
	}
}
