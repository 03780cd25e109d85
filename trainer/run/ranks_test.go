package run

import (
	"bytes"
	"context"
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// trainOn is train on this number of backends; resumed, with other numbers of threads.
func trainOn(t *testing.T, e *experiment.Experiment, dir string, resume bool, ranks, stop int) (*ledger.Result, error) {
	t.Helper()
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: dir, Resume: resume, Logf: t.Logf}
	for r := range ranks {
		threads := 1 + r%2
		if resume {
			threads = 3 - threads
		}
		be := cpu.NewWith(cpu.Options{Path: path, Threads: threads})
		defer be.Close()
		if r == 0 {
			o.Backend = be
		} else {
			o.Further = append(o.Further, be)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Report = func(l *ledger.Line, _ *ledger.TimingLine) {
		if l.Iteration == stop {
			cancel()
		}
	}
	return Run(ctx, e, o)
}

// TestRanks: two ranks leave the same bytes where they were stopped and went on; until weights move for
// the first time they are one rank, to the last bit, and then near it.
func TestRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	// Three samples of one prompt, which begin alike: shares are unequal, and the first step of one
	// question leaves a rank without a gradient.
	sets := []string{"run.iterations=2", "rollout.prompts_per_iteration=1", "run.device=cpu,cpu"}
	dir := t.TempDir()
	one, two, parts := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "parts")
	for _, run := range []struct {
		dir         string
		resume      bool
		ranks, stop int
	}{{one, false, 1, 1}, {two, false, 2, -1}, {parts, false, 2, 1}, {parts, true, 2, -1}} {
		if r, err := trainOn(t, parse(t, sets...), run.dir, run.resume, run.ranks, run.stop); err != nil || (r.Status == ledger.Finished) != (run.stop < 0) {
			t.Fatalf("%d ranks: %v, %v", run.ranks, r, err)
		}
	}
	want, alone := contents(t, two), contents(t, one)
	same(t, "stopped and resumed", want, contents(t, parts))
	t.Run("a rank fails", func(t *testing.T) { rankFails(t, sets, want) })
	first := func(all map[string][]byte) [][]byte {
		var lines [][]byte
		for line := range bytes.Lines(all["samples.jsonl"]) {
			if bytes.Contains(line, []byte(`"iteration":1,`)) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	a, b := first(alone), first(want)
	if len(a) != 3 || !bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) {
		t.Errorf("%d samples of the first iteration, and %d of one rank: they differ", len(b), len(a))
	}
	for name := range alone {
		if strings.HasPrefix(name, "images/") && strings.Contains(name, "000001") && !bytes.Equal(alone[name], want[name]) {
			t.Errorf("%s differs from one rank's", name)
		}
	}
	la, lb := readLedger(t, one), readLedger(t, two)
	if u, v := la[0].Updates[0], lb[0].Updates[0]; u.Loss != v.Loss || v.RatioMost != 1 || math.Abs(u.Gradient-v.Gradient) > 1e-5*u.Gradient || u.Gradient == 0 {
		t.Errorf("the first update is %+v on two ranks, and %+v on one", v, u)
	}
	if p, q := *la[0].Passes, *lb[0].Passes; p.Train != q.Train || p.Backward != q.Backward || q.Rollout != p.Rollout+1 {
		t.Errorf("passes of the network: %+v on two ranks, and %+v on one; what the group has in common is rolled on both", q, p)
	}
	_, err := trainOn(t, parse(t, append(sets, "run.device=cpu")...), two, true, 1, -1)
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "depends on how many there are") {
		t.Errorf("resumed on one device: %v", err)
	}
}

// breaking is a rank that fails in an operation, once it is armed.
type breaking struct {
	kernels.Backend
	at    string
	armed atomic.Bool
	does  func()
}

func (b *breaking) step(op string) {
	if op == b.at && b.armed.Load() {
		b.does()
	}
}

