package trained

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

var recorded = golden.Folder("models") + "/"

const generator = `[run]
name = "x"
iterations = 1
[model]
path = %q
train = %s
[optim]
ema = 0.5
[sampler]
preset = %q
[rollout]
prompts = "embed:scenes"
[[reward]]
name = "jpeg"
`

const speaker = `[run]
name = "x"
iterations = 1
[model]
path = %q
train = %s
[optim]
ema = 0.5
[rollout]
prompts = "embed:zoom"
[[reward]]
name = "accuracy"
[episode]
protocol = %q
`

// dryOf computes nothing.
func dryOf() kernels.Backend { return cpu.NewDry(cpu.Options{}) }

// begun is the folder of a run, with the checkpoint of its start,
// whose average is the weights times 2. Nothing is rolled.
func begun(t *testing.T, text, path, train, third string) string {
	t.Helper()
	dir := t.TempDir()
	e, err := experiment.Parse("x.toml", fmt.Appendf(nil, text, path, train, third), nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := folder.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var config bytes.Buffer
	if err := e.Write(&config); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(folder.Config, config.Bytes()); err != nil {
		t.Fatal(err)
	}
	real, err := assets.Resolve(path)
	if err != nil {
		t.Fatal(err)
	}
	networks, free, err := run.ModalityOf(e).Networks(real, e.Model, tensor.NewPool(ref.Backend{}))
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	var parts []model.Part
	for _, n := range networks {
		parts = append(parts, model.Part{Params: n.Trained()})
	}
	l, err := model.NewLearner(optim.Defaults(), []trainer.Weights{model.Average(e)}, model.Place{}, parts...)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Free()
	double := func() error {
		for _, p := range l.Moved() {
			x := p.Value.F32()
			for i := range x {
				x[i] *= 2
			}
			p.Value.UploadF32(x)
		}
		return nil
	}
	if err := l.With(trainer.Average, double); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(0, folder.Keeping{Last: 1}, func(to string) error {
		if err := safetensors.Write(filepath.Join(to, model.TensorsFile), l.Tensors(""), nil); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, stateFile), []byte(`{"stage": 0}`), 0o644)
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestValues: the first checkpoint's weights are those of the file that the model was read from: of networks with and
// without convolutions, of all parameters and of some. Its average is the stored one.
func TestValues(t *testing.T) {
	for _, c := range []struct{ text, model, train, third string }{
		{generator, recorded + "pipe_sd3", `"full"`, "flow_grpo"},
		{generator, recorded + "pipe_sd15", `"full"`, "ddpo"},
		{generator, recorded + "pipe_sd15", `["down_blocks\\..*conv.*", "mid_block\\..*"]`, "ddpo"},
		{speaker, "embed:tiny-vlm", `["model\\..*"]`, "deepeyes"},
	} {
		r, err := Open(begun(t, c.text, c.model, c.train, c.third))
		if err != nil {
			t.Fatal(err)
		}
		pool := tensor.NewPool(ref.Backend{})
		now, err := r.Values(Current, dryOf(), pool)
		if err != nil {
			t.Fatal(err)
		}
		defer now.Close()
		average, err := r.Values(EMA, dryOf(), pool)
		if err != nil {
			t.Fatal(err)
		}
		defer average.Close()
		sub := ""
		if c.text == generator {
			if sub, err = pipeline.ComponentOf(r.Model); err != nil {
				t.Fatal(err)
			}
		}
		same(t, r.Model, sub, now.Networks[0], true)
		same(t, r.Model, sub, average.Networks[0], false)
	}
}

// TestEvaluated: the default weights are those of the run's evaluations.
func TestEvaluated(t *testing.T) {
	for want, text := range map[Which]string{Current: generator, EMA: generator + "[evaluate]\nweights = \"ema\"\n"} {
		r, err := Open(begun(t, text, recorded+"pipe_sd3", `"full"`, "dance"))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Named(Evaluated); got != want || r.Named(Current) != Current || r.Named(EMA) != EMA {
			t.Errorf("%s is taken, want %s", got, want)
		}
		of := func(w Which) [][]float32 {
			v, err := r.Values(w, dryOf(), tensor.NewPool(ref.Backend{}))
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			var all [][]float32
			for _, name := range v.Networks[0].Names() {
				x, err := v.Networks[0].Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				values, err := x.Float32(nil)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, values)
			}
			return all
		}
		if a, b := of(Evaluated), of(want); len(a) == 0 || !slices.EqualFunc(a, b, slices.Equal) {
			t.Errorf("what is evaluated is not %s", want)
		}
	}
}

// same compares a folder's weights with those of its copy.
func same(t *testing.T, dir, sub string, with edition.Source, equal bool) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	if err := edition.Make(dir, out, func(c edition.Copy) error { return c.Changed(sub, edition.Values{Source: with}) }); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	a, err := safetensors.OpenFolder(filepath.Join(dir, sub))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, f := range a.Files {
		was, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		is, err := os.ReadFile(filepath.Join(out, sub, filepath.Base(f.Path)))
		if err != nil || bytes.Equal(was, is) != equal {
			t.Errorf("%s: the same bytes: %v, not %v (%v)", f.Path, !equal, equal, err)
		}
	}
	if equal {
		return
	}
	b, err := safetensors.OpenFolder(filepath.Join(out, sub))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, name := range with.Names() {
		x, _ := a.Tensor(name)
		y, _ := b.Tensor(name)
		was, _ := x.Float32(nil)
		is, _ := y.Float32(nil)
		for i := range was {
			if is[i] != 2*was[i] {
				t.Fatalf("%s: the average is %v, and was made %v", name, is[i], 2*was[i])
			}
		}
	}
}

// TestOpenRefuses: a path that is not a run, and weights that a run lacks, are reported with a remedy.
func TestOpenRefuses(t *testing.T) {
	dir := begun(t, generator, recorded+"pipe_sd3", `"full"`, "flow_grpo")
	for path, want := range map[string]string{
		"nowhere":                         "nowhere: no such folder\nhint: ",
		t.TempDir():                       "is neither a run's folder nor a checkpoint",
		filepath.Join(dir, "checkpoints"): "is neither a run's folder nor a checkpoint",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	r, err := Open(filepath.Join(dir, "checkpoints", "000000"))
	if err != nil || r.Dir != dir {
		t.Fatalf("%v: a checkpoint of %s, not %s", err, r.Dir, dir)
	}
	if _, err := r.Adapter(Current); err == nil || !strings.Contains(err.Error(), "hint: --as hub") {
		t.Errorf("an adapter of a run without one: %v", err)
	}
	r.Model = recorded + "sd3_sharded" // another network
	if _, err := r.Values(Current, dryOf(), tensor.NewPool(ref.Backend{})); err == nil || !strings.Contains(err.Error(), "hint: --model") {
		t.Errorf("another model: %v", err)
	}
	state := filepath.Join(dir, "checkpoints", "000000", model.TensorsFile)
	if err := os.WriteFile(state, []byte("spoilt"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, r.Checkpoint.Dir} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "has changed since it was written") {
			t.Errorf("%s, spoilt: %v", path, err)
		}
	}
}
