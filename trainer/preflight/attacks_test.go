package preflight

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

// attacked are small experiments of each modality on the embedded models; %s is a list that is held out.
var attacked = map[string]string{
	"pic": `preset = "mixgrpo"
[run]
name = "pic"
iterations = 2
[model]
path = "embed:tiny-sd3"
lora = { rank = 4, alpha = 8, targets = ["attn.to_q", "attn.to_v"] }
[sampler]
steps = 4
eval_steps = 2
guidance = 1
window = { kind = "sliding", size = 2, every = 1, stride = 1, drop = 1 }
[rollout]
prompts = "embed:scenes"
prompts_per_iteration = 2
group = 2
[[reward]]
name = "jpeg"
[evaluate]
prompts = %q
`,
	"clip": `preset = "nft"
[run]
name = "clip"
iterations = 2
[model]
path = "embed:tiny-wan"
lora = { rank = 4, alpha = 8, targets = ["to_q", "to_v"] }
[sampler]
frames = 5
width = 32
height = 32
solver = "euler"
steps = 2
eval_steps = 2
guidance = 1
[rollout]
prompts = "embed:animate"
prompts_per_iteration = 1
group = 2
[[reward]]
name = "heading"
`,
	"edit": `preset = "mixgrpo"
[run]
name = "edit"
iterations = 2
[model]
path = "embed:tiny-kontext"
lora = { rank = 4, alpha = 8, targets = ["attn.to_q", "attn.to_v"] }
[sampler]
steps = 3
eval_steps = 2
noise = 0.7
guidance = 1
window = { kind = "random", size = 2, drop = 1 }
[rollout]
prompts = "embed:edits-in-place"
prompts_per_iteration = 1
group = 2
[[reward]]
name = "edit"
`,
	"vlm": `preset = "dapo"
[run]
name = "vlm"
iterations = 2
[model]
path = "embed:tiny-vlm"
train = ['model\..*']
[episode]
protocol = "darkroom"
tools = ["zoom"]
turns = 2
turn_tokens = 8
tokens = 300
[rollout]
prompts = "embed:zoom"
prompts_per_iteration = 1
group = 2
[[reward]]
name = "accuracy"
[optim]
lr = 2e-4
`,
}

// An attack is an experiment after a change, by which it can be made again.
type attack struct {
	kind, says string
	text       string
	sets       []string
}

// attackOf makes the attack of a seed: a value that the key's range, or its kind, may or may not have; two keys; a line
// that is gone, doubled, moved, or another modality's; a preset on any model.
func attackOf(seed uint64, base map[string]string) attack {
	r := rand.New(rand.NewPCG(seed, 38))
	kinds := []string{"pic", "clip", "edit", "vlm"}
	kind := kinds[r.IntN(len(kinds))]
	a := attack{kind: kind, text: base[kind]}
	lines := strings.SplitAfter(a.text, "\n")
	at := r.IntN(len(lines) - 1)
	switch r.IntN(8) {
	case 0:
		a.says, a.text = "without "+lines[at], strings.Join(slices.Delete(lines, at, at+1), "")
	case 1:
		a.says, a.text = "twice "+lines[at], strings.Join(slices.Insert(lines, at, lines[at]), "")
	case 2:
		other := strings.SplitAfter(base[kinds[r.IntN(len(kinds))]], "\n")
		line := other[r.IntN(len(other)-1)]
		a.says, a.text = fmt.Sprintf("%s in place of %s", line, lines[at]), strings.Join(slices.Replace(lines, at, at+1, line), "")
	case 3:
		all := experiment.Presets()
		a.sets = []string{fmt.Sprintf("preset=%q", all[r.IntN(len(all))].Name.Name)}
	case 4:
		a.sets = []string{changedKey(r, kind), changedKey(r, kind)}
	default:
		a.sets = []string{changedKey(r, kind)}
	}
	return a
}

// elsewhere are keys that lead out of the test: programs, addresses, devices, workers, memory to measure.
var elsewhere = []string{"track", "run.device", "run.memory", "run.watch", "alert", "episode.engine"}

