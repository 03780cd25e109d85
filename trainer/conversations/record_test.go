package conversations

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// TestDefusedInLedger: special tokens that came back as plain text are counted where there were some, and
// a ledger of runs without any stays as it is.
func TestDefusedInLedger(t *testing.T) {
	of := func(defused ...int) map[string]float64 {
		var all []trainer.Sample
		for _, n := range defused {
			var s trainer.Sample
			s.Item.Episode = &rollout.Episode{Transcript: &tools.Transcript{Defused: n}}
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
	for _, name := range []string{"episode.defused", "episode.lost"} {
		if v, ok := (&ledger.Line{Episodes: none}).Value(name); v != 0 || !ok {
			t.Errorf("a monitor reads %v, %v of %s", v, ok, name)
		}
	}
}

// TestToolUseIsWatched: a monitor can watch every number of how tools are used.
func TestToolUseIsWatched(t *testing.T) {
	var s trainer.Sample
	s.Item.Episode = &rollout.Episode{Transcript: &tools.Transcript{Defused: 1}, Entropy: 1, Lost: errors.New("its tool failed")}
	s.Decisions.Step = []int{3}
	known := experiment.Monitors()
	for name := range toolUse([]trainer.Sample{s}) {
		if !slices.ContainsFunc(known, func(n experiment.Name) bool { return n.Name == "episode."+name }) {
			t.Errorf("episode.%s is in the ledger, and no monitor can watch it", name)
		}
	}
}

// TestWorths: totals of episodes that called a tool and of those that did not are apart, episodes without a total count
// as neither, and a monitor can watch both.
func TestWorths(t *testing.T) {
	of := func(calls int) (s trainer.Sample) {
		turn := tools.Turn{Calls: make([]tools.CallTaken, calls)}
		s.Item.Episode = &rollout.Episode{Transcript: &tools.Transcript{Turns: []tools.Turn{turn}}}
		return s
	}
	use := map[string]float64{}
	worths(use, []trainer.Sample{of(1), of(0), of(2), of(1), of(0)}, []float64{1, 0.25, 0, math.NaN(), 0.75})
	if len(use) != 2 || use["score_called"] != 0.5 || use["score_direct"] != 0.5 {
		t.Errorf("%v", use)
	}
	known := experiment.Monitors()
	for name := range use {
		if !slices.ContainsFunc(known, func(n experiment.Name) bool { return n.Name == "episode."+name }) {
			t.Errorf("no monitor can watch episode.%s", name)
		}
	}
	clear(use)
	if worths(use, []trainer.Sample{of(1)}, []float64{1}); len(use) != 1 {
		t.Errorf("episodes that are not there have a total: %v", use)
	}
}

// TestEntropyInLedger: the entropy of the sampling distributions is a mean over all tokens; lessons were not drawn,
// and have none. An even choice among four has ln 4.
func TestEntropyInLedger(t *testing.T) {
	of := func(end tools.End, entropy float64, tokens int) (s trainer.Sample) {
		s.Item.Episode = &rollout.Episode{Transcript: &tools.Transcript{End: end}, Entropy: entropy}
		s.Decisions.Step = make([]int, tokens)
		return s
	}
	if got := toolUse([]trainer.Sample{of("answered", 3, 4), of("cut", 1, 4), of(rollout.Demonstrated, 0, 100)}); got["entropy"] != 0.5 {
		t.Errorf("%v a token", got["entropy"])
	}
	if _, there := toolUse([]trainer.Sample{of(rollout.Demonstrated, 0, 4)})["entropy"]; there {
		t.Error("lessons have an entropy")
	}
}
