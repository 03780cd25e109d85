package run

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// The purpose of a fleet: time. Workers and judges here wait as long as larger models would compute, so that a
// machine of two cores can show the effect of eight machines. -long -v prints the tables (make fleet).

// scales skips tests without its flag.
func scales(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("waits for minutes; left out without -long (make fleet)")
	}
}

// wallOf is an iteration's time, in seconds by the clock: of the quickest, since others work on this machine.
func wallOf(t *testing.T, dir, part string) float64 {
	t.Helper()
	all, err := ledger.ReadTiming(filepath.Join(dir, "timing.jsonl"))
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	least := 0.0
	for _, seconds := range all {
		if s := seconds[part]; least == 0 || s < least {
			least = s
		}
	}
	return least
}

// TestStrongScaling: the same run, of 8 groups an iteration that take 3 s each, by 1 to 8 workers: the same bytes.
func TestStrongScaling(t *testing.T) {
	scales(t)
	const groups, each = 8, 3 * time.Second
	sets := []string{"run.iterations=2", fmt.Sprint("rollout.prompts_per_iteration=", groups), "rollout.group=2", "evaluate.every=9"}
	alone := filepath.Join(t.TempDir(), "alone")
	if _, err := trainAs(t, parse(t, sets...), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	want, one := contents(t, alone), 0.0
	t.Log("workers  roll, s  speed-up  of ideal")
	for _, workers := range []int{1, 2, 4, 8} {
		c, dir := newCrew(t), filepath.Join(t.TempDir(), "fleet")
		for i := range workers {
			c.join(fmt.Sprint("w", i), func(j fleet.Job, payload []byte) []byte {
				if !j.How.Fixed {
					time.Sleep(each)
				}
				return payload
			})
		}
		c.train(parse(t, sets...), Options{Dir: dir}, fleet.Options{})
		c.close()
		workOf(t, dir)
		same(t, fmt.Sprintf("%d workers", workers), want, contents(t, dir))
		s := wallOf(t, dir, "roll")
		if workers == 1 {
			one = s
		}
		t.Logf("%7d  %7.2f  %8.2f  %7.0f %%", workers, s, one/s, 100*one/s/float64(workers))
		if one/s < 0.6*float64(workers) {
			t.Errorf("%d workers are %.2f times as fast as one", workers, one/s)
		}
	}
}

// TestSlowJudge: a judge that takes 2 s a sample, and one at a time from each machine: asked by the trainer alone, and
// by 8 workers. The same bytes.
func TestSlowJudge(t *testing.T) {
	scales(t)
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Items []json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(time.Duration(len(q.Items)) * 2 * time.Second)
		var said struct {
			Scores []float64 `json:"scores"`
		}
		for _, item := range q.Items {
			said.Scores = append(said.Scores, float64(item[len(item)/2]))
		}
		_ = json.NewEncoder(w).Encode(said) // who asks tells of a reply that is cut
	}))
	defer judge.Close()
	sets := []string{"run.iterations=2", "rollout.prompts_per_iteration=8", "rollout.group=2", "evaluate.every=9",
		fmt.Sprintf("reward=[{name='http', url=%q, at_once=1, timeout=60}]", judge.URL)}
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	if _, err := trainAs(t, parse(t, sets...), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	c.scores = fleet.NewInside()
	for i := range 8 {
		c.judge(fmt.Sprint("j", i))
	}
	c.train(parse(t, sets...), Options{Dir: helped}, fleet.Options{Local: true})
	c.close()
	if err := c.scores.Close(); err != nil {
		t.Error(err)
	}
	by := workOf(t, helped)
	same(t, "judged by 8 workers", contents(t, alone), contents(t, helped))
	one, eight := wallOf(t, alone, "all"), wallOf(t, helped, "all")
	t.Logf("an iteration of 16 samples: %.2f s alone, %.2f s with 8 workers (%v)", one, eight, by)
	if eight > one/2 {
		t.Errorf("8 workers bring %.2f s to %.2f s", one, eight)
	}
}
