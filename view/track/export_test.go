package track

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"image"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// config is the smallest that is an experiment.
const config = "[run]\nname = \"small\"\niterations = 3\n[model]\npath = \"embed:tiny-sd3\"\n[rollout]\nprompts = \"embed:scenes\"\n[[reward]]\nname = \"scene\"\n[[reward]]\nname = \"jpeg\"\ntrain = false\n"

// fake is a run's folder that is written as a run writes it.
type fake struct {
	t   *testing.T
	dir string
}

func newFake(t *testing.T) fake {
	t.Helper()
	f := fake{t, t.TempDir()}
	f.write("config.toml", config)
	f.write("result.json", `{"status":"under way","heldout":{"scene":{"before":{"mean":0.5,"low":0.4,"high":0.6,"prompts":2}}}}`)
	var out bytes.Buffer
	if err := png.Encode(&out, image.NewGray(image.Rect(0, 0, 4, 3))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.dir, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"heldout_before", "heldout_000002", "000001_best"} {
		f.write("images/"+name+".png", out.String())
	}
	return f
}

func (f fake) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, filepath.FromSlash(name)), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f fake) add(name, format string, args ...any) {
	f.t.Helper()
	file, err := os.OpenFile(filepath.Join(f.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(file, format, args...)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		f.t.Fatal(err)
	}
}

// ledgerLine is that of an iteration.
func ledgerLine(i, attempt int) string {
	held := ""
	if i == 2 {
		held = `,"heldout":{"scene":{"mean":0.75,"low":0.5,"high":1,"prompts":2}},"monitors":["it fell"]`
	}
	return fmt.Sprintf(`{"iteration":%d,"attempt":%d,"prompts":[1],"samples":2,"total":{"mean":0.%d,"std":0.25,"min":0,"max":1},`+
		`"rewards":{"scene":{"mean":0.%d,"std":0.25,"min":0,"max":1},"jpeg":{"mean":null,"std":null,"min":null,"max":null,"missing":2}},"dead_groups":1,"updates":[{"loss":-0.5,"gradient":2,"lr":0.1,"metrics":{"kl":0.125}}]%s}`, i, attempt, i, i, held) + "\n"
}

// iterate writes an iteration, its time last.
func (f fake) iterate(i, attempt int) {
	f.t.Helper()
	for s := range 2 {
		f.add("samples.jsonl", `{"iteration":%d,"attempt":%d,"prompt":1,"sample":%d,"text":"<script>cup</script>","total":0.%d,"picture":"images/%06d_best.png"}`+"\n", i, attempt, s, s+i, i)
	}
	f.add("ledger.jsonl", "%s", ledgerLine(i, attempt))
	f.add("timing.jsonl", `{"iteration":%d,"attempt":%d,"at":%d,"seconds":{"all":2,"roll":1}}`+"\n", i, attempt, 1700000000+10*i+100*attempt)
}

// export exports the current entries, and returns the files and the number of new entries.
func (f fake) export(as, out, names string) (map[string]string, int) {
	f.t.Helper()
	x, err := Open(Options{Run: f.dir, As: as, Out: out, Names: names})
	if err != nil {
		f.t.Fatal(err)
	}
	n, err := x.Export()
	if err != nil {
		f.t.Fatal(err)
	}
	all := contents(f.t, out)
	if as == "trackio" {
		all = joined(all)
	}
	return all, n
}

// TestExport: an export that is repeated, one that came line by line, and one that was made at once have the
// same bytes, whatever happened between: a torn line, a run that was cut back and went on, a rollback.
func TestExport(t *testing.T) {
	for _, as := range files() {
		f, often := newFake(t), t.TempDir()
		if _, n := f.export(as, often, ""); n != 0 {
			t.Errorf("%s: %d entries before it is known when the run began", as, n)
		}
		f.iterate(1, 0)
		f.export(as, often, "")
		whole := ledgerLine(2, 0)
		f.add("ledger.jsonl", "%s", whole[:30])
		if _, n := f.export(as, often, ""); n > 0 && as != "csv" && as != "parquet" {
			t.Errorf("%s: %d entries of a torn line", as, n)
		}
		if err := os.Truncate(filepath.Join(f.dir, "ledger.jsonl"), int64(len(ledgerLine(1, 0)))); err != nil {
			t.Fatal(err)
		}
		f.iterate(2, 0)
		f.export(as, often, "")
		f.add("ledger.jsonl", `{"iteration":1,"rollback":{"from":2,"to":1,"attempt":1,"lr_scale":0.5,"why":"it fell"}}`+"\n")
		f.add("samples.jsonl", `{"iteration":1,"rollback":{"from":2,"to":1,"attempt":1,"lr_scale":0.5,"why":"it fell"}}`+"\n")
		f.iterate(2, 1)
		f.iterate(3, 1)
		f.write("result.json", strings.Replace(string(must(os.ReadFile(filepath.Join(f.dir, "result.json")))), "under way", "finished", 1))
		a, _ := f.export(as, often, "")
		b, n := f.export(as, t.TempDir(), "")
		if n != 6 {
			t.Errorf("%s: %d entries", as, n)
		}
		again, _ := f.export(as, often, "")
		for name := range b {
			if a[name] != b[name] || again[name] != b[name] {
				t.Errorf("%s: %s is another where it came in parts, or twice", as, name)
			}
		}
		if len(a) != len(b) {
			t.Errorf("%s: %q and %q", as, slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestTableOfRun: each number is in its place, a missing one is empty, and abandoned iterations are gone.
func TestTableOfRun(t *testing.T) {
	f := newFake(t)
	f.iterate(1, 0)
	f.iterate(2, 0)
	f.add("ledger.jsonl", `{"iteration":1,"rollback":{"from":2,"to":1,"attempt":1,"lr_scale":0.5,"why":"it fell"}}`+"\n")
	f.iterate(2, 1)
	all, _ := f.export("csv", t.TempDir(), "")
	lines, err := csv.NewReader(strings.NewReader(all["metrics.csv"])).ReadAll()
	if err != nil || len(lines) != 4 {
		t.Fatalf("%q, %v", lines, err)
	}
	for _, c := range []struct {
		row        int
		name, want string
	}{{1, "heldout/scene", "0.5"}, {1, "reward/total", ""}, {2, "iteration", "1"}, {2, "reward/scene", "0.1"}, {2, "gold/jpeg", ""}, {2, "missing/jpeg", "1"}, {2, "update/kl", "0.125"},
		{2, "perf/roll", "1"}, {2, "group/dead_share", "1"}, {3, "iteration", "2"}, {3, "heldout/scene_high", "1"}, {3, "time", "1700000120"}, {1, "time", "1700000008"}} {
		k := slices.Index(lines[0], c.name)
		if got := ""; k >= 0 {
			if got = lines[c.row][k]; got != c.want {
				t.Errorf("row %d, %s: %q, not %q", c.row, c.name, got, c.want)
			}
		} else if c.want != "" {
			t.Errorf("no column %s of %q", c.name, lines[0])
		}
	}
}

// TestLayouts: every layout that an experiment's file may name can be written.
func TestLayouts(t *testing.T) {
	if !slices.Equal(experiment.Tracked(), Layouts()) {
		t.Errorf("%q and %q", experiment.Tracked(), Layouts())
	}
}

// TestNames: numbers have the names that other projects give them, and keep their own where they have none.
func TestNames(t *testing.T) {
	for names, want := range map[string]map[string]string{
		"verl": {"reward/total": "critic/score/mean", "reward/total_max": "critic/score/max", "heldout/scene": "val-aux/heldout/scene/mean@1", "heldout/total": "val-core/heldout/reward/mean@1",
			"heldout/scene_low": "heldout/scene_low", "update/loss": "actor/pg_loss", "picture/entropy": "picture/entropy"},
		"trl": {"reward/total": "train/reward", "reward/scene": "train/rewards/scene/mean", "reward/scene_std": "train/rewards/scene/std", "reward/total_std": "reward/total_std",
			"reward/scene_min": "reward/scene_min", "group/spread": "train/reward_std", "heldout/total": "eval/reward"},
		"darkroom": {"reward/total": "reward/total"},
	} {
		for name, as := range want {
			if got := aliasesOf(names).of(name); got != as {
				t.Errorf("%s: %s is %s, not %s", names, name, got, as)
			}
		}
	}
	f := newFake(t)
	f.iterate(1, 0)
	if all, _ := f.export("csv", t.TempDir(), "trl"); !strings.Contains(all["metrics.csv"], "train/rewards/scene/mean") {
		t.Errorf("%q", all)
	}
}

// TestOther: the export of another run, or of a ledger that was changed since, is not gone on with.
func TestOther(t *testing.T) {
	f, out := newFake(t), t.TempDir()
	f.iterate(1, 0)
	f.export("tensorboard", out, "")
	text := string(must(os.ReadFile(filepath.Join(f.dir, "ledger.jsonl"))))
	f.write("ledger.jsonl", strings.Replace(text, `"gradient":2`, `"gradient":3`, 1))
	if _, err := Open(Options{Run: f.dir, As: "tensorboard", Out: out}); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	f.write("ledger.jsonl", text)
	if _, err := Open(Options{Run: f.dir, As: "tensorboard", Out: out, Names: "trl"}); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	f.write("config.toml", config+"[optim]\nlr = 0.5\n")
	if _, err := Open(Options{Run: f.dir, As: "tensorboard", Out: out}); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	f.write("config.toml", strings.Replace(config, "iterations = 3", "iterations = 30", 1)) // with which the run may go on
	if x, err := Open(Options{Run: f.dir, As: "tensorboard", Out: out}); err != nil {
		t.Error(err)
	} else if err := x.close(); err != nil {
		t.Error(err)
	}
	f.add("ledger.jsonl", "{]\n")
	f.add("timing.jsonl", "what\n")
	x, err := Open(Options{Run: f.dir, As: "csv", Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Export(); err == nil || !strings.Contains(err.Error(), "ledger.jsonl") {
		t.Error(err)
	}
	if _, err := Open(Options{Run: t.TempDir(), As: "csv"}); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Error(err)
	}
}

// TestFollow: entries of a followed run are written, an iteration only after its time, and the end ends it.
func TestFollow(t *testing.T) {
	f, out := newFake(t), t.TempDir()
	x, err := Open(Options{Run: f.dir, As: "trackio", Out: out, Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	steps, seen := 0, []int{}
	n, err := x.Follow(t.Context(), func() (bool, error) {
		seen = append(seen, strings.Count(joined(contents(t, out))["inbox"], "\n"))
		switch steps++; steps {
		case 2:
			f.iterate(1, 0)
		case 4:
			f.add("ledger.jsonl", "%s", ledgerLine(2, 0))
		case 6:
			f.add("timing.jsonl", `{"iteration":2,"at":1700000020,"seconds":{"all":2}}`+"\n")
		case 8:
			f.write("result.json", `{"status":"finished"}`)
		}
		return Ended(f.dir)
	})
	if err != nil || n != 3 || !slices.Equal(seen, []int{0, 0, 2, 2, 2, 2, 4, 4}) { // the monitor's alert is a line
		t.Errorf("%d entries, seen %v, %v", n, seen, err)
	}
}