func (b *breaking) Upload(dst kernels.Span, src []byte) { b.step("Upload"); b.Backend.Upload(dst, src) }
func (b *breaking) Download(dst []byte, src kernels.Span) {
	b.step("Download")
	b.Backend.Download(dst, src)
}
func (b *breaking) NormBackward(a *kernels.NormBackward) {
	b.step("NormBackward")
	b.Backend.NormBackward(a)
}
func (b *breaking) AdamW(a *kernels.AdamW) { b.step("AdamW"); b.Backend.AdamW(a) }
func (b *breaking) Conv(a *kernels.Conv)   { b.step("Conv"); b.Backend.Conv(a) }

// noMemory is a device's panic.
type noMemory struct{}

func (noMemory) Error() string    { return "no memory left" }
func (noMemory) OnDevice() string { return "cuda:7" }

// arming is a wire that arms a rank when gathering begins.
type arming struct {
	exchange.Wire
	rank *breaking
}

func (a *arming) Gather(from, into []kernels.Span) error {
	a.rank.armed.Store(true)
	return a.Wire.Gather(from, into)
}

// rankFails: wherever a rank fails, the run ends soon with its name, and goes on afterwards as if nothing had been.
// One folder sees every failure, and holds at the end the files of a run without any.
func rankFails(t *testing.T, sets []string, whole map[string][]byte) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	armed := func(bad *breaking, _ *Options) { bad.armed.Store(true) }
	gone := func() { panic(noMemory{}) }
	forever := make(chan struct{})
	defer close(forever)
	for _, x := range []struct {
		name, at, says, hint string
		arm                  func(bad *breaking, o *Options)
		does                 func()
	}{
		{"opening the model", "Upload", "no memory left", "", armed, gone},
		{"the first roll", "Conv", "no memory left", "nothing was saved yet", armed, gone},
		{"backward, by a mistake", "NormBackward", "a mistake in the program: index out of range", "iteration 0 is saved", armed, func() { panic("index out of range") }},
		{"a gathering", "Download", "no memory left", "iteration 0 is saved", func(bad *breaking, o *Options) { o.Wire = &arming{o.Wire, bad} }, gone},
		{"a gathering that it never comes to", "Download", "gathering: it has not come within 1s", "iteration 0 is saved", func(bad *breaking, o *Options) { o.Wire = &arming{o.Wire, bad} }, func() { <-forever }},
		{"saving", "Download", "no memory left", "iteration 0 is saved", func(bad *breaking, o *Options) {
			o.Report = func(*ledger.Line, *ledger.TimingLine) { bad.armed.Store(true) }
		}, gone},
	} {
		good := cpu.NewWith(cpu.Options{Path: path, Threads: 1})
		bad := &breaking{Backend: cpu.NewWith(cpu.Options{Path: path, Threads: 1}), at: x.at, does: x.does}
		o := Options{Dir: broken, Resume: begun(broken), Logf: t.Logf, Backend: good, Further: []kernels.Backend{bad}, Wire: &exchange.Host{Ranks: []kernels.Backend{good, bad}}}
		e := parse(t, sets...)
		if strings.Contains(x.name, "never") {
			e.Run.RankLimit = 1
			o.Wire = &exchange.Host{Ranks: []kernels.Backend{good, bad}, Limit: e.Run.Patience()}
		}
		x.arm(bad, &o)
		ended := make(chan error, 1)
		go func() {
			_, err := Run(context.Background(), e, o)
			ended <- err
		}()
		select {
		case err = <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: it hangs", x.name)
		}
		f := new(exchange.Failure)
		if !errors.As(err, &f) || f.Rank != 1 || !strings.Contains(err.Error(), "rank 1 (cpu/") || !strings.Contains(err.Error(), x.says) || !strings.Contains(err.Error(), x.hint) {
			t.Errorf("%s: %v", x.name, err)
		}
		if !exchange.LeftBehind(err) {
			good.Close()
			bad.Backend.(*cpu.Backend).Close()
		}
	}
	if _, err := trainOn(t, parse(t, sets...), broken, true, 2, -1); err != nil {
		t.Fatal(err)
	}
	same(t, "after every failure", whole, contents(t, broken))
}

