package ablate

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/internal/rigs/browsertest"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
)

func TestParseVary(t *testing.T) {
	for s, want := range map[string][]string{
		"a.b=1,2,4":                {"1", "2", "4"},
		" a.b = x , y":             {"x", "y"},
		`a.b=["p","q"],[r]`:        {`["p","q"]`, "[r]"},
		`a.b={k=1,l=[1,2]}`:        {"{k=1,l=[1,2]}"},
		`a.b="x,\",y",'z,'`:        {`"x,\",y"`, "'z,'"},
		"a.b=cuda:0,http://x/?q=1": {"cuda:0", "http://x/?q=1"},
	} {
		v, err := ParseVary(s)
		if err != nil || v.Key != "a.b" || !reflect.DeepEqual(v.Values, want) {
			t.Errorf("%s: %q, %v", s, v, err)
		}
	}
	for s, says := range map[string]string{
		"": "KEY=VALUE", "=1": "KEY=VALUE", "a.b": "KEY=VALUE", "a.b=": "a value is empty", "a.b=1,,2": "a value is empty", "a.b=1,1": "there twice",
		"a.b=[1,2": "not closed", "a.b=1]": "closes nothing", `a.b="x`: "not closed", "run.seed=1,2": "--seeds", "run.iterations=1,2": "--budget", "a.b=[1}": "closes nothing",
	} {
		if _, err := ParseVary(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestParseBudget(t *testing.T) {
	for s, want := range map[string]Budget{"": {}, "40": {Iterations: 40}, "90s": {Seconds: 90}, "1h30m": {Seconds: 5400}} {
		if got, err := ParseBudget(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"0", "-3", "-3s", "soon", "4x"} {
		if _, err := ParseBudget(s); err == nil {
			t.Errorf("%q is a budget", s)
		}
	}
}

func TestBootstrap(t *testing.T) {
	if got := Bootstrap([]float64{0.5}); got != (Interval{0.5, 0.5, 0.5, 1}) || got.String() != "0.500" {
		t.Errorf("one seed: %v", got)
	}
	if got := Bootstrap(nil); got.Seeds != 0 || got.String() != "-" {
		t.Errorf("none: %v", got)
	}
	x := make([]float64, 400)
	for i := range x {
		x[i] = float64(i%20) - 9.5
	}
	// The mean of 400 numbers of deviation 5.766 has the standard error 0.2883.
	got := Bootstrap(x)
	if math.Abs(got.Mean) > 1e-12 || math.Abs(got.High-1.96*0.2883) > 0.04 || math.Abs(got.Low+1.96*0.2883) > 0.04 {
		t.Errorf("%v", got)
	}
	if got != Bootstrap(x) {
		t.Error("two bootstraps of the same numbers differ")
	}
	if three := Bootstrap([]float64{0.1, 0.2, 0.6}); three.Low != 0.1 && math.Abs(three.Low-0.1) > 0.04 || three.High < 0.45 {
		t.Errorf("three seeds: %v", three)
	}
}

// here is a place that stays open.
type here struct{ kernels.Backend }

func (h here) Into(o run.Options) run.Options { o.Backend = h.Backend; return o }
func (h here) Close(error) error              { return nil }

var base = `
[run]
name = "small"
iterations = 2
seed = 5
[model]
path = "` + golden.Folder("models") + `/pipe_sd3" # tiny networks, which draw nothing
lora = { rank = 2, alpha = 4, targets = ["attn.to_q"] }
[sampler]
steps = 3
eval_steps = 2
guidance = 1
window = { kind = "random", size = 1, drop = 1 }
[rollout]
prompts = "../../trainer/run/testdata/prompts.txt" # few: every run encodes all
prompts_per_iteration = 1
group = 2
[[reward]]
name = "sharpness"
[[reward]]
name = "jpeg"
train = false
[loss]
clip_range = 1e-3
[optim]
lr = 1e-2
[evaluate]
every = 1
prompts = "PROMPTS"
`

func written(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.txt")
	if err := os.WriteFile(path, []byte("a red circle on white\ntwo blue squares on black\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return []byte(strings.Replace(base, "PROMPTS", path, 1))
}

func vary(t *testing.T, all ...string) (out []Vary) {
	t.Helper()
	for _, s := range all {
		v, err := ParseVary(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// TestPlan: every combination with every seed, and all mistakes before anything runs.
func TestPlan(t *testing.T) {
	text, dir := written(t), t.TempDir()
	g, err := Plan("small.toml", text, vary(t, "sampler.window.size=1,2", `model.lora.targets=["attn.to_q"],["attn.to_q","attn.to_v"]`, "optim.lr=1e-3,1e-2,1e-1"), Options{Dir: dir, Seeds: 2, Budget: Budget{Iterations: 7}})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Cells) != 12 || len(g.Cells[0].Trials) != 2 || g.Cells[1].Values[2] != "1e-2" {
		t.Fatalf("%d cells", len(g.Cells))
	}
	last := g.Cells[11]
	if e := last.Trials[1].experiment; e.Run.Seed != 6 || e.Run.Iterations != 7 || e.Sampler.Window.Size != 2 || len(e.Model.LoRA.Targets) != 2 || e.Optim.LR != 0.1 {
		t.Errorf("the last trial: %+v %+v", e.Run, e.Model.LoRA)
	}
	if last.Name != "size=2_targets=[attn.to_q_attn.to_v]_lr=1e-1" && !strings.HasPrefix(last.Name, "size=2_targets=_attn.to_q_attn.to_v__lr=1e-1") {
		t.Errorf("its folder is %s", last.Name)
	}
	for _, c := range []struct {
		vary []string
		says []string
	}{
		{[]string{"sampler.window.sizes=1,2"}, []string{"did you mean", "sampler.window.sizes"}},
		{[]string{"optim.lr=fast,1e-3", "loss.objective=clip,grpo"}, []string{"optim.lr", "several things"}},
		{[]string{"loss.objective=clip,reward-gradient"}, []string{"objective"}},
		{[]string{"evaluate.prompts=\"\""}, []string{"held-out"}},
		{[]string{"optim.lr=1", "optim.lr=2"}, []string{"there twice"}},
		{nil, []string{"nothing varies"}},
	} {
		_, err := Plan("small.toml", text, vary(t, c.vary...), Options{Dir: dir, Seeds: 2})
		for _, says := range c.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v: %v", c.vary, err)
			}
		}
	}
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Errorf("planning left %v", files)
	}
}

// TestRun: a grid that was stopped goes on where it was, runs nothing twice, and has numbers for
// everything at the end.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a tiny model: seconds, and minutes without assembly; left out by -short")
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Path: path, Threads: 2})
	defer be.Close()
	text, dir := written(t), t.TempDir()
	again := func(stop int, values string, o Options) (*Grid, int, error) {
		g, err := Plan("small.toml", text, vary(t, "sampler.window.size="+values), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		err = g.Run(ctx, Runner{Open: func(*experiment.Experiment, string) (Place, error) { return here{be}, nil }, Logf: t.Logf, Report: func(*Cell, *Trial, int, int, *ledger.Line, *ledger.TimingLine) {
			if n++; n == stop {
				cancel()
			}
		}})
		return g, n, err
	}
	o := Options{Dir: dir, Seeds: 2}
	g, _, err := again(3, "1,2", o)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped: %v", err)
	}
	half, err := g.Table()
	if err != nil || len(half.Rows[0].Missing) != 1 || len(half.Rows[1].Missing) != 2 || half.Rows[0].HeldOut.Gain.Seeds != 1 {
		t.Fatalf("of half a grid: %+v, %v", half, err)
	}
	g, n, err := again(-1, "1,2", o)
	if err != nil || n != 5 {
		t.Fatalf("%d iterations of the five that were left, %v", n, err)
	}
	table, err := g.Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Rows {
		gain, seconds := r.HeldOut.Gain, r.Seconds
		if len(r.Missing) > 0 || gain.Seeds != 2 || gain.Low > gain.Mean || gain.High < gain.Mean || r.HeldOut.Before.Mean == 0 || len(r.Curves["total"]) != 2 || len(r.Curves["total"][1]) != 3 {
			t.Errorf("%s: %+v", r.Name, r.HeldOut)
		}
		sum := seconds["roll"] + seconds["score"] + seconds["train"] // the rest is files, whose time is the disk's
		if min(seconds["roll"], seconds["score"], seconds["train"]) <= 0 || sum > seconds["all"] {
			t.Errorf("%s: seconds %v", r.Name, seconds)
		}
		if len(r.Gold) != 1 || r.Gold[0] != "jpeg" {
			t.Errorf("%s: gold %v", r.Name, r.Gold)
		}
	}
	if md := table.Markdown(); strings.Count(md, "\n") != 4 || !strings.Contains(md, "| sampler.window.size | held out before |") {
		t.Errorf("the table is\n%s", md)
	}
	if err := table.WritePage(dir); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, PageName))
	if err != nil || strings.Count(string(page), "<svg") != 6 || strings.Contains(string(page), "NaN") || strings.Contains(string(page), "<script") {
		t.Errorf("%d plots, %v", strings.Count(string(page), "<svg"), err)
	}
	t.Run("browser", func(t *testing.T) { browsertest.Draws(t, filepath.Join(dir, PageName), 6) })
	// A grid grows; a time is a budget; a cell run with other settings is refused.
	if _, n, err := again(-1, "1,2", Options{Dir: dir, Seeds: 3}); err != nil || n != 4 {
		t.Errorf("one more seed: %d iterations, %v", n, err)
	}
	g, n, err = again(-1, "1", Options{Dir: filepath.Join(dir, "time"), Seeds: 1, Budget: Budget{Seconds: 1e-3}, Sets: []string{"run.iterations=50"}})
	if err != nil || n != 1 {
		t.Errorf("a millisecond is %d iterations, %v", n, err)
	}
	if row, err := g.Table(); err != nil || len(row.Rows[0].Missing) > 0 || len(row.Rows[0].Curves["total"][0]) != 2 {
		t.Errorf("a run whose time was up: %+v, %v", row, err)
	}
	if _, n, err := again(-1, "1", Options{Dir: filepath.Join(dir, "time"), Seeds: 1, Budget: Budget{Seconds: 1e-3}, Sets: []string{"run.iterations=50"}}); err != nil || n != 0 {
		t.Errorf("once more: %d iterations, %v", n, err)
	}
	if _, err := Plan("small.toml", text, vary(t, "sampler.window.size=1"), Options{Dir: dir, Seeds: 1, Sets: []string{"optim.lr=1e-4"}}); !errors.Is(err, run.ErrChanged) && (err == nil || !strings.Contains(err.Error(), "optim.lr was")) {
		t.Errorf("other settings in the same folder: %v", err)
	}
	if _, err := Plan("small.toml", text, vary(t, "sampler.window.size=1"), Options{Dir: dir, Seeds: 1, Budget: Budget{Iterations: 1}}); err == nil || !strings.Contains(err.Error(), "has 2 iterations already") {
		t.Errorf("a smaller budget in the same folder: %v", err)
	}
}

