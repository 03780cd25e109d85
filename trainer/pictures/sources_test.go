package pictures

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// edited are the recorded pipelines that change pictures, with settings that keep their tests small.
var edited = []struct {
	name string
	sets []string
}{
	{"pipe_flux_kontext", []string{"model.source_area=-1", "model.text_length=16"}},
	{"pipe_qwen_image_edit_plus", []string{"model.source_area=4096"}},
	{"pipe_flux2_klein", []string{"model.text_length=32"}},
}

// sourceList writes pictures of two sizes, and a list of prompts that are made of them.
func sourceList(t *testing.T) (file string, list []prompts.Prompt) {
	t.Helper()
	dir := t.TempDir()
	for i, size := range [][2]int{{64, 64}, {64, 96}} {
		m := vision.New(size[0], size[1])
		for k := range m.Pix {
			m.Pix[k] = uint8(40*i + k%97)
		}
		out, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.png", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := vision.EncodePNG(out, m); err != nil {
			t.Fatal(err)
		}
		out.Close()
	}
	file = filepath.Join(dir, "edits.jsonl")
	lines := []string{`{"prompt": "make it red", "image": "0.png"}`, `{"prompt": "make it red", "image": "1.png"}`, `{"prompt": "a dog", "image": "0.png", "width": 32, "height": 32}`}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := prompts.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, list
}

// TestCacheOfFolders: texts of a folder in the hub's own cache lie on the disk as those of any folder do, once for each
// arithmetic.
func TestCacheOfFolders(t *testing.T) {
	hub := filepath.Join(t.TempDir(), "models--me--tiny")
	snapshot := filepath.Join(hub, "snapshots", "abc123")
	if err := os.CopyFS(snapshot, os.DirFS(filepath.Join(golden.Folder("models"), "pipe_sd3"))); err != nil {
		t.Fatal(err)
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	cache := t.TempDir()
	for i, one := range []struct{ path, class string }{{snapshot, "ref"}, {hub, "ref"}, {hub, "a card"}} {
		e := parse(t, "model.path="+one.path, "model.lora={rank=2,alpha=4,targets=['to_q']}")
		list, err := e.Open(e.Rollout.Prompts[0])
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			cache = t.TempDir()
		}
		m, err := Open(e, model.Options{Backend: be, Train: list, Cache: cache, Arithmetic: one.class})
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		all, err := os.ReadDir(cache)
		if want := 1 + i/2; err != nil || len(all) != want {
			t.Errorf("%s, class %q: %d files on the disk, not %d (%v)", one.path, one.class, len(all), want, err)
		}
	}
}

