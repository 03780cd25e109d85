package track

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// TestHistogram: the counts of an iteration's totals reach every layout that has histograms, with the bins' edges.
func TestHistogram(t *testing.T) {
	h := totals(&ledger.Histogram{Low: -1, High: 1, Counts: []int{3, 0, 4, 1}})
	if u := (Histogram{"", []float64{0, 1, 2, 3}, []int{0, 7, 0}}).used(); len(u.Counts) != 1 || u.Counts[0] != 7 || u.Edges[0] != 1 || u.Edges[1] != 2 {
		t.Errorf("%+v", u)
	}
	e := &Entry{Order: 1, Iteration: 1, Time: 5, Histograms: []Histogram{h}}
	words, err := json.Marshal(h.binned(""))
	if err != nil || string(words) != `{"_type":"","bins":[-1,-0.5,0,0.5,1],"values":[3,0,4,1]}` {
		t.Fatalf("%s, %v", words, err)
	}
	counts := binary.LittleEndian.AppendUint64(nil, math.Float64bits(3))
	counts = binary.LittleEndian.AppendUint64(counts, 0)
	for as, want := range map[string][]byte{"tensorboard": counts, "wandb": []byte(`{"_type":"histogram","bins":[-1,-0.5,0,0.5,1],"values":[3,0,4,1]}`),
		"trackio": []byte(`"sample/totals":{"_type":"trackio.histogram","bins":[-1,-0.5,0,0.5,1],"values":[3,0,4,1]}`)} {
		l, _, err := layoutOf(as)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		target, err := l.open(dir, &Run{Project: "p", Name: "r", ID: "1"}, state{As: as, ID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{target.Append(e), target.Commit(Mark{Entries: 2}), target.Close()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		found := false
		for name, text := range contents(t, dir) {
			found = found || !strings.HasSuffix(name, stateFile) && bytes.Contains([]byte(text), want)
		}
		if !found {
			t.Errorf("%s has not %q", as, want)
		}
	}
}
