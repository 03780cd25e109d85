package run

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// lineOf has a number of every kind.
func lineOf() *ledger.Line {
	return &ledger.Line{Prompts: []int{1, 2}, Samples: 6, Total: ledger.Spread{Mean: 0.5, Missing: 3}, Rewards: map[string]ledger.Spread{"scene": {Mean: 0.25, Missing: 3}, "jpeg": {Missing: 6}},
		Dead: 1, Spread: 0.1, Diversity: 2, BestOf: map[string]float64{"2": 0.7}, Histogram: &ledger.Histogram{Modes: 3}, Pictures: map[string]float64{"brightness": 100},
		HeldOut: map[string]ledger.Measure{"total": {Mean: 0.6}},
		Updates: []ledger.UpdateLine{{Mismatch: 0.01, RatioMost: 1}, {Loss: -1, Gradient: 4, Rate: 0.1, RatioMost: 0.75, Metrics: map[string]float64{"clipped": 0.3, "kl": 0.02}}}}
}

// TestRules: bounds of three kinds, and how often in a row.
func TestRules(t *testing.T) {
	half, low, high := 0.5, 0.4, 0.9
	m := newMonitors(&experiment.Experiment{}, "")
	m.rules = []experiment.Monitor{{Watch: "total", FallsBelow: &half, For: 1}, {Watch: "total", IsBelow: &low, For: 2}, {Watch: "total", RisesAbove: &high, For: 1}}
	for i, c := range []struct {
		mean  float64
		fired int
	}{{0.6, 0}, {0.35, 0}, {0.39, 1}, {0.35, 0}, {0.5, 0}, {0.35, 0}, {0.29, 2}, {0.95, 1}} {
		l := lineOf()
		l.Total = ledger.Spread{Mean: c.mean}
		if got := m.check(l); len(got) != c.fired || len(l.Fired) != c.fired {
			t.Errorf("%d: %v fired %v", i, c.mean, got)
		}
	}
	l := lineOf()
	l.Total.Missing = l.Samples
	if got := m.check(l); len(got) != 0 {
		t.Errorf("what was not measured fired %v", got)
	}
}

// TestFallsBelow: a number that begins below 0 may lose as much of its size as one above 0.
func TestFallsBelow(t *testing.T) {
	for _, c := range []struct {
		share, first, v float64
		says            string // "": the rule holds
	}{
		{0.5, 10, 5, ""},
		{0.5, 10, 4.9, "total fell to 4.9, below 0.5 of the 10 that it began with"},
		{0.5, -8.788, -8.788, ""},
		{0.5, -8, -11.9, ""},
		{0.5, -8, -12.1, "total fell to -12.1, below -12: it began with -8, and falls_below = 0.5 allows a loss of 4"},
		{0.9, -10, 3, ""},
		{0.9, 0, 0, ""},
		{0.9, 0, -1, "total fell to -1, below 0.9 of the 0 that it began with"},
	} {
		if got := broken(experiment.Monitor{Watch: "total", FallsBelow: &c.share}, c.v, c.first); got != c.says {
			t.Errorf("%v, then %v: %q, want %q", c.first, c.v, got, c.says)
		}
	}
}

// alerting has monitors whose alerts name a run.
func alerting(t *testing.T) *monitors {
	t.Helper()
	e := &experiment.Experiment{}
	e.Run.Name = "alerts"
	m := newMonitors(e, t.TempDir())
	return &m
}

