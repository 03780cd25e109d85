package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// homed are short experiments with the embedded models, whose frozen matrices may lie anywhere.
func homed() map[string]func(t *testing.T, sets ...string) *experiment.Experiment {
	return map[string]func(t *testing.T, sets ...string) *experiment.Experiment{
		"tiny-sd3": func(t *testing.T, sets ...string) *experiment.Experiment {
			return parse(t, append([]string{whole, "run.iterations=3", "loss.noise_floor=warn", "optim.updates=1"}, sets...)...)
		},
		"tiny-wan": func(t *testing.T, sets ...string) *experiment.Experiment {
			list := pictureFiles(t)("list.jsonl", `{"prompt": "a cat runs", "image": "0.png"}`, `{"prompt": "a dog", "image": "1.png"}`)
			return parseText(t, clips, append([]string{"model.path=embed:tiny-wan", "sampler.guidance=1", "rollout.prompts=" + list, "run.iterations=3", `evaluate.prompts=""`, "sampler.frames=5"}, sets...)...)
		},
		"tiny-kontext": func(t *testing.T, sets ...string) *experiment.Experiment {
			return parseEdits(t, "pipe_flux_kontext", append([]string{"model.path=embed:tiny-kontext", "run.iterations=3", `evaluate.prompts=""`}, sets...)...)
		},
		"tiny-vlm": func(t *testing.T, sets ...string) *experiment.Experiment {
			return parseText(t, talking, append([]string{"model.path=embed:tiny-vlm", "model.train=lora", `model.lora.targets=["q_proj", "down_proj"]`, "run.iterations=3", "rollout.group=2", "evaluate.every=0", fewQuestions(t)}, sets...)...)
		},
	}
}

// TestHomes: wherever frozen matrices lie, a run leaves the same bytes.
func TestHomes(t *testing.T) {
	if testing.Short() {
		t.Skip("trains four models twice; left out by -short")
	}
	for name, parsed := range homed() {
		t.Run(name, func(t *testing.T) {
			kept := t.TempDir()
			if _, err := train(t, parsed(t, "model.home=device"), kept, false, 2, -1); err != nil {
				t.Fatal(err)
			}
			want := contents(t, kept)
			if c := firstLine(t, kept).Check; c == nil || c.Ratio != 1 {
				t.Errorf("the check is %+v", c)
			}
			for _, home := range []string{"disk"} {
				dir := t.TempDir()
				if _, err := train(t, parsed(t, "model.home="+home), dir, false, 1, -1); err != nil {
					t.Fatal(err)
				}
				same(t, "home = "+home, contents(t, dir), want)
			}
		})
	}
}

// TestHomesShared: devices that read matrices from one memory, or from each other's shares, leave the bytes of devices
// that hold all; compressed ones, too.
func TestHomesShared(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two models six times; left out by -short")
	}
	for name, sets := range map[string][]string{"tiny-sd3": {"model.quantize=nf4"}, "tiny-vlm": nil} {
		t.Run(name, func(t *testing.T) {
			var want map[string][]byte
			for _, home := range []string{"device", "host", "ranks"} {
				dir := t.TempDir()
				e := homed()[name](t, append(sets, "run.device=cpu,cpu", "run.iterations=1", "model.home="+home)...)
				if _, err := trainOn(t, e, dir, false, 2, -1); err != nil {
					t.Fatal(err)
				}
				if got := contents(t, dir); want == nil {
					want = got
				} else {
					same(t, "home = "+home, got, want)
				}
			}
		})
	}
}

// TestQuantized: a run that compresses the model as it is loaded is the run on a folder with the values of the codes.
// Its first ratio is 1.
func TestQuantized(t *testing.T) {
	if testing.Short() {
		t.Skip("trains three models three times; left out by -short")
	}
	for name, part := range map[string]string{"tiny-sd3": "transformer", "tiny-vlm": ""} {
		for i, kind := range quant.Kinds() {
			t.Run(name+" "+kind, func(t *testing.T) {
				plain, compressed, dir := t.TempDir(), t.TempDir(), unpacked(t, name, part, kind)
				iterations := "run.iterations=1"
				if i == 0 { // one kind goes on with weights that moved
					iterations = "run.iterations=2"
				}
				if _, err := train(t, homed()[name](t, "model.quantize="+kind, iterations), compressed, false, 2, -1); err != nil {
					t.Fatal(err)
				}
				if _, err := train(t, homed()[name](t, "model.path="+dir, iterations), plain, false, 2, -1); err != nil {
					t.Fatal(err)
				}
				if c := firstLine(t, compressed).Check; c == nil || c.Ratio != 1 {
					t.Errorf("the check is %+v", c)
				}
				got, want := contents(t, compressed), contents(t, plain)
				for file := range want {
					if strings.HasSuffix(file, "adapter_config.json") { // which names the folder
						delete(got, file)
						delete(want, file)
					}
				}
				same(t, "compressed beside unpacked", got, want)
				if kind != "nf4" || name != "tiny-sd3" {
					return
				}
				disk := t.TempDir()
				if _, err := train(t, homed()[name](t, "model.quantize="+kind, "model.home=disk", iterations), disk, false, 2, -1); err != nil {
					t.Fatal(err)
				}
				same(t, "compressed on the disk beside memory", contents(t, disk), contents(t, compressed))
			})
		}
	}
}