// changedKey is an override of one key by its schema, mostly of a table that the modality has.
func changedKey(r *rand.Rand, kind string) string {
	e, wrong := experiment.Default(), "episode."
	if kind == "vlm" {
		wrong = "sampler."
	}
	if r.IntN(8) == 0 {
		wrong = "no table"
	}
	all := config.Keys(&e)
	all = slices.DeleteFunc(all, func(k config.Key) bool {
		return k.Table || strings.HasPrefix(k.Path, wrong) || slices.ContainsFunc(elsewhere, func(out string) bool { return strings.HasPrefix(k.Path, out) })
	})
	k := all[r.IntN(len(all))]
	path := strings.Replace(k.Path, "reward.", "reward.0.", 1)
	if k.Enum != nil && r.IntN(8) > 0 {
		return fmt.Sprintf("%s=%q", path, k.Enum[r.IntN(len(k.Enum))])
	}
	one := func() string {
		switch kind := strings.TrimSuffix(strings.TrimPrefix(k.Kind, "list of "), "s"); kind {
		case "integer":
			return []string{"0", "1", "2", "3", "4", "5", "-1", "9223372036854775807"}[r.IntN(8)]
		case "number":
			return []string{"0", "1", "0.5", "2", "3", "-1", "1e-9", "1e6", "1e300", "inf", "nan", "1e-310"}[r.IntN(12)]
		case "boolean":
			return []string{"true", "false"}[r.IntN(2)]
		}
		return []string{`""`, `"no-such"`, `"jpeg"`, `"cfg"`, `"é\n"`, `"embed:scenes"`, `"*"`, `"("`}[r.IntN(8)]
	}
	value := one()
	if strings.HasPrefix(k.Kind, "list of ") {
		value = []string{"[]", "[" + one() + "]", "[" + one() + ", " + one() + "]"}[r.IntN(3)]
	}
	if r.IntN(20) == 0 { // another kind
		value = []string{"[]", "{}", "1", `"1"`, "true", "[[1]]", "2026-11-27"}[r.IntN(7)]
	}
	return path + "=" + value
}

// affordable reports whether an iteration is of seconds.
func affordable(e *experiment.Experiment) bool {
	settings, err := e.Iteration(0)
	if err != nil {
		return true // the run's to refuse
	}
	s := settings.Sampler
	work := settings.Rollout.PromptsPerIteration * settings.Samples() * max(1, s.Steps) * max(1, s.Frames)
	size := max(1, s.Width) * max(1, s.Height)
	held := e.Evaluate.Samples * max(1, s.EvalSteps)
	return work <= 128 && size <= 64*64 && held <= 16 && (settings.Episode == nil || settings.Episode.Tokens <= 1000) && settings.Rollout.Filter == nil
}

// late are ends of a run that no plan can know, since they follow from the model's samples and their rewards.
var late = []string{"no score for", "nothing was learned", "weights stay as they are", "infinite or none"}

// beyond are ends of a run by a reward that an estimator does not take, of which plan warns.
var beyond = []string{"expects rewards from 0 to 1", "outside [0, 1]"}

var (
	attacks   = flag.Int("attacks", 0, "how many experiments, and files of each kind, to change; 0: a few")
	oneAttack = flag.Int64("attack", -1, "the seed of the one change to try; -1: many")
)

