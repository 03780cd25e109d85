package run

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// TestControl: the published rule by hand (open_r1/trainer/grpo_trainer.py: acc_mean >= 0.8 * shuffled_acc_mean, scores
// above 0.1 earn 0.3). Totals are the scores and a reward of form of 1, which the rule does not look at.
func TestControl(t *testing.T) {
	var s experiment.Shuffled
	s.SetDefaults()
	missing := math.NaN()
	for name, c := range map[string]struct {
		members, controls, bonus []float64
		groups, ahead            int
	}{
		"ahead":           {[]float64{1, 0, 1, 0}, []float64{0, 0}, []float64{0.3, 0, 0.3, 0}, 1, 1},
		"as good":         {[]float64{1, 0, 0, 0}, []float64{0, 0.25}, []float64{0.3, 0, 0, 0}, 1, 1},
		"on the bound":    {[]float64{0.8, 0.8}, []float64{1, 1}, []float64{0.3, 0.3}, 1, 1},
		"behind":          {[]float64{1, 0, 0, 0}, []float64{1, 0}, []float64{0, 0, 0, 0}, 1, 0},
		"none right":      {[]float64{0, 0.1}, []float64{0, 0}, []float64{0, 0}, 1, 1},
		"no control":      {[]float64{1, 0}, nil, []float64{0, 0}, 0, 0},
		"missing":         {[]float64{1, missing}, []float64{missing, 1}, []float64{0.3, 0}, 1, 1},
		"control missing": {[]float64{1, 0}, []float64{missing}, []float64{0, 0}, 1, 0},
	} {
		var samples []trainer.Sample
		var totals []float64
		scores := slices.Concat(c.members, c.controls)
		for i, v := range scores {
			samples = append(samples, trainer.Sample{Key: trainer.Key{Prompt: 3, Sample: i}, Control: i >= len(c.members)})
			totals = append(totals, v+1)
		}
		var all controls
		all.reward(s, samples, scores, totals)
		for i, v := range totals {
			want := scores[i] + 1
			if i < len(c.bonus) {
				want += c.bonus[i]
			}
			if v != want && (v == v || want == want) {
				t.Errorf("%s: sample %d has %v, not %v", name, i, v, want)
			}
		}
		if all.groups != c.groups || all.ahead != c.ahead {
			t.Errorf("%s: %d of %d groups are ahead", name, all.ahead, all.groups)
		}
		for i, keep := range learnable(samples, totals) {
			if keep != (i < len(c.members)) {
				t.Errorf("%s: sample %d is learned from: %v", name, i, keep)
			}
		}
		l := ledger.Line{Episodes: map[string]float64{}}
		if all.line(&l); (l.Episodes["ahead"] == 1) != (c.ahead == 1) {
			t.Errorf("%s: the ledger says %v", name, l.Episodes)
		}
	}
}

// testShuffled: a run whose groups have controls scores them, tells of them in the ledger, and neither compares nor
// learns from them; where a prompt has no clip, all of its group are learned from.
func testShuffled(t *testing.T, model string) {
	dir := t.TempDir()
	if err := video.WriteFile(filepath.Join(dir, "clip.gif"), moving.Small.Draw(moving.All()[3], moving.Place{Half: 5})); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "asked.jsonl")
	if err := os.WriteFile(list, []byte(`{"prompt": "Where does it go?", "meta": {"clip": "clip.gif", "answer": "7"}}
{"prompt": "Which digit is on the red card?", "meta": {"picture": "embed:cards/20000", "answer": "7", "target": [0, 0, 90, 90]}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	if r, err := train(t, parseText(t, talking, model, "episode.tokens=1200", "run.iterations=1", "rollout.prompts="+list, "evaluate.every=0", "evaluate.prompts=''", "optim.updates=1", "advantage.all_dead=train",
		"loss.kl.weight=0", "episode.clips={fps=0, count=4, most_pixels=3136}", "episode.shuffled={share=0.5}"), run, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	l := ledgerOf(t, run)[0]
	if _, ok := l.Episodes["shuffled"]; !ok || l.Samples != 8 || l.Total.Missing != 0 || len(l.Updates) != 1 || l.Updates[0].RatioMost != 1 {
		t.Errorf("the ledger says %+v", l)
	}
	if err := folder.ReadLines(filepath.Join(run, "samples.jsonl"), func(text []byte) error {
		var s ledger.SampleLine
		err := json.Unmarshal(text, &s)
		if control := s.Prompt == 0 && s.Sample >= 2; (s.Advantage == nil) != control || s.Total == nil {
			t.Errorf("sample %d of prompt %d: total %v, advantage %v", s.Sample, s.Prompt, s.Total, s.Advantage)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestControlsOfRolls: an iteration that rolls twice counts the controls of both rolls, each once.
func TestControlsOfRolls(t *testing.T) {
	first := &scores{controls: controls{1, 1, []float64{0.5}}}
	both := (*scores)(nil).with(first).with(&scores{controls: controls{2, 1, []float64{0, 1}}})
	if c := both.controls; c.groups != 3 || c.ahead != 2 || !slices.Equal(c.scores, []float64{0.5, 0, 1}) {
		t.Errorf("controls of both rolls: %+v", c)
	}
}