// editor opens one of them on a list.
func editor(t *testing.T, name, file string, list []prompts.Prompt, cache string, sets ...string) *Model {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	dir := filepath.Join(golden.Folder("models"), name)
	e := parse(t, append([]string{"model.path=" + dir, "rollout.prompts=" + file, "model.lora={rank=2,alpha=4,targets=[\"to_q\"]}", "loss.noise_floor=off",
		"sampler.steps=2", "sampler.window={kind=\"sliding\",size=1,every=1}"}, sets...)...)
	m, err := Open(e, model.Options{Backend: be, Train: list, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	settings, err := e.Iteration(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Begin(settings, rng.New(7), 1); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSources: pictures that are made of pictures, of several sizes in one iteration. Sizes follow the sources where
// the model has it so; rewards see the pictures of the list; the first ratios are 1, in passes of one and of all; and
// forgotten inputs come back, from the disk too, with the same bits.
func TestSources(t *testing.T) {
	if testing.Short() {
		t.Skip("makes pictures with three models; left out by -short")
	}
	for _, one := range edited {
		t.Run(one.name, func(t *testing.T) {
			file, list := sourceList(t)
			cache := t.TempDir()
			sets := one.sets
			if one.name == "pipe_flux_kontext" { // whose pictures have one size
				sets = append(slices.Clone(sets), "sampler.width=32", "sampler.height=32")
			}
			m := editor(t, one.name, file, list, cache, sets...)
			roll := func(m *Model) (finals [][]float64, samples []trainer.Sample) {
				t.Helper()
				samples, err := m.Roll(trainer.Current, pairs())
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range samples {
					finals = append(finals, s.Item.Final)
				}
				return finals, samples
			}
			first, samples := roll(m)
			checkSourced(t, m, one.name, samples)
			settings := m.settings
			o, err := m.Objective(settings, m)
			if err != nil {
				t.Fatal(err)
			}
			for _, micro := range []int{0, 1} {
				m.Micro = micro
				if found, err := m.Check(o, samples); err != nil || found.Ratio != 1 || found.Transitions != len(samples) {
					t.Errorf("passes of %d: %+v, %v", micro, found, err)
				}
			}
			m.sources.known = map[int]*source{}
			m.Pipeline.Forget()
			if again, _ := roll(m); !slices.EqualFunc(again, first, slices.Equal) {
				t.Error("other bits after pictures were forgotten")
			}
			before, err := os.ReadDir(cache)
			if err != nil || len(before) == 0 {
				t.Errorf("%d files on the disk (%v)", len(before), err)
			}
			if again, _ := roll(editor(t, one.name, file, list, cache, sets...)); !slices.EqualFunc(again, first, slices.Equal) {
				t.Error("other bits from the disk")
			}
			if after, err := os.ReadDir(cache); err != nil || len(after) != len(before) {
				t.Errorf("%d files on the disk, and then %d (%v)", len(before), len(after), err)
			}
			if slices.Equal(first[0], first[2]) {
				t.Error("two pictures make one")
			}
		})
	}
}

// checkSourced checks sizes, and the inputs of rewards.
func checkSourced(t *testing.T, m *Model, name string, samples []trainer.Sample) {
	t.Helper()
	want := [][2]int{{64, 64}, {64, 96}, {32, 32}}
	switch name {
	case "pipe_flux_kontext":
		want = [][2]int{{32, 32}, {32, 32}, {32, 32}}
	case "pipe_qwen_image_edit_plus": // the second in multiples of 32, of as many pixels
		want[1] = [2]int{64, 64}
	}
	items, err := m.Items(samples)
	if err != nil {
		t.Fatal(err)
	}
	made := slices.Clone(samples)
	for i := range made { // elsewhere, and developed there
		made[i].Item.Image = items[i].Image
		made[i].Item.Final = nil
	}
	if again, err := m.Items(made); err != nil || !reflect.DeepEqual(again, items) {
		t.Errorf("samples that came with their pictures are told to rewards in another way: %v", err)
	}
	for i, s := range samples {
		if s.Item.Size != want[s.Key.Prompt] {
			t.Errorf("prompt %d has a picture of %v", s.Key.Prompt, s.Item.Size)
		}
		if got := items[i].Sources; len(got) != 1 || got[0].Height != [3]int{64, 96, 64}[s.Key.Prompt] {
			t.Errorf("rewards of prompt %d see %d pictures", s.Key.Prompt, len(got))
		}
	}
}

// TestMemoryOfSources: memory is counted with the largest pictures that the first prompts name, wherever they stand.
func TestMemoryOfSources(t *testing.T) {
	file, list := sourceList(t)
	large := vision.New(256, 192)
	if err := vision.WriteFile(filepath.Join(filepath.Dir(file), "large.png"), large); err != nil {
		t.Fatal(err)
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	need := func(image string) *model.Memory {
		t.Helper()
		lines := []string{`{"prompt": "make it red", "image": "0.png"}`, fmt.Sprintf(`{"prompt": "make it red", "image": %q}`, image)}
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(golden.Folder("models"), "pipe_flux_kontext")
		m, err := Memory(parse(t, "model.path="+dir, "rollout.prompts="+file, "model.lora={rank=2,alpha=4,targets=[\"to_q\"]}", "loss.noise_floor=off", "model.source_area=-1", "model.text_length=16",
			"sampler.width=32", "sampler.height=32", "sampler.steps=2", "sampler.window={kind=\"sliding\",size=1,every=1}", "rollout.prompts_per_iteration=1", "rollout.group=2"), cpu.NewDry(cpu.Options{Path: path}), 0)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if small, most := need("0.png"), need("large.png"); len(list) != 3 || most.Training < 2*small.Training || most.Sampling < small.Sampling {
		t.Errorf("pictures of 64 x 64: %+v; with one of 256 x 192: %+v", *small, *most)
	}
}