// TestAlerts: a program and an address get the alert of a monitor that fired.
func TestAlerts(t *testing.T) {
	var lock sync.Mutex
	var posted []alert
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var n alert
		if err == nil {
			err = json.Unmarshal(text, &n)
		}
		if err != nil {
			t.Error(err)
		}
		lock.Lock()
		defer lock.Unlock()
		posted = append(posted, n)
	}))
	defer server.Close()
	out := filepath.Join(t.TempDir(), "told")
	t.Setenv("HOOK", server.URL)
	var said []string
	run := alerting(t)
	for _, m := range []experiment.Monitor{{Watch: "total", Then: "warn", Run: []string{"sh", "-c", `cat > "$0"`, out}, Webhook: server.URL}, {Watch: "kl", Then: "stop", WebhookEnv: "HOOK"}} {
		run.alerts.send(fired{m, "it fell"}, 7)
	}
	run.alerts.wait(saying(&said))
	text, err := os.ReadFile(out)
	if err != nil {
		t.Skipf("no program sh: %v", err)
	}
	want := alert{"alerts", run.alerts.folder, 7, "total", "it fell", "warn", "alerts, iteration 7: it fell (then: warn)", "alerts, iteration 7: it fell (then: warn)"}
	var told alert
	if err := json.Unmarshal(text, &told); err != nil || told != want {
		t.Errorf("%+v, %v", told, err)
	}
	if len(posted) != 2 || posted[0] != want && posted[1] != want || len(said) > 0 {
		t.Errorf("posted %+v, said %q", posted, said)
	}
}

// TestAlertOnce: a monitor that stays broken calls once, and once more where it was whole between; after a resume, too.
func TestAlertOnce(t *testing.T) {
	var lock sync.Mutex
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		calls++
	}))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "run")
	e := func(webhook string) *experiment.Experiment {
		return parse(t, "evaluate.every=0", "evaluate.prompts=''", "optim.updates=1", "monitor=[{watch='lr', rises_above=0.001, then='warn', webhook='"+webhook+"'}]")
	}
	for _, stop := range []int{2, -1} {
		if _, err := train(t, e(server.URL), dir, stop < 0, 2, stop); err != nil {
			t.Fatal(err)
		}
	}
	if lock.Lock(); calls != 1 {
		t.Errorf("%d calls in 4 iterations that a monitor is broken in, want one", calls)
	}
	lock.Unlock()
	var said []string
	r := alerting(t)
	r.rules = []experiment.Monitor{{Watch: "missing", RisesAbove: new(float64), Then: "warn", Webhook: server.URL}}
	for i, missing := range []int{1, 1, 0, 1, 1} {
		for _, f := range r.check(&ledger.Line{Iteration: i + 1, Samples: 2, Total: ledger.Spread{Missing: missing}}) {
			if r.due(f) {
				r.alerts.send(f, i+1)
			}
		}
	}
	r.alerts.wait(saying(&said))
	if lock.Lock(); calls != 3 {
		t.Errorf("%d calls, want two more: it was whole between", calls)
	}
	lock.Unlock()
}

// TestAlertsFail: an alert that fails is a warning without the address, and training does not wait for it.
func TestAlertsFail(t *testing.T) {
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/secret" {
			http.Error(w, "not\x1b[2Jhere", http.StatusTeapot)
			return
		}
		<-hold
	}))
	defer server.Close()
	defer close(hold)
	for name, c := range map[string]struct {
		monitor experiment.Monitor
		says    string
	}{
		"refused":  {experiment.Monitor{Webhook: server.URL + "/secret"}, `418 I'm a teapot not\u001b[2Jhere`},
		"slow":     {experiment.Monitor{Webhook: server.URL + "/slow"}, "it took longer than 1s"},
		"gone":     {experiment.Monitor{Webhook: "http://127.0.0.1:1/secret"}, "refused"},
		"no env":   {experiment.Monitor{WebhookEnv: "DARKROOM_NO_SUCH"}, "the environment has no DARKROOM_NO_SUCH"},
		"no file":  {experiment.Monitor{Run: []string{"/no/such/program"}}, "/no/such/program"},
		"its code": {experiment.Monitor{Run: []string{"sh", "-c", "echo because >&2; exit 3"}}, "exit status 3: because"},
		"hanging":  {experiment.Monitor{Run: []string{"sh", "-c", "sleep 60"}}, "it took longer than 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			run := alerting(t)
			if strings.Contains(c.says, "longer") {
				run.alerts.limit = time.Second
			}
			began := time.Now()
			run.alerts.send(fired{c.monitor, "it fell"}, 1)
			if took := time.Since(began); took > 900*time.Millisecond {
				t.Errorf("training waited %v", took)
			}
			run.alerts.wait(saying(&said))
			if all := strings.Join(said, "\n"); len(said) != 1 || !strings.Contains(all, c.says) || strings.Contains(all, "secret") || !strings.HasPrefix(all, "warning: ") {
				t.Errorf("said %q", said)
			}
		})
	}
	var said []string
	run := alerting(t)
	run.alerts.limit = 100 * time.Millisecond
	for range alertsMost + 2 {
		run.alerts.send(fired{experiment.Monitor{Webhook: server.URL + "/slow"}, "it fell"}, 1)
	}
	run.alerts.wait(saying(&said))
	if got := strings.Count(strings.Join(said, "\n"), "4 calls are still under way"); got != 2 {
		t.Errorf("said %q", said)
	}
}

