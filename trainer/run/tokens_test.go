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
	"time"

	"github.com/darkroom-rl/darkroom/internal/golden"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/video/dit"
)

// fourHeads is a folder of Wan 2.1 whose transformer has four heads, and random weights.
func fourHeads(t *testing.T) string {
	t.Helper()
	dir := wanFolder(t, "t2v")
	file := filepath.Join(dir, "transformer", "config.json")
	edited(t, file, func(c map[string]any) { c["num_attention_heads"] = 4 })
	c, err := dit.ReadConfig(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	p, err := nn.New(nn.Options{Pool: tensor.NewPool(ref.Backend{}), Key: rng.New(6), Train: []string{".*"}})
	if err != nil {
		t.Fatal(err)
	}
	dit.New(p, c)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	stored, err := p.Stored()
	if err == nil {
		err = safetensors.Write(filepath.Join(dir, "transformer", "diffusion_pytorch_model.safetensors"), stored, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// edited changes a file of settings.
func edited(t *testing.T, file string, change func(settings map[string]any)) {
	t.Helper()
	settings := map[string]any{}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil {
		t.Fatal(err)
	}
	change(settings)
	if text, err = json.Marshal(settings); err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTokens: four shares of a clip's tokens leave the same bytes on one device, on two, and on four where two began.
// Samples and loss are those of a device that has all tokens, to the last bit, and the gradient is near it. A rank that
// fails is named.
func TestTokens(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a model of clips: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	sets := []string{"model.path=" + fourHeads(t), "evaluate.prompts=''", "rollout.prompts_per_iteration=1"}
	for name, more := range map[string][]string{"adapter": nil, "full": {"run.iterations=1", `model.train=["blocks.*attn.*", "condition_embedder.time_proj.*", ".*scale_shift_table"]`, "loss.noise_floor=off"}} {
		t.Run(name, func(t *testing.T) {
			sets := append(sets, more...)
			shared := append(sets, "run.tokens=4")
			e := parseText(t, clips, shared...)
			dir := t.TempDir()
			run := func(name string, sets []string, resume bool, devices, stop int) map[string][]byte {
				t.Helper()
				at := filepath.Join(dir, name)
				if r, err := trainOn(t, parseText(t, clips, sets...), at, resume, devices, stop); err != nil || (r.Status == ledger.Finished) != (stop < 0) {
					t.Fatalf("%s on %d devices: %+v, %v", name, devices, r, err)
				}
				return contents(t, at)
			}
			want := run("one", shared, false, 1, -1)
			if e.Run.Iterations > 1 {
				run("parts", shared, false, 2, 1)
				same(t, "begun on two devices, and ended on four", want, run("parts", shared, true, 4, -1))
			} else {
				same(t, "four devices", want, run("four", shared, false, 4, -1))
				same(t, "states at owners", want, run("owners", append(shared, "run.states=ranks"), false, 2, -1))
			}
			alone := run("alone", append(sets, "run.iterations=1"), false, 1, -1)
			if a, b := ofFirst(alone), ofFirst(want); len(a) == 0 || !bytes.Equal(a, b) {
				t.Errorf("samples of the first iteration differ from those of a device that has all tokens:\n%s\n%s", a, b)
			}
			for name := range alone {
				if strings.HasPrefix(name, "images/") && strings.Contains(name, "000001") && !bytes.Equal(alone[name], want[name]) {
					t.Errorf("%s differs from that of a device that has all tokens", name)
				}
			}
			la, lb := firstLine(t, filepath.Join(dir, "alone")), firstLine(t, filepath.Join(dir, "one"))
			u, v := la.Updates[0], lb.Updates[0]
			if d := u.Gradient - v.Gradient; u.Loss != v.Loss || v.RatioMost != 1 || lb.Check.Ratio != 1 || u.Gradient == 0 || d > 1e-2*u.Gradient || d < -1e-2*u.Gradient {
				t.Errorf("the first update is %+v with shared tokens, and %+v without", v, u)
			}
			if la.Check.Floor != nil && *la.Check.Floor != *lb.Check.Floor {
				t.Errorf("the noise floor is %v with shared tokens, and %v without", *lb.Check.Floor, *la.Check.Floor)
			}
			if name == "adapter" {
				tokensFail(t, shared)
			}
		})
	}
}

// TestTokensOfPictures: shares of the tokens of pictures and of their texts, which attend to each other, leave the same
// bytes on one device and on all, and the first iteration's samples are those of a device that has all tokens.
func TestTokensOfPictures(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir, folder := t.TempDir(), filepath.Join(t.TempDir(), "model")
	two, err := madeTiny()
	if err == nil {
		err = os.CopyFS(folder, os.DirFS(two))
	}
	if err != nil {
		t.Fatal(err)
	}
	edited(t, filepath.Join(folder, "transformer", "config.json"), func(c map[string]any) {
		c["num_attention_heads"], c["attention_head_dim"] = 2*c["num_attention_heads"].(float64), c["attention_head_dim"].(float64)/2
	})
	run := func(name string, devices int, sets ...string) map[string][]byte {
		t.Helper()
		at := filepath.Join(dir, name)
		if r, err := trainOn(t, parse(t, append([]string{"run.iterations=2", "model.path=" + folder}, sets...)...), at, false, devices, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%s on %d devices: %+v, %v", name, devices, r, err)
		}
		return contents(t, at)
	}
	alone := run("alone", 1)
	u := firstLine(t, filepath.Join(dir, "alone")).Updates[0]
	for _, shares := range []int{2, 4} {
		set := fmt.Sprint("run.tokens=", shares)
		want := run(fmt.Sprint(shares, " on one"), 1, set)
		same(t, fmt.Sprintf("%d shares on as many devices", shares), want, run(fmt.Sprint(shares, " on all"), shares, set))
		if a, b := ofFirst(alone), ofFirst(want); len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("samples of the first iteration differ from those of a device that has all tokens:\n%s\n%s", a, b)
		}
		l := firstLine(t, filepath.Join(dir, fmt.Sprint(shares, " on one")))
		v := l.Updates[0]
		if d := u.Gradient - v.Gradient; u.Loss != v.Loss || v.RatioMost != 1 || l.Check.Ratio != 1 || u.Gradient == 0 || d > 1e-2*u.Gradient || d < -1e-2*u.Gradient {
			t.Errorf("the first update is %+v with %d shares of tokens, and %+v without", v, shares, u)
		}
	}
}

// ofFirst are the lines of a run's samples that are of its first iteration.
func ofFirst(all map[string][]byte) (lines []byte) {
	for line := range bytes.Lines(all["samples.jsonl"]) {
		if bytes.Contains(line, []byte(`"iteration":1,`)) {
			lines = append(lines, line...)
		}
	}
	return lines
}

// tokensFail: a rank that fails in the midst of a pass ends the run with its name, and no other waits for it.
func tokensFail(t *testing.T, sets []string) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	good := cpu.NewWith(cpu.Options{Path: path, Threads: 1})
	defer good.Close()
	bad := &breaking{Backend: cpu.NewWith(cpu.Options{Path: path, Threads: 1}), at: "NormBackward", does: func() { panic(noMemory{}) }}
	bad.armed.Store(true)
	e := parseText(t, clips, append(sets, "run.tokens=2")...)
	ended := make(chan error, 1)
	go func() {
		_, err := Run(context.Background(), e, Options{Dir: filepath.Join(t.TempDir(), "broken"), Logf: t.Logf, Backend: good, Further: []kernels.Backend{bad}})
		ended <- err
	}()
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it hangs")
	}
	f := new(exchange.Failure)
	if !errors.As(err, &f) || f.Rank != 1 || !strings.Contains(err.Error(), "no memory left") {
		t.Errorf("a rank that fails: %v", err)
	}
}

// TestTokensMemory: a rank that shares tokens takes less memory in training, and the predicted traffic is that of the
// exchanges: four of the clip's tokens a layer forward, again where blocks run again, and four backward.
func TestTokensMemory(t *testing.T) {
	need := func(sets ...string) *model.Memory {
		t.Helper()
		e := parseText(t, clips, append([]string{"model.path=" + fourHeads(t), "sampler.width=128", "sampler.height=128", "evaluate.prompts=''", "sampler.guidance=1"}, sets...)...)
		n, err := Memory(e, cpu.NewDry(cpu.Options{}), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	alone, shared := need(), need("run.tokens=4")
	if alone.Sent != 0 || shared.Training > alone.Training*2/3 {
		t.Errorf("training takes %d bytes with a share of four, and %d with all tokens", shared.Training, alone.Training)
	}
	for what, work := range map[string][2]float64{"a pass": {alone.Work.Pass, shared.Work.Pass}, "a pass with its gradients": {alone.Work.Train, shared.Work.Train}} {
		if work[0] == 0 || work[1] < 0.99*work[0] || work[1] > 1.5*work[0] { // each rank projects the whole text
			t.Errorf("%s has %.3g operations, and %.3g of four ranks together", what, work[0], work[1])
		}
	}
	tokens, width := int64(2*8*8), int64(4*8) // 2 frames of latents of 16 x 16, in patches of 2 x 2
	share, layers := tokens/4, int64(2)
	want := 3 * (layers*2*4*share*width/4*2 + share*2*2*16*4) // activations are bf16, the output is fp32
	if d := shared.Sent - want; shared.Sent < want/2 || d > want {
		t.Errorf("a rank sends %d bytes of a clip, and about %d were expected", shared.Sent, want)
	}
}

// TestTokensRefused: settings with which ranks cannot share tokens are refused by name.
func TestTokensRefused(t *testing.T) {
	for says, sets := range map[string][]string{
		"3 devices, and tokens have 2 shares":                {"run.tokens=2", "run.device=cpu,cpu,cpu"},
		"either by shares of tokens or by shards of samples": {"run.tokens=2", "run.shards=2"},
		"4 ranks cannot share 2 heads":                       {"run.tokens=4", "model.path=" + wanFolder(t, "t2v")},
		"a time for every frame":                             {"run.tokens=2", "model.path=" + wanFolder(t, "ti2v")},
		"cannot share the tokens of a StableDiffusion":       {"run.tokens=2", "model.path=" + golden.Folder("models") + "/pipe_sd15"},
	} {
		e, err := experiment.Parse("tokens.toml", []byte(clips), append([]string{"run.iterations=1", "evaluate.prompts=''"}, sets...))
		if err == nil {
			_, err = trainOn(t, e, t.TempDir(), false, 1, -1)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v; want %q in it", sets, err, says)
		}
	}
}
