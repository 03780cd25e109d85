package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/plan"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/run"
	"github.com/darkroom-rl/darkroom/vision"
)

var long = flag.Bool("long", false, "plan all recipes, measure memory, let clocks jump and networks fail")

// TestRecipes: every recipe is valid and can be planned, names the source of its numbers and its departures, and
// trains on every kind of step that it means to.
func TestRecipes(t *testing.T) {
	source := regexp.MustCompile(`(?m)^# Source: github\.com/\S+ [0-9a-f]{7}`)
	for _, name := range assets.Recipes() {
		text, err := assets.Recipe(name)
		if err != nil {
			t.Fatal(err)
		}
		e, err := experiment.Parse(name+".toml", text, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p, err := e.Plan()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range p.Warnings {
			t.Logf("%s: %s", name, w)
		}
		if !source.Match(text) || !strings.Contains(string(text), "arXiv:") || !strings.Contains(string(text), "\n# As published") {
			t.Errorf("%s does not say where its numbers are from", name)
		}
		if e.Run.Name != strings.ReplaceAll(name, "_", "-") {
			t.Errorf("%s makes runs named %s", name, e.Run.Name)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if len(line) > 120 && strings.HasPrefix(line, "#") {
				t.Errorf("%s:%d has %d characters", name, i+1, len(line))
			}
		}
	}
}

// TestRecipesFit: each recipe is planned from the settings that its model was published with (assets/published
// holds them, and no weights), its memory fits a card of 80 GB, and docs/models.md gives it. -long plans them all
// (make recipes), which takes a quarter of a minute; otherwise the small ones are.
func TestRecipesFit(t *testing.T) {
	small := []string{"sd15_ddpo", "sd15_dpo", "sd35m_nft"}
	names := assets.Recipes()
	if !*long {
		t.Logf("of %d recipes %s are planned; -long plans them all", len(names), strings.Join(small, ", "))
		names = small
	}
	page, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	lists := recipeLists(t, at)
	for _, name := range names {
		text, err := assets.Recipe(name)
		if err != nil {
			t.Fatal(err)
		}
		e, err := experiment.Parse(name+".toml", text, nil)
		if err != nil {
			t.Fatal(err)
		}
		list, held := lists[e.Rollout.Offline], filepath.Join(at, "heldout.txt")
		if e.Finetunes() {
			list = filepath.Join(at, "singles.jsonl")
		}
		if e.Model.SourceArea > 0 {
			list, held = filepath.Join(at, "edits.jsonl"), filepath.Join(at, "heldout.jsonl")
		}
		sets := []string{"model.path=" + filepath.Join("../../assets/published", path.Base(e.Model.Path)), "run.device=cuda:0", "rollout.prompts=" + list}
		if e.Evaluate.Prompts != "" {
			sets = append(sets, "evaluate.prompts="+held)
		}
		if e.Episode != nil {
			t.Logf("%s: what a conversation takes is not planned from settings alone", name)
			continue
		}
		// Rewards' folders are not there, and their networks are not counted.
		if e, err = experiment.Parse(name+".toml", text, append(sets, `reward=[{name="jpeg"}]`, "monitor=[]")); err != nil {
			t.Fatal(err)
		}
		dry, note, err := devices.Counting(t.Context(), e)
		if err != nil || !strings.Contains(note, "has no weights of ") {
			t.Fatalf("%s: %q, %v", name, note, err)
		}
		if _, err := inputs.CheckOn(e, dry()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := inputs.CheckFiles(e); err == nil || !strings.Contains(err.Error(), `"model.path"`) {
			t.Errorf("%s: 'train' goes on without weights: %v", name, err)
		}
		p, err := e.Plan()
		if err != nil {
			t.Fatal(err)
		}
		all := plan.WithMemory(e, p, dry())
		if all.Memory == nil {
			t.Errorf("%s: %s", name, all.Why)
			continue
		}
		m := all.Memory.Memory
		card := max(m.Texts, m.Sampling, m.Decoding, m.Check, m.Training)
		t.Logf("%s: %s on the card, %s of samples beside it", name, console.Bytes(card), console.Bytes(m.Samples))
		if row := recipeRow(name, e, card, m.Samples); !bytes.Contains(page, []byte(row)) {
			t.Errorf("docs/models.md lacks the row\n%s", row)
		}
		if least := int64(5e9); card < least || card > 80e9 {
			t.Errorf("%s: %s on a card of 80 GB", name, console.Bytes(card))
		}
	}
}

// recipeRow is a recipe's row in docs/models.md.
func recipeRow(name string, e *experiment.Experiment, card, samples int64) string {
	side := func(n int) string {
		if n == 0 {
			return "as the model"
		}
		return fmt.Sprint(n)
	}
	what := fmt.Sprintf("%s, rank %d", e.Loss.Objective, e.Model.LoRA.Rank)
	return fmt.Sprintf("| `%s` | %s | %s | %d x %d | %s | %s |", name, side(e.Sampler.Width), what, e.Rollout.PromptsPerIteration, e.Rollout.Group, console.Bytes(card), console.Bytes(samples))
}

// recipeLists are prompts, and pairs of pictures by true, as many as recipes ask for. Edits lie beside them.
func recipeLists(t *testing.T, dir string) map[bool]string {
	t.Helper()
	var prompts, pairs, singles, edits, held, picture bytes.Buffer
	for i := range 2100 {
		fmt.Fprintf(&prompts, "a sign that says \"word %d\"\n", i)
		fmt.Fprintf(&singles, "{\"prompt\": \"word %d\", \"image\": \"a.png\"}\n", i)
		fmt.Fprintf(&pairs, "{\"prompt\": \"word %d\", \"a\": \"a.png\", \"b\": \"a.png\", \"better\": \"a\"}\n", i)
	}
	for i := range 100 {
		fmt.Fprintf(&edits, "{\"prompt\": \"make it %d\", \"image\": \"large.png\"}\n", i)
	}
	held.WriteString("a sign that says \"other\"\n")
	heldEdit := bytes.NewBufferString("{\"prompt\": \"make it night\", \"image\": \"large.png\"}\n")
	var large bytes.Buffer
	if err := vision.EncodePNG(&large, vision.New(512, 512)); err != nil {
		t.Fatal(err)
	}
	if err := vision.EncodePNG(&picture, vision.New(8, 8)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]*bytes.Buffer{"prompts.txt": &prompts, "pairs.jsonl": &pairs, "singles.jsonl": &singles, "heldout.txt": &held, "a.png": &picture,
		"edits.jsonl": &edits, "heldout.jsonl": heldEdit, "large.png": &large} {
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return map[bool]string{false: filepath.Join(dir, "prompts.txt"), true: filepath.Join(dir, "pairs.jsonl")}
}

// smallCards is an experiment of README's table of cards.
const smallCards = `[run]
name = "cards"
device = "cuda:0"
iterations = 1
[model]
home = "device"
decoder = "bf16"
lora = { rank = 32 }
[rollout]
prompts = "embed:scenes"
prompts_per_iteration = 4
group = 12
[[reward]]
name = "jpeg"
[evaluate]
every = 0
prompts = ""
`

// TestCards computes README's table of cards: the first of bf16, int8 and nf4 that a card has room for, and the
// predicted memory of an adapter of rank 32. A sixteenth of the card stays free. -long computes all of it
// (make recipes), which takes minutes; otherwise one row is.
func TestCards(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for k, m := range []struct{ name, folder, preset, side string }{
		{"Stable Diffusion 1.5", "stable-diffusion-v1-5", "ddpo", "512"},
		{"SDXL", "stable-diffusion-xl-base-1.0", "ddpo", "1024"},
		{"Stable Diffusion 3.5 medium", "stable-diffusion-3.5-medium", "mixgrpo", "512"},
		{"Wan 2.1 1.3B", "Wan2.1-T2V-1.3B-Diffusers", "mixgrpo", "416"},
		{"FLUX.1-dev", "FLUX.1-dev", "mixgrpo", "512"},
		{"Qwen-Image", "Qwen-Image", "mixgrpo", "512"},
	} {
		if k > 0 && !*long {
			t.Log("-long computes the other rows")
			return
		}
		sets := []string{"preset=" + m.preset, "model.path=../../assets/published/" + m.folder, "sampler.width=" + m.side, "sampler.height=" + m.side}
		what := m.side + " x " + m.side
		if m.folder != "FLUX.1-dev" {
			sets = append(sets, "sampler.guidance=1")
		}
		if strings.HasPrefix(m.folder, "Wan") {
			sets = append(sets, "sampler.height=240", "sampler.frames=33")
			what = "416 x 240, 33 frames"
		}
		row := fmt.Sprintf("| %s, %s |", m.name, what)
		for _, gb := range []int64{12, 16, 24, 80} {
			budget, cell := gb*1e9/16*15, "no"
			for _, form := range []string{"bf16", "int8", "nf4"} {
				all := sets
				if form != "bf16" {
					all = append(slices.Clip(sets), "model.quantize="+form)
				}
				e, err := experiment.Parse("cards.toml", []byte(smallCards), all)
				if err != nil {
					t.Fatal(err)
				}
				dry, _, err := devices.Counting(t.Context(), e)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := inputs.CheckOn(e, dry()); err != nil {
					t.Fatal(err)
				}
				memory, err := run.Memory(e, dry(), budget, 1)
				if err != nil {
					t.Fatal(err)
				}
				if card := max(memory.Texts, memory.Sampling, memory.Decoding, memory.Check, memory.Training); card <= budget {
					cell = form + ", " + console.Bytes(card)
					break
				}
			}
			row += " " + cell + " |"
		}
		t.Log(row)
		if !bytes.Contains(page, []byte(row)) {
			t.Errorf("README.md lacks the row\n%s", row)
		}
	}
}

// TestEncodersAreKept: large text encoders stay beside the network where free memory leaves them room, and are freed
// where it does not or nobody knows.
func TestEncodersAreKept(t *testing.T) {
	at := t.TempDir()
	lists := recipeLists(t, at)
	text, err := assets.Recipe("sd35m_nft")
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Parse("sd35m_nft.toml", text, []string{"model.path=../../assets/published/stable-diffusion-3.5-medium", "run.device=cuda:0", "rollout.prompts=" + lists[false],
		"evaluate={every=0, prompts=''}", `reward=[{name="jpeg"}]`, "monitor=[]"})
	if err != nil {
		t.Fatal(err)
	}
	dry, _, err := devices.Counting(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	need := func(budget int64) *model.Memory {
		t.Helper()
		m, err := run.Memory(e, dry(), budget, 1)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	unknown := need(0)
	tight, wide := need(unknown.Taken(1)+1<<20), need(unknown.Taken(1)+2*unknown.EncoderBytes)
	if unknown.Encoders != "freed" || tight.Encoders != "freed" || tight.Taken(1) != unknown.Taken(1) || wide.Encoders != "kept" || !wide.KeepEncoders ||
		wide.Training < unknown.Training+unknown.EncoderBytes/2 || wide.Micro != unknown.Micro {
		t.Errorf("free memory unknown: %+v\ntight: %+v\nwide: %+v", *unknown, *tight, *wide)
	}
}
