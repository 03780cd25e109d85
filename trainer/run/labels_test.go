package run

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// TestLabels: two rewards of one kind are distinguished by their labels in all files of a run, and a prompt's own
// weights decide which rewards count for it, and which are asked.
func TestLabels(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	var mu sync.Mutex
	asked := map[string][]string{} // prompts by server
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Items []struct{ Prompt string } }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		asked[r.URL.Path] = append(asked[r.URL.Path], q.Items[0].Prompt)
		mu.Unlock()
		value := map[string]string{"/soft": "2, 3", "/hard": "5, 7"}[r.URL.Path]
		_, _ = io.WriteString(w, `{"scores": [`+value+`]}`) // the client reports a reply that is cut
	}))
	defer server.Close()
	dir := t.TempDir()
	list := filepath.Join(dir, "prompts.jsonl")
	lines := `{"prompt": "a red circle on white", "weights": {"hard": 0}}` + "\n" + `{"prompt": "a green square on black", "weights": {"soft": 10}}` + "\n"
	if err := os.WriteFile(list, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("iterations = 3", "iterations = 1", "testdata/prompts.txt", list, `name = "http"`+"\n"+`url = "URL"`, fmt.Sprintf("name = \"http\"\nlabel = \"soft\"\nurl = %q", server.URL+"/soft"),
		"REWARD", "", "MORE", fmt.Sprintf("[[reward]]\nname = \"http\"\nlabel = \"hard\"\nurl = %q\n[[monitor]]\nwatch = \"reward.hard\"\nrises_above = 5.5\nthen = \"warn\"", server.URL+"/hard")).Replace(guarded)
	r, said, err := runSaying(t, text, filepath.Join(dir, "run"))
	if err != nil || r.Status != ledger.Finished {
		t.Fatalf("%+v, %v, %s", r, err, said)
	}
	if want := map[string]string{"soft": "trained", "hard": "trained"}; !maps.Equal(r.Rewards, want) {
		t.Errorf("result.json has %v, want %v", r.Rewards, want)
	}
	got, _, err := ledger.Read(filepath.Join(dir, "run", "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	// One prompt's totals are 2 and 3, the other's 10·2 + 5 and 10·3 + 7.
	if l := got[0]; l.Total.Mean != (2+3+25+37)/4.0 || l.Total.Missing != 0 || l.Rewards["soft"].Mean != 2.5 || l.Rewards["hard"].Mean != 6 || l.Rewards["hard"].Missing != 2 || len(l.Fired) != 1 {
		t.Errorf("%+v", l)
	}
	slices.Sort(asked["/soft"])
	if !slices.Equal(asked["/soft"], []string{"a green square on black", "a red circle on white"}) || !slices.Equal(asked["/hard"], []string{"a green square on black"}) {
		t.Errorf("asked were %v", asked)
	}
}