// unpacked is a copy of an embedded model, of which a part has the values that codes of a kind stand for.
func unpacked(t *testing.T, name, part, kind string) (dir string) {
	t.Helper()
	from, err := assets.Resolve("embed:" + name)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	set, err := safetensors.OpenFolder(filepath.Join(from, part))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	stored, err := quant.Quantize(set, kind, filepath.Join(from, part))
	if err != nil {
		t.Fatal(err)
	}
	var all []safetensors.Tensor
	changed := 0
	for _, name := range stored.Names() {
		x, err := stored.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := set.Tensor(name); err == nil && stored.(*quant.Quantized).Compresses(raw) {
			changed++
		}
		all = append(all, x)
	}
	if changed < 8 || len(set.Files) != 1 {
		t.Fatalf("%d matrices of %d files", changed, len(set.Files))
	}
	if err := safetensors.Write(filepath.Join(dir, part, filepath.Base(set.Files[0].Path)), all, set.Metadata); err != nil {
		t.Fatal(err)
	}
	return dir
}

// packing is a backend that calls a function before it packs a matrix.
type packing struct {
	*cpu.Backend
	packed, at int
	then       func()
	ends       []int // of iterations
}

func (b *packing) PackIn(memory *kernels.Buffer, m kernels.Mat, p kernels.Math) *kernels.Packed {
	if b.packed++; b.packed == b.at {
		b.then()
	}
	return b.Backend.PackIn(memory, m, p)
}

// TestHomeLost: a file of weights that is cut while a pass reads it ends the run by its name and place. With the whole
// file the run goes on as if nothing had been.
func TestHomeLost(t *testing.T) {
	from, err := assets.Resolve("embed:tiny-sd3")
	if err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(model, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(model, "transformer", "*.safetensors"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	weights, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	e := parse(t, "model.path="+model, "run.iterations=2", "model.home=disk")
	run := func(dir string, resume bool, at int) (*packing, error) {
		on := &packing{Backend: fastest(t, 2), at: at, then: func() {
			if err := os.Truncate(files[0], int64(len(weights)/8)); err != nil {
				t.Error(err)
			}
		}}
		defer on.Close()
		_, err := Run(t.Context(), e, Options{Dir: dir, Resume: resume, Backend: on, Logf: t.Logf, Report: func(*ledger.Line, *ledger.TimingLine) {
			on.ends = append(on.ends, on.packed)
		}})
		return on, err
	}
	kept := t.TempDir()
	whole, err := run(kept, false, 0)
	if err != nil || len(whole.ends) != 2 {
		t.Fatal(whole.ends, err)
	}
	want := contents(t, kept)
	for _, percent := range []int{10, 80} { // of the second iteration: in a roll, and in an update
		dir := t.TempDir()
		at := whole.ends[0] + (whole.ends[1]-whole.ends[0])*percent/100
		_, err := run(dir, false, at)
		if err == nil || !strings.Contains(err.Error(), files[0]+", ") || !strings.Contains(err.Error(), " bytes from ") || !strings.Contains(err.Error(), "hint:") {
			t.Fatalf("of a file that was cut at matrix %d of %d: %v", at, whole.packed, err)
		}
		if err := os.WriteFile(files[0], weights, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := run(dir, true, 0); err != nil {
			t.Fatal(err)
		}
		same(t, "gone on with", contents(t, dir), want)
	}
}

// TestPresetsQuantized: rolls, references and updates read the same operands. So the first ratio is 1 on compressed
// models, in every preset.
func TestPresetsQuantized(t *testing.T) {
	if testing.Short() {
		t.Skip("trains models of moments; left out by -short")
	}
	if !*long {
		t.Logf("of %d presets %s are trained; -long trains them all", len(experiment.Presets()), strings.Join(somePresets, " and "))
	}
	for _, p := range experiment.Presets() {
		if !*long && !slices.Contains(somePresets, p.Name.Name) {
			continue
		}
		for _, kind := range []string{"nf4", "fp8"} {
			t.Run(p.Name.Name+" "+kind, func(t *testing.T) {
				dir := t.TempDir()
				if _, err := train(t, smallOf(t, p, "run.iterations=1", "model.quantize="+kind), dir, false, 2, -1); err != nil {
					t.Fatal(err)
				}
				line := firstLine(t, dir)
				if c := line.Check; c != nil && c.Ratio != 1 {
					t.Errorf("the first ratio is %v", c.Ratio)
				}
				if u := line.Updates; len(u) > 0 && u[0].RatioMost != 0 && u[0].RatioMost != 1 && p.Name.Name != "gepo" { // whose ratio is to a group's mean
					t.Errorf("the first update's ratios go up to %v", u[0].RatioMost)
				}
			})
		}
	}
}