// TestChangedExperiments: no change of a small experiment's file panics or hangs; train trains each file that plan
// accepts, and no infinite or NaN number is called success. -attacks says how many, in place of 60; -attack is the
// seed of one alone.
func TestChangedExperiments(t *testing.T) {
	if testing.Short() {
		t.Skip("trains the embedded models, one iteration each: seconds, and minutes without assembly; left out by -short")
	}
	all, most, first := 60, 8, uint64(0)
	if *attacks > 0 {
		all, most = *attacks, *attacks
	}
	if *oneAttack >= 0 {
		first, all, most = uint64(*oneAttack), 1, 1
	}
	base, dir := maps.Clone(attacked), t.TempDir()
	base["pic"] = fmt.Sprintf(base["pic"], written(t, "held.txt", "a red circle on white\n"))
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Path: path, Threads: 2})
	defer be.Close()
	counts := map[string]int{}
	for seed := first; seed < first+uint64(all); seed++ {
		a := attackOf(seed, base)
		fails := func(format string, args ...any) {
			t.Errorf("seed %d: %s: %s%s: %s", seed, a.kind, a.says, strings.Join(a.sets, " "), fmt.Sprintf(format, args...))
		}
		var e *experiment.Experiment
		var plan *experiment.Plan
		err := within(time.Minute, func() (err error) {
			if e, err = experiment.Parse(a.kind+".toml", []byte(a.text), a.sets); err != nil {
				if e != nil {
					_, more := Check(e, cpu.NewDry(cpu.Options{Path: path}))
					err = errors.Join(err, more)
				}
				return err
			}
			if _, err = Check(e, cpu.NewDry(cpu.Options{Path: path})); err == nil {
				plan, err = e.Plan()
			}
			return err
		})
		var p panicked
		switch {
		case errors.As(err, &p):
			fails("plan: %v", err)
			continue
		case err != nil:
			counts["refused by plan"]++
			continue
		case !affordable(e):
			counts["too large for a test"]++
			continue
		case counts["trained"] == most:
			counts["planned"]++
			continue
		}
		began := time.Now()
		out := filepath.Join(dir, fmt.Sprint(seed))
		err = within(2*time.Minute, func() error {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			r, err := run.Run(ctx, e, run.Options{Dir: out, Backend: be, Logf: func(string, ...any) {}, Report: func(*ledger.Line, *ledger.TimingLine) { stop() }})
			if err == nil && r.Status != ledger.Stopped {
				err = sound(out)
			}
			return err
		})
		if took := time.Since(began); took > 5*time.Second {
			t.Logf("seed %d: %s: %s%s: %.1f s", seed, a.kind, a.says, strings.Join(a.sets, " "), took.Seconds())
		}
		ends := func(reasons []string) bool {
			return slices.ContainsFunc(reasons, func(why string) bool { return strings.Contains(err.Error(), why) })
		}
		warned := func(of string) bool {
			return slices.ContainsFunc(plan.Warnings, func(w string) bool { return strings.Contains(w, of) })
		}
		switch {
		case err == nil:
			counts["trained"]++
		case !errors.As(err, &p) && ends(beyond) && warned("takes rewards from 0 to 1"):
			counts["ended as plan warned"]++
		case !errors.As(err, &p) && ends(late):
			counts["ended by what it computed"]++
			t.Logf("seed %d: %s: %s%s: %v", seed, a.kind, a.says, strings.Join(a.sets, " "), err)
		default:
			fails("planned, and train: %v", err)
		}
		os.RemoveAll(out)
	}
	t.Logf("%d changed experiments: %v", all, counts)
	if counts["trained"] == 0 && all > 1 || counts["refused by plan"] == 0 && all > 1 {
		t.Errorf("%v", counts)
	}
}

// panicked is a panic as an error, or a call that never came back.
type panicked struct{ says string }

func (p panicked) Error() string { return p.says }

// within is f's error, and one where it panics or takes longer.
func within(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if why := recover(); why != nil {
				done <- panicked{fmt.Sprintf("panic: %v\n%s", why, debug.Stack())}
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return panicked{fmt.Sprintf("hangs for %v", limit)}
	}
}

// sound looks through the weights that a run left for numbers that are infinite or none.
func sound(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "checkpoints", "*", "*.safetensors"))
	if err == nil && len(files) == 0 {
		err = errors.New("the run left no weights")
	}
	for _, file := range files {
		f, err := safetensors.Open(file)
		if err != nil {
			return err
		}
		for _, x := range f.Tensors {
			one, err := f.Tensor(x.Name)
			if err != nil {
				return errors.Join(err, f.Close())
			}
			if one.DType != safetensors.F32 && one.DType != safetensors.BF16 && one.DType != safetensors.F64 {
				continue
			}
			numbers, err := one.Float32(nil)
			if err == nil && slices.ContainsFunc(numbers, func(x float32) bool { return x-x != 0 }) {
				err = fmt.Errorf("%s: %s holds a number that is none or without end, and the run is called a success", file, x.Name)
			}
			if err != nil {
				return errors.Join(err, f.Close())
			}
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return err
}