// TestBest: a cell is marked where its gain lies above every other's and above 0, with its interval.
func TestBest(t *testing.T) {
	cell := func(name string, low, mean, high float64, seeds int) Row {
		return Row{Cell: Cell{Name: name}, HeldOut: Gain{Gain: Interval{mean, low, high, seeds}}}
	}
	for _, c := range []struct {
		what string
		rows []Row
		best int
	}{
		{"one above the other", []Row{cell("a", 0.1, 0.2, 0.3, 3), cell("b", 0.4, 0.5, 0.6, 3)}, 1},
		{"intervals that overlap", []Row{cell("a", 0.1, 0.2, 0.45, 3), cell("b", 0.4, 0.5, 0.6, 3)}, -1},
		{"no gain", []Row{cell("a", -0.2, -0.1, -0.05, 3), cell("b", 0, 0, 0.001, 3)}, -1},
		{"one seed", []Row{cell("a", 0.1, 0.1, 0.1, 1), cell("b", 0.5, 0.5, 0.5, 1)}, -1},
		{"one that is not finished", []Row{cell("a", 0, 0, 0, 0), cell("b", 0.4, 0.5, 0.6, 3)}, 1},
	} {
		table := &Table{Rows: c.rows}
		if got := table.best(); got != c.best {
			t.Errorf("%s: %d is marked, not %d", c.what, got, c.best)
		}
		page, err := table.Page()
		if told := !strings.Contains(string(page), "no difference can be told"); err != nil || told != (c.best >= 0) || strings.Count(string(page), `class="best"`) != min(1, c.best+1) {
			t.Errorf("%s: the page tells a difference: %v, %v", c.what, told, err)
		}
	}
}