// rolling is a run whose learning rate passes a bound in its third iteration.
func rolling(t *testing.T, scale string) *experiment.Experiment {
	t.Helper()
	return parse(t, "checkpoint.every=2", "optim.updates=1", "optim.warmup=4", "advantage.estimator=history",
		"monitor=[{watch='lr', rises_above=0.004, then='rollback', rollback={lr_scale="+scale+", most=2}}]")
}

// TestRollback: the run goes back to its last regular checkpoint and on with other draws and a smaller rate; the
// undone iterations stay in the ledger as such. A run that was stopped or killed at any iteration leaves the same
// bytes.
func TestRollback(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	whole, snapshots := filepath.Join(dir, "whole"), []string{}
	copied := func(l *ledger.Line) {
		to := filepath.Join(dir, fmt.Sprint("killed", len(snapshots)))
		if err := os.CopyFS(to, os.DirFS(whole)); err != nil {
			t.Error(err)
		}
		snapshots = append(snapshots, to)
	}
	if r, err := trainWith(t, rolling(t, "0.5"), whole, false, 2, func(l *ledger.Line) bool { copied(l); return false }); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	kept, abandoned, err := ledger.Read(filepath.Join(whole, "ledger.jsonl"))
	if err != nil || len(kept) != 4 || len(abandoned) != 2 || abandoned[0].Iteration != 3 || abandoned[1].Rollback == nil {
		t.Fatalf("%d lines are kept, abandoned are %+v, %v", len(kept), abandoned, err)
	}
	if r := *abandoned[1].Rollback; r.From != 3 || r.To != 2 || r.Attempt != 1 || r.LRScale != 0.5 || !strings.Contains(r.Why, "lr rose to 0.005") {
		t.Errorf("%+v", r)
	}
	if a, b := abandoned[0], kept[2]; b.Attempt != 1 || b.Updates[0].Rate != a.Updates[0].Rate/2 || b.Total == a.Total {
		t.Errorf("iteration 3 was %+v, and is %+v", a, b)
	}
	want := contents(t, whole)
	for stop := 2; stop < 4; stop++ { // where it goes back to, and whence
		parts := filepath.Join(dir, fmt.Sprint("parts", stop))
		if r, err := train(t, rolling(t, "0.5"), parts, false, 1, stop); err != nil || r.Status != ledger.Interrupted {
			t.Fatalf("%v, %v", r, err)
		}
		snapshots = append(snapshots, parts)
	}
	for _, parts := range snapshots {
		if r, err := train(t, rolling(t, "0.5"), parts, true, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%s: %v, %v", parts, r, err)
		}
		same(t, filepath.Base(parts), want, contents(t, parts))
	}
}

