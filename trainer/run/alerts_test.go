package run

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// alerting has monitors whose alerts name a run.
func alerting(t *testing.T) *monitors {
	t.Helper()
	e := &experiment.Experiment{}
	e.Run.Name = "alerts"
	m := newMonitors(e, t.TempDir())
	return &m
}

// TestAlerts: a program and an address hear of a monitor that fired.
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

// TestAlertsFail: what cannot be told is a warning without the address, and training does not wait for it.
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
