package compare

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// config is the smallest that is an experiment.
const config = "[run]\nname = \"small\"\niterations = 3\nseed = %d\n[model]\npath = \"embed:tiny-sd3\"\n[rollout]\nprompts = \"embed:scenes\"\n[[reward]]\nname = \"scene\"\n"

// write writes a run of three iterations with two samples each, and a checkpoint after each.
func write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]*strings.Builder{}
	line := func(name, format string, args ...any) {
		if files[name] == nil {
			files[name] = &strings.Builder{}
		}
		fmt.Fprintf(files[name], format+"\n", args...)
	}
	line("config.toml", config, 1)
	line("manifest.json", `{"version":"1","backend":"cpu","prompts_sha256":"aa","model":[{"name":"model.safetensors","sha256":"cc"}]}`)
	for i := 0; i <= 3; i++ {
		if i > 0 {
			for s := range 2 {
				line("samples.jsonl", `{"iteration":%d,"prompt":7,"sample":%d,"text":"a cup","total":0.%d5,"advantage":0.5,"scores":{"scene":{"value":0.%d5,"parts":{"clean":0.5}}}}`, i, s, i+s, i+s)
			}
			line("ledger.jsonl", `{"iteration":%d,"prompts":[7],"samples":2,"total":{"mean":0.%d,"std":0.1,"min":0,"max":1},"rewards":{"scene":{"mean":0.%d,"std":0.1,"min":0,"max":1}},`+
				`"diversity":1.5,"pictures":{"brightness":99},"updates":[{"loss":0.25,"gradient":2,"lr":0.1}],"heldout":{"scene":{"mean":0.%d,"low":0.1,"high":0.9,"prompts":3}}}`, i, i, i, i)
			line("timing.jsonl", `{"iteration":%d,"seconds":{"all":2}}`, i)
			at := filepath.Join(dir, "checkpoints", fmt.Sprintf("%06d", i))
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := safetensors.Write(filepath.Join(at, "adapter_model.safetensors"), []safetensors.Tensor{safetensors.FromF32("lora_A", []int{2, 3}, []float32{1, 2, 3, 4, 5, float32(i)})}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for p := range 3 {
			line("heldout.jsonl", `{"iteration":%d,"prompt":%d,"sample":0,"text":"held %d","total":0.%d,"scores":{"scene":{"value":0.%d}}}`, i, p, p, i+p, i+p)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// change replaces a text in the n-th line of a file, from 1.
func change(t *testing.T, dir, name string, n int, old, now string) {
	t.Helper()
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if !strings.Contains(lines[n-1], old) {
		t.Fatalf("%s:%d has no %q", name, n, old)
	}
	lines[n-1] = strings.Replace(lines[n-1], old, now, 1)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPlanted: each planted difference is found at its place, with its cause.
func TestPlanted(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(b string)
		cause Cause
		place string // of Place.String(); "": nothing differs
	}{
		"nothing": {func(string) {}, Nothing, ""},
		"timing":  {func(b string) { change(t, b, "timing.jsonl", 2, ":2}", ":3}") }, Timing, ""},
		"threads": {func(b string) { change(t, b, "manifest.json", 1, `"cpu"`, `"cpu, 1 thread"`) }, Nothing, ""},
		"torn": {func(b string) {
			text, _ := os.ReadFile(filepath.Join(b, "ledger.jsonl"))
			if err := os.WriteFile(filepath.Join(b, "ledger.jsonl"), text[:len(text)-9], 0o644); err != nil {
				t.Fatal(err)
			}
		}, Nothing, ""},
		"seed": {func(b string) {
			change(t, b, "config.toml", 4, "1", "2")
			change(t, b, "ledger.jsonl", 1, `"prompts":[7]`, `"prompts":[8]`)
		}, Seed, "ledger.jsonl:1, iteration 1: prompts[0] is 7 in A and 8 in B"},
		"reward": { // the advantage of the sample before it follows, and so do the means
			func(b string) {
				change(t, b, "samples.jsonl", 3, `"advantage":0.5`, `"advantage":0.4`)
				change(t, b, "samples.jsonl", 4, `{"value":0.35`, `{"value":0.35000000000000003`)
				change(t, b, "samples.jsonl", 4, `"total":0.35`, `"total":0.36`)
				change(t, b, "ledger.jsonl", 2, `"mean":0.2`, `"mean":0.21`)
				change(t, b, "ledger.jsonl", 3, `"mean":0.3`, `"mean":0.31`)
			}, Reward, "samples.jsonl:4, iteration 2, prompt 7, sample 1: scores.scene.value is 0.35 in A and 0.35000000000000003 in B, 1 unit in the last place"},
		"far": { // as a count of units it says nothing
			func(b string) { change(t, b, "samples.jsonl", 4, `{"value":0.35`, `{"value":0.36`) },
			Reward, "samples.jsonl:4, iteration 2, prompt 7, sample 1: scores.scene.value is 0.35 in A and 0.36 in B, 2.8 % apart"},
		"sample": {func(b string) {
			change(t, b, "samples.jsonl", 3, `{"value":0.25`, `{"value":0.26`)
			change(t, b, "ledger.jsonl", 2, `"mean":0.2`, `"mean":0.21`)
			change(t, b, "ledger.jsonl", 2, `"diversity":1.5`, `"diversity":1.6`)
		}, Samples, "samples.jsonl:3, iteration 2, prompt 7, sample 0: scores.scene.value is 0.25"},
		"update":  {func(b string) { change(t, b, "ledger.jsonl", 2, `"gradient":2`, `"gradient":2.5`) }, Update, "ledger.jsonl:2, iteration 2: updates[0].gradient is 2 in A and 2.5 in B"},
		"missing": {func(b string) { change(t, b, "samples.jsonl", 1, `"total":0.15`, `"total":null`) }, Reward, "total is 0.15 in A and null in B"},
		"weight": {func(b string) {
			x := float32(5)
			path := filepath.Join(b, "checkpoints", "000002", "adapter_model.safetensors")
			if err := safetensors.Write(path, []safetensors.Tensor{safetensors.FromF32("lora_A", []int{2, 3}, []float32{1, 2, 3, 4, math.Nextafter32(x, 9), 2})}, nil); err != nil {
				t.Fatal(err)
			}
		}, Weights, "checkpoints/000002/adapter_model.safetensors, iteration 2: lora_A[1 1] is 5 in A and 5.0000005 in B, 1 unit in the last place"},
		"held out": {func(b string) { change(t, b, "heldout.jsonl", 5, `{"value":0.2`, `{"value":0.3`) }, Evaluation, "heldout.jsonl:5, iteration 1, prompt 1, sample 0: scores.scene.value"},
		"model": {func(b string) {
			change(t, b, "manifest.json", 1, `"cc"`, `"dd"`)
			change(t, b, "samples.jsonl", 1, `{"value":0.15`, `{"value":0.16`)
		}, Model, "samples.jsonl:1"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := write(t), write(t)
			c.plant(b)
			got, err := Runs(a, b)
			if err != nil {
				t.Fatal(err)
			}
			place := ""
			if got.First != nil {
				place = got.First.String()
			}
			if got.Cause != c.cause || !strings.Contains(place, c.place) || (place == "") != (c.place == "") || got.Same != (c.place == "") || got.Meaning == "" {
				t.Errorf("%s: %s\n%s", got.Cause, got.Meaning, place)
			}
		})
	}
}

// TestRollback: an attempt comes after the one that it abandoned, whatever its iteration.
func TestRollback(t *testing.T) {
	a, b := write(t), write(t)
	for dir, last := range map[string]string{a: "1", b: "2"} {
		for name, text := range map[string]string{
			"ledger.jsonl":  `{"iteration":1,"rollback":{"from":3,"to":1,"attempt":1,"lr_scale":0.5,"why":"it fell"}}` + "\n" + `{"iteration":2,"attempt":1,"total":{"mean":` + last + `}}` + "\n",
			"samples.jsonl": `{"iteration":1,"rollback":{"from":3,"to":1,"attempt":1,"lr_scale":0.5,"why":"it fell"}}` + "\n"} {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	change(t, b, "ledger.jsonl", 3, `"gradient":2`, `"gradient":3`)
	got, err := Runs(a, b)
	if err != nil || got.First.Line != 3 {
		t.Fatalf("%+v, %v", got.First, err)
	}
	change(t, b, "ledger.jsonl", 3, `"gradient":3`, `"gradient":2`)
	if got, err = Runs(a, b); err != nil || got.First.Line != 5 || got.First.Attempt != 1 {
		t.Fatalf("%+v, %v", got.First, err)
	}
}

// TestHeldOut: differences are of the same prompts, and their interval is narrower than that of the means.
func TestHeldOut(t *testing.T) {
	a, b := write(t), write(t)
	for n := 10; n <= 12; n++ { // the last evaluation: 0.3, 0.4, 0.5
		change(t, b, "heldout.jsonl", n, `{"value":0.`, `{"value":0.0`)
	}
	got, err := Runs(a, b)
	if err != nil || len(got.HeldOut) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	h := got.HeldOut[0] // 0.03-0.3, 0.04-0.4, 0.05-0.5: their mean -0.36, their deviation 0.09
	half := 4.303 * 0.09 / math.Sqrt(3)
	if !h.Paired || h.Difference.Prompts != 3 || math.Abs(h.Difference.Mean+0.36) > 1e-12 || math.Abs(h.Difference.High+0.36-half) > 1e-4 {
		t.Errorf("%+v", h)
	}
	change(t, b, "heldout.jsonl", 11, `"text":"held 1"`, `"text":"another"`)
	if got, err = Runs(a, b); err != nil || got.HeldOut[0].Difference.Prompts != 2 {
		t.Errorf("%+v, %v", got.HeldOut, err)
	}
	if err := os.Remove(filepath.Join(b, "heldout.jsonl")); err != nil {
		t.Fatal(err)
	}
	if got, err = Runs(a, b); err != nil || got.HeldOut[0].Paired || got.HeldOut[0].Difference.Mean != 0 || !(got.HeldOut[0].Difference.High > 0.5) {
		t.Errorf("%+v, %v", got.HeldOut, err)
	}
}

// TestRefused: the error names a folder without a run, or with an unreadable line.
func TestRefused(t *testing.T) {
	a, b := write(t), write(t)
	if _, err := Runs(a, t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Error(err)
	}
	change(t, b, "samples.jsonl", 2, `"iteration"`, `"iterat`)
	if _, err := Runs(a, b); err == nil || !strings.Contains(err.Error(), "samples.jsonl:2") {
		t.Error(err)
	}
}

// TestUnits: neighbours are one apart, across zero as well.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		a, b float64
		want uint64
	}{{1, math.Nextafter(1, 2), 1}, {-1, math.Nextafter(-1, 0), 1}, {0, math.Copysign(0, -1), 0}, {5e-324, -5e-324, 2}, {1, 2, 1 << 52}} {
		if got := apart(order64(c.a), order64(c.b)); got != c.want {
			t.Errorf("%g and %g are %d apart, not %d", c.a, c.b, got, c.want)
		}
		if got := apart(order64(c.b), order64(c.a)); got != c.want {
			t.Errorf("%g and %g are %d apart, not %d", c.b, c.a, got, c.want)
		}
	}
	if apart(order32(-1e-45), order32(1e-45)) != 2 || apart(order32(1), order32(math.Nextafter32(1, 0))) != 1 {
		t.Error("float32")
	}
}