// TestRollbackEnds: without a smaller rate the rule is broken again, by other samples each time,
// and the run stops.
func TestRollbackEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	r, err := train(t, rolling(t, "1"), dir, false, 2, -1)
	if err != nil || r.Status != ledger.Stopped || r.Iterations != 3 || !strings.Contains(r.Why, "after 2 rollbacks") {
		t.Fatalf("%+v, %v", r, err)
	}
	seen := map[float64]bool{}
	if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
		var l ledger.Line
		err := json.Unmarshal(text, &l)
		if l.Iteration == 3 {
			seen[l.Total.Mean] = true
		}
		return err
	}); err != nil || len(seen) != 3 {
		t.Errorf("three attempts at iteration 3 have the totals %v, %v", seen, err)
	}
}

// TestRollbackWithoutHeldOut: nothing is held out, and the run is stopped between two regular
// checkpoints. It goes back to the same iteration as one that was never stopped.
func TestRollbackWithoutHeldOut(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	e := func() *experiment.Experiment {
		return parse(t, "checkpoint.every=5", "evaluate.every=0", "evaluate.prompts=''", "optim.updates=1", "optim.warmup=4",
			"monitor=[{watch='lr', rises_above=0.004, then='rollback'}]")
	}
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	if r, err := train(t, e(), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	for _, stop := range []int{2, -1} {
		if r, err := train(t, e(), parts, stop < 0, 2, stop); err != nil || (r.Status == ledger.Finished) != (stop < 0) {
			t.Fatalf("%v, %v", r, err)
		}
	}
	_, abandoned, err := ledger.Read(filepath.Join(parts, "ledger.jsonl"))
	if err != nil || len(abandoned) == 0 || abandoned[len(abandoned)-1].Rollback.To != 0 {
		t.Errorf("abandoned are %+v, %v", abandoned, err)
	}
	same(t, "stopped between two checkpoints", contents(t, whole), contents(t, parts))
}

// TestRollbackBest: the run goes back to the best evaluation by the monitor's number, which is not deleted though but
// one checkpoint is kept; one that was killed anywhere leaves the same bytes.
func TestRollbackBest(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	const by = "jpeg"
	e := func() *experiment.Experiment {
		return parse(t, "checkpoint={every=1, keep=1}", "evaluate.every=1", "optim.updates=1", "optim.warmup=4",
			"monitor=[{watch='lr', rises_above=0.004, then='rollback', rollback={to='best', by='heldout."+by+"'}}]")
	}
	dir := t.TempDir()
	whole, snapshots := filepath.Join(dir, "whole"), []string{}
	r, err := trainWith(t, e(), whole, false, 2, func(l *ledger.Line) bool {
		to := filepath.Join(dir, fmt.Sprint("killed", len(snapshots)))
		if err := os.CopyFS(to, os.DirFS(whole)); err != nil {
			t.Error(err)
		}
		snapshots = append(snapshots, to)
		return false
	})
	if err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	kept, abandoned, err := ledger.Read(filepath.Join(whole, "ledger.jsonl"))
	if err != nil || len(kept) != 4 || len(abandoned) == 0 {
		t.Fatalf("%d lines are kept, abandoned are %+v, %v", len(kept), abandoned, err)
	}
	back := *abandoned[len(abandoned)-1].Rollback
	at, best := 0, r.HeldOut[by].Before.Mean
	for _, l := range append(kept[:back.To:back.To], abandoned[:len(abandoned)-1]...) {
		if v := l.HeldOut[by].Mean; l.Iteration < back.From && v > best {
			at, best = l.Iteration, v
		}
	}
	if back.To != at || back.From != 3 {
		t.Errorf("by %s it went back from %d to %d; the best was %d", by, back.From, back.To, at)
	}
	if back.To == back.From-1 {
		t.Error("the best is the last one, and this test tells nothing: watch another reward")
	}
	want := contents(t, whole)
	for _, parts := range snapshots[len(snapshots)-3:] {
		if r, err := train(t, e(), parts, true, 1, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%s: %v, %v", parts, r, err)
		}
		same(t, filepath.Base(parts), want, contents(t, parts))
	}
}
