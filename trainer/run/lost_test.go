package run

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
)

// TestAllLost: a run that ends before it gave up, and had no sample to learn from, is no success; nor is it one where
// it goes on.
func TestAllLost(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	for _, resume := range []bool{false, true} {
		_, err := train(t, parseText(t, talking, fewQuestions(t), speaker(t), "run.iterations=2", "evaluate.every=0", "evaluate.prompts=''", "episode.tokens=16"), dir, resume, 2, -1)
		if err == nil || !strings.Contains(err.Error(), "nothing was learned: in none of 2 iterations had reward accuracy") {
			t.Errorf("resumed %v: %v", resume, err)
		}
	}
}

// TestLostEpisodes: episodes whose tool failed have no score of any reward, and never 0; the others are judged, and
// the run goes on.
func TestLostEpisodes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = w.Write([]byte("all is well")) // it lies
	}))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "run")
	text := strings.Replace(talking, "[rollout]", "[[episode.tool]]\nname = \"zoom\"\nurl = \""+server.URL+"\"\ncache = false\n[rollout]", 1)
	r, err := train(t, parseText(t, text, fewQuestions(t), speaker(t), "run.iterations=1", "evaluate.every=0", "rollout.prompts_per_iteration=6"), dir, false, 2, -1)
	if err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	missing, judged := 0, 0
	if err := folder.ReadLines(filepath.Join(dir, "samples.jsonl"), func(text []byte) error {
		var l struct {
			Scores map[string]ledger.ScoreLine `json:"scores"`
		}
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		lost := strings.Contains(l.Scores["accuracy"].Missing, "tool zoom: the reply is no JSON object")
		for name, s := range l.Scores {
			if strings.Contains(s.Missing, "tool zoom") != lost {
				t.Errorf("of one sample %s says %q, and accuracy %q", name, s.Missing, l.Scores["accuracy"].Missing)
			}
		}
		if lost {
			missing++
		} else {
			judged++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	line := ledgerOf(t, dir)[0]
	if e := line.Episodes; !(e["entropy"] > 0) || e["lost"] != float64(missing)/float64(missing+judged) {
		t.Errorf("the ledger's episodes: %v, and %d are lost", e, missing)
	}
	if missing == 0 || judged == 0 || line.Total.Missing != missing || int(calls.Load()) < missing {
		t.Errorf("%d samples are lost and %d are judged after %d calls; the ledger misses %d", missing, judged, calls.Load(), line.Total.Missing)
	}
}
