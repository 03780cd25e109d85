package run

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// resultOf is a folder's result.json.
func resultOf(t *testing.T, dir string) (r ledger.Result) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, resultFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestStopIsKept: a process that is killed after a monitor stopped the run, and before result.json says so, does not
// go on past the stop. The notified program goes on.
func TestStopIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	sets := []string{"evaluate.every=0", "evaluate.prompts=''", "monitor=[{watch='lr', rises_above=0, then='stop'}]"}
	stopped := func(resume bool, at int) {
		t.Helper()
		r, err := train(t, parse(t, sets...), dir, resume, 2, -1)
		if err != nil || r.Status != ledger.Stopped || r.Iterations != at || !strings.Contains(r.Why, "lr rose to 0.01") {
			t.Fatalf("%+v, %v", r, err)
		}
		if r := resultOf(t, dir); r.Status != ledger.Stopped || r.Iterations != at {
			t.Errorf("result.json says %+v", r)
		}
	}
	stopped(false, 1)
	want := contents(t, dir)
	for _, text := range []string{"", `{"status": "under way"}`} { // the kill's remains
		if err := os.WriteFile(filepath.Join(dir, resultFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			if err := os.Remove(filepath.Join(dir, resultFile)); err != nil {
				t.Fatal(err)
			}
		}
		stopped(true, 1)
		same(t, "killed after the stop", want, contents(t, dir))
	}
	stopped(true, 2)
}

// TestResultIsMeasured: a result has no measure after training that was not taken, and says after which iteration
// one was.
func TestResultIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	for _, c := range []struct{ stop, measured int }{{1, 0}, {3, 2}, {-1, 4}} { // evaluated after every second one
		r, err := train(t, parse(t), dir, c.stop != 1, 2, c.stop)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"sharpness", "jpeg", "total"} {
			g := r.HeldOut[name]
			if g.Before == nil || g.Known() != (c.measured > 0) || g.Iteration != c.measured {
				t.Errorf("stopped after %d: %s is %+v", c.stop, name, g)
			}
		}
	}
	r, err := train(t, parse(t), dir, true, 2, -1) // nothing is left to do, and the measurements are known
	if err != nil || r.HeldOut["total"].Iteration != 4 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLastEvaluationFails: where the last evaluation has no score, that is said, and no older measure stands in
// its place as the end's.
func TestLastEvaluationFails(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	// One call is one prompt's samples: 2 held-out prompts before, 2 of the iteration, then 2 held-out ones.
	server := httptest.NewServer(&scoreServer{mood: fails(4, 6, gone)})
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "run")
	var said []string
	r, err := trainAs(t, parse(t, "run.iterations=1", `reward=[{name="http", tries=1, pause=0.001, url="`+server.URL+`"}]`), Options{Dir: dir, Logf: saying(&said)})
	if err != nil || r.Status != ledger.Finished {
		t.Fatalf("%+v, %v", r, err)
	}
	if g := r.HeldOut["http"]; g.Before == nil || g.After != nil {
		t.Errorf("%+v", g)
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "warning: reward http has no score of any held-out sample after iteration 1; the first: ") {
		t.Errorf("it said %q", all)
	}
}
