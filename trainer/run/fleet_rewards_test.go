package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Rewards that workers ask, or compute.

// TestFleetScores: workers ask a reward behind a server, and one of them is killed at it; their scores are those that
// the trainer would have found.
func TestFleetScores(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		time.Sleep(20 * time.Millisecond)
		sizes(w, r)
	}))
	defer server.Close()
	sets := []string{"run.iterations=2", fmt.Sprintf("reward=[{name='http', url=%q}, {name='jpeg', train=false}]", server.URL)}
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	if _, err := trainAs(t, parse(t, sets...), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	once := asked.Swap(0)
	c := newCrew(t)
	c.scores = fleet.NewInside()
	kill := c.judge("brief")
	c.judge("steady")
	c.train(parse(t, sets...), Options{Dir: helped, Report: func(*ledger.Line, *ledger.TimingLine) { kill() }}, fleet.Options{Local: true})
	c.close()
	if err := c.scores.Close(); err != nil {
		t.Error(err)
	}
	by := workOf(t, helped)
	same(t, "judged by workers", contents(t, alone), contents(t, helped))
	if by["steady"] == 0 || asked.Load() < once {
		t.Errorf("who did how much: %v; the server was asked %d times, and %d by one process", by, asked.Load(), once)
	}
}

// TestFleetNetworks: workers compute a reward that is a network, one of them is killed at it, and one returns other
// numbers: it is named, and the run has the bytes of one process.
func TestFleetNetworks(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	sets := []string{whole, "run.iterations=2", "rollout.group=2", "evaluate.every=9", "reward=[{name='jpeg'}, {name='aesthetic'}]"}
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	if _, err := trainAs(t, parse(t, sets...), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	c.judges = fleet.NewInside()
	killed := make(chan func(), 1)
	killed <- c.compute("brief", func(payload []byte) []byte {
		(<-killed)() // nobody gets its result
		return payload
	})
	meets := func(mine, others chan struct{}) func() { // of the other two, each has a job before one of them ends
		return sync.OnceFunc(func() {
			close(mine)
			select {
			case <-others:
			case <-time.After(time.Minute):
			}
		})
	}
	a, b := make(chan struct{}), make(chan struct{})
	steady, lies := meets(a, b), meets(b, a)
	c.compute("steady", func(payload []byte) []byte {
		steady()
		return payload
	})
	c.compute("liar", func(payload []byte) []byte {
		lies()
		return bytes.Replace(payload, []byte(`"value":`), []byte(`"value":0.5,"was":`), 1)
	})
	there := func(*ledger.Line, *ledger.TimingLine) { // two of them, after the first iteration
		for began := time.Now(); c.networks.Workers()+len(c.networks.Refused()) < 2 && time.Since(began) < time.Minute; {
			time.Sleep(10 * time.Millisecond)
		}
	}
	_, f := c.train(parse(t, sets...), Options{Dir: helped, Report: there}, fleet.Options{Local: true, Audit: 1})
	c.close()
	if err := c.judges.Close(); err != nil {
		t.Error(err)
	}
	by := workOf(t, helped)
	same(t, "judged by workers", contents(t, alone), contents(t, helped))
	refused := c.networks.Refused()
	if by["steady"] == 0 || by["liar"] > 0 || len(refused) != 1 || refused["liar"] == "" || len(f.Refused()) > 0 {
		t.Errorf("who did how much: %v; refused %v", by, refused)
	}
}

// TestRewardFiles: a worker computes no reward by other files than the trainer's.
func TestRewardFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("weights"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := experiment.Reward{Name: "hpsv2"}
	r.Path = dir
	files, err := rewardFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	had, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameFiles(r, had); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("Weights"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sameFiles(r, had); err == nil || !strings.Contains(err.Error(), "reward hpsv2 is not the trainer's") {
		t.Error(err)
	}
	r.Path = filepath.Join(dir, "nothing")
	if err := sameFiles(r, had); err == nil || !strings.Contains(err.Error(), "hint:") {
		t.Error(err)
	}
}
