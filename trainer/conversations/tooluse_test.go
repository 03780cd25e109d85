package conversations

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
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
	none := of(0, 0)
	if _, there := none["defused"]; there {
		t.Error("a number of nothing is in the ledger")
	}
	if v, ok := (&ledger.Line{Episodes: none}).Value("episode.defused"); v != 0 || !ok {
		t.Errorf("a monitor reads %v, %v", v, ok)
	}
}

// TestToolUseIsWatched: a monitor can watch every number of how tools are used.
func TestToolUseIsWatched(t *testing.T) {
	var s trainer.Sample
	s.Item.Episode = &Episode{Transcript: &tools.Transcript{Defused: 1}}
	known := experiment.Monitors()
	for name := range toolUse([]trainer.Sample{s}) {
		if !slices.ContainsFunc(known, func(n experiment.Name) bool { return n.Name == "episode."+name }) {
			t.Errorf("episode.%s is in the ledger, and no monitor can watch it", name)
		}
	}
}
