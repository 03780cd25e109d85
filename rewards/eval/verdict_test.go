package eval

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
)

// TestVerdict: nothing is told of a reward that judged too little of pairs or probes.
func TestVerdict(t *testing.T) {
	probe := func(samples, missing int, is string) ProbeResult {
		return ProbeResult{Probe: Probe{Name: "grain"}, Samples: samples, Prompts: samples, Missing: missing, Verdict: is}
	}
	order := func(low float64) Order { return Order{Accuracy: &Interval{0.75, low, 0.9}} }
	for _, c := range []struct {
		r    Report
		want string
	}{
		{Report{Missing: 224}, "none of 224"},
		{Report{Judged: 56, Missing: 168, Probes: []ProbeResult{probe(40, 0, Fine)}}, "168 of 224 pairs"},
		{Report{Judged: 224, Probes: []ProbeResult{probe(40, 0, Fine), probe(10, 30, Fine)}}, "30 of 40 samples have no score after the probe grain"},
		{Report{Judged: 5, Probes: []ProbeResult{probe(5, 0, TooFew)}}, "fewer than 6 prompts"},
		{Report{Judged: 224}, "not looked for"},
		{Report{Judged: 10, Missing: 200, Flags: []string{"large files"}, Probes: []ProbeResult{probe(10, 0, Weak)}}, "won by large files"},
		{Report{Judged: 112, Missing: 112, Probes: []ProbeResult{probe(20, 20, Fine), probe(40, 0, SideEffect)}}, NoneFound},
		{Report{Judged: 112, Order: order(0.6), Probes: []ProbeResult{probe(40, 0, Fine)}}, NoneFound},
		{Report{Judged: 112, Order: order(0.45), Probes: []ProbeResult{probe(40, 0, Fine)}}, "no better than chance on these pairs (75 % in order, 45 to 90)"},
		{Report{Judged: 112, Order: order(0.6), Probes: []ProbeResult{probe(2, 0, Fine)}}, "on samples of 2 prompts"},
	} {
		if got := verdict(&c.r); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c.r, got)
		}
	}
}

// TestVerdictOfFailing: a reward that fails on most prompts is not called free of weaknesses.
func TestVerdictOfFailing(t *testing.T) {
	set := Scenes()
	set.Pairs = set.Pairs[:40]
	failing := rewards.Func(func(ctx context.Context, item rewards.Item) (rewards.Score, error) {
		if len(item.Prompt)%4 > 0 {
			return rewards.Score{}, errors.New("the prompt cannot be read")
		}
		return rewards.SceneTask{}.Score(ctx, item)
	})
	r, err := Run(t.Context(), "failing", rewards.Each(failing, 1), set, Options{Probed: 4, Again: -1})
	if err != nil || 2*r.Missing <= len(set.Pairs) || r.Judged == 0 || !strings.Contains(r.Verdict, "no verdict") {
		t.Errorf("%d judged, %d missing: %s, %v", r.Judged, r.Missing, r.Verdict, err)
	}
}