// TestShards: a gradient in four shards has the same bytes on one, two, three and four devices, and where a run goes on
// with another number of them: pictures with an adapter and in full, several updates, and episodes.
func TestShards(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded models: seconds, and minutes without assembly; left out by -short")
	}
	for name, e := range map[string]func(t *testing.T, device string) *experiment.Experiment{
		"lora": func(t *testing.T, device string) *experiment.Experiment {
			return parse(t, "run.iterations=2", "run.shards=4", device, "optim.updates=2")
		},
		"full": func(t *testing.T, device string) *experiment.Experiment {
			return parse(t, "run.iterations=2", "run.shards=4", device, "model.train=full", "rollout.prompts_per_iteration=1")
		},
		"nft": func(t *testing.T, device string) *experiment.Experiment {
			return parse(t, "run.iterations=2", "run.shards=6", device, "loss.objective=nft", "loss.times=2") // of three ranks each has two
		},
		"reward gradient": func(t *testing.T, device string) *experiment.Experiment {
			return parse(t, "run.iterations=2", "run.shards=4", device, "loss.objective=reward-gradient", `reward=[{name="clip", path="embed:tiny-clip"}]`,
				`loss.gradient={through="draft", steps=2}`, "rollout.group=2", "optim.updates=1")
		},
		"episodes": func(t *testing.T, device string) *experiment.Experiment {
			return homed()["tiny-vlm"](t, "run.shards=4", device)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var want map[string][]byte
			for _, ranks := range []int{1, 2, 3, 4} {
				to := filepath.Join(dir, strconv.Itoa(ranks))
				device := "run.device=cpu" + strings.Repeat(",cpu", ranks-1)
				if ranks == 3 { // begun on one
					if _, err := trainOn(t, e(t, "run.device=cpu"), to, false, 1, 1); err != nil {
						t.Fatal(err)
					}
				}
				if r, err := trainOn(t, e(t, device), to, ranks == 3, ranks, -1); err != nil || r.Status != ledger.Finished {
					t.Fatalf("%d ranks: %v, %v", ranks, r, err)
				}
				if ranks == 1 {
					want = contents(t, to)
					continue
				}
				same(t, device, want, contents(t, to))
			}
		})
	}
	if _, err := experiment.Parse("two.toml", []byte("run = { name = \"a\", iterations = 1, shards = 2, device = \"cpu,cpu,cpu\" }\n"), nil); err == nil || !strings.Contains(err.Error(), "3 devices share 2 shards") {
		t.Errorf("three devices, two shards: %v", err)
	}
}

// TestShardsWithWorkers: a trainer of several devices whose samples and gradients workers make leaves the bytes of one
// device alone: of pictures, and of episodes, whose texts come from other processes. All devices do the jobs of
// gradients that the trainer does, in uneven parts of eight shards on three devices, and all jobs are compared.
func TestShardsWithWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded models: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	for name, shards := range map[string]int{"tiny-sd3": 32, "tiny-vlm": 8} {
		e := func(device string) *experiment.Experiment {
			return homed()[name](t, "run.shards="+strconv.Itoa(shards), "run.device="+device)
		}
		alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
		if _, err := trainAs(t, e("cpu"), Options{Dir: alone}); err != nil {
			t.Fatal(err)
		}
		path, err := isa.Choose()
		if err != nil {
			t.Fatal(err)
		}
		second, third := cpu.NewWith(cpu.Options{Path: path, Threads: 1}), cpu.NewWith(cpu.Options{Path: path, Threads: 1})
		c := newCrew(t)
		c.join("w", nil)
		c.parts = fleet.NewInside()
		c.joins(c.parts, "g", nil, nil)
		_, f := c.train(e("cpu,cpu,cpu"), Options{Dir: helped, Further: []kernels.Backend{second, third}}, fleet.Options{Audit: 1})
		c.close()
		second.Close()
		third.Close()
		if by := workOf(t, helped); by["w"] == 0 || f.Counts().Differed > 0 || c.gradients.Counts().Jobs == 0 || len(c.gradients.Refused()) > 0 {
			t.Errorf("%s: %v, %+v", name, by, f.Counts())
		}
		same(t, name, contents(t, alone), contents(t, helped))
	}
}
