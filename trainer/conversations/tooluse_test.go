package conversations

import (
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// TestDefusedInLedger: special tokens that came back as plain text are counted where there were some, and
// a ledger of runs without any stays as it is.
func TestDefusedInLedger(t *testing.T) {
	of := func(defused ...int) map[string]float64 {
		var all []trainer.Sample
		for _, n := range defused {
			var s trainer.Sample
			s.Item.Episode = &Episode{Transcript: &tools.Transcript{Defused: n}}
			all = append(all, s)
		}
		return toolUse(all)
	}
	if got := of(3, 0)["defused"]; got != 1.5 {
		t.Errorf("%v an episode", got)
	}
	if _, there := of(0, 0)["defused"]; there {
		t.Error("a number of nothing is in the ledger")
	}
}
