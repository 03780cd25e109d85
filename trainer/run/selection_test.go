package run

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

func readLedger(t *testing.T, dir string) (lines []ledger.Line) {
	t.Helper()
	if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
		var l ledger.Line
		err := json.Unmarshal(text, &l)
		lines = append(lines, l)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return lines
}

// everyChoice is a run that chooses in all ways at once; samples score some thousands.
var everyChoice = []string{"rollout.resample={rolls=3}", `advantage.filter={by="mean", low=2000, high=1e9}`, "advantage.best_of=2", "rollout.buffer={iterations=2, groups=1}",
	"rollout.curriculum={memory=0.2}", "rollout.filter={samples=2, success=1500, above=0, at_most=1}", "sampler.window.kind=random"}

// TestChoiceResume: the choice of prompts and samples survives a stop, and a kill while pass rates are measured.
func TestChoiceResume(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	list := filepath.Join(t.TempDir(), "train.txt")
	text := "a red circle on white\na blue square on black\na green triangle on white\ntwo red squares on black\nthree blue circles on white\na yellow circle on black\n"
	if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	sets := append([]string{"rollout.prompts=" + list}, everyChoice...)
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	e := parse(t, sets...)
	if r, err := train(t, e, whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	want := contents(t, whole)
	for _, l := range readLedger(t, whole) {
		if c := l.Selection; c == nil || c.Rolls < 1 || c.Rolls > 3 || c.Groups > 2 || c.Learned != 2*c.Groups || c.Reused > 2 {
			t.Errorf("iteration %d: %+v", l.Iteration, c)
		}
		if u := l.Updates; len(u) > 0 && u[0].RatioMost != 1 && u[0].RatioMost != 0 {
			t.Errorf("iteration %d: the first ratio of fresh samples is %v", l.Iteration, u[0].RatioMost)
		}
	}
	reused := slices.ContainsFunc(readLedger(t, whole), func(l ledger.Line) bool { return l.Selection.Reused > 0 && l.Updates[0].Metrics["ratio_reused"] != 1 })
	again := slices.ContainsFunc(readLedger(t, whole), func(l ledger.Line) bool { return l.Selection.Rolls > 1 })
	if !reused || !again {
		t.Errorf("reused: %v, rolled again: %v", reused, again)
	}
	for _, stop := range []int{1, 3} { // with nothing kept for later, and with all
		parts := filepath.Join(dir, "parts", string(rune('0'+stop)))
		if stop == 1 { // killed while pass rates were measured
			rates, err := os.ReadFile(filepath.Join(whole, passRatesFile))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(parts, 0o755); err != nil {
				t.Fatal(err)
			}
			config, err := os.ReadFile(filepath.Join(whole, folder.Config))
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string][]byte{passRatesFile: rates[:len(rates)/2], folder.Config: config} {
				if err := os.WriteFile(filepath.Join(parts, name), text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if r, err := train(t, e, parts, stop == 1, 1, stop); err != nil || r.Status != ledger.Interrupted {
			t.Fatalf("%v, %v", r, err)
		}
		if r, err := train(t, e, parts, true, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%v, %v", r, err)
		}
		same(t, "stopped after "+string(rune('0'+stop)), want, contents(t, parts))
	}
	// One run's measurements are read by another.
	reading := append(slices.Clone(sets), "run.iterations=1", `rollout.filter.path="`+filepath.Join(whole, passRatesFile)+`"`)
	if _, err := train(t, parse(t, reading...), filepath.Join(dir, "reading"), false, 2, -1); err != nil {
		t.Fatal(err)
	}
	if a, b := readLedger(t, whole)[0].Prompts, readLedger(t, filepath.Join(dir, "reading"))[0].Prompts; !slices.Equal(a, b) {
		t.Errorf("prompts %v were rolled, and %v with rates that were read", a, b)
	}
	if _, err := train(t, parse(t, append(sets, "rollout.filter.success=1e9")...), filepath.Join(dir, "none"), false, 2, -1); err == nil || !strings.Contains(err.Error(), "leaves 0 of 6 prompts") {
		t.Errorf("a filter that leaves nothing: %v", err)
	}
}

// TestChoices: each way to choose works as documented on the embedded model.
func TestChoices(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	run := func(sets ...string) []ledger.Line {
		dir := filepath.Join(t.TempDir(), "run")
		if _, err := train(t, parse(t, append([]string{"run.iterations=1", "evaluate.every=0"}, sets...)...), dir, false, 2, -1); err != nil {
			t.Fatalf("%v: %v", sets, err)
		}
		return readLedger(t, dir)
	}
	if l := run("advantage.best_of=2")[0]; l.Selection.Learned != 4 || l.Selection.Groups != 2 {
		t.Errorf("the best and the worst of two groups: %+v", l.Selection)
	}
	if l := run(`advantage.filter={by="mean", low=0.98, high=0.99}`)[0]; l.Selection.Learned != 0 || len(l.Updates) != 0 {
		t.Errorf("a filter that keeps nothing: %+v, %d updates", l.Selection, len(l.Updates))
	}
	if l := run("rollout.resample={rolls=3, prompts=1}", `advantage.filter={by="mean", low=0.98, high=0.99}`)[0]; l.Selection.Rolls != 3 || len(l.Prompts) != 4 {
		t.Errorf("rolled %d times, prompts %v", l.Selection.Rolls, l.Prompts)
	}
	dpo := []string{"loss.objective=dpo", "advantage.estimator=ends"}
	if l := run(append(dpo, "advantage.margin=1e9")...)[0]; l.Selection.Learned != 0 || len(l.Updates) != 0 {
		t.Errorf("pairs that are to lie 1e9 apart: %+v", l.Selection)
	}
	if l := run(append(dpo, "advantage.margin=1e-9")...)[0]; l.Selection.Learned != 6 || len(l.Updates) != 2 {
		t.Errorf("pairs that lie apart: %+v", l.Selection)
	}
	if l := run("run.iterations=2", "loss.objective=nft", "rollout.buffer={groups=2}")[1]; l.Selection.Reused != 6 || len(l.Updates) != 2 {
		t.Errorf("final samples are reused: %+v", l.Selection)
	}
	relative := run(whole, `reward=[{name="clip", relative={positive="a red circle", negative="a blue square", k=0.5}}]`)[0]
	plain := run(whole, `reward=[{name="clip"}]`)[0]
	if relative.Rewards["clip"].Mean == plain.Rewards["clip"].Mean {
		t.Error("a control word changes nothing")
	}
}

// TestFilterAfterComparing: flow_grpo and Edit-R1 compare all groups, so that the batch's deviation counts them, and
// leave flat ones out of the loss alone. The same scores have other advantages where they are left out before.
func TestFilterAfterComparing(t *testing.T) {
	t.Parallel()
	scores := []float64{1, 3, 5, 5, 7, 7}
	worth := func(filter string) (advantages []float64, learned []int) {
		t.Helper()
		sets := []string{"rollout.prompts_per_iteration=3", "rollout.group=2", "advantage.estimator=global"}
		if filter != "" {
			sets = append(sets, "advantage.filter="+filter)
		}
		chosen := newSelection(parse(t, sets...), nil)
		settings, err := chosen.e.Iteration(0)
		if err != nil {
			t.Fatal(err)
		}
		selection := chosen.choice(iteration{settings: settings})
		var samples []trainer.Sample
		for i := range scores {
			samples = append(samples, trainer.Sample{Key: trainer.Key{Prompt: i / 2, Sample: i % 2}})
		}
		seen := slices.Clone(scores)
		if selection.Keep != nil {
			for i, kept := range selection.Keep(samples, scores) {
				if !kept {
					seen[i] = math.NaN()
				}
			}
		}
		options := advantage.Defaults()
		options.Scale = "batch"
		advantages, err = options.Of(trainer.GroupNumbers(samples), seen)
		if err != nil {
			t.Fatal(err)
		}
		for i := range samples {
			if advantages[i] == advantages[i] {
				learned = append(learned, i)
			}
		}
		if selection.Best != nil {
			learned = selection.Best(&trainer.Report{Samples: samples, Scores: scores, Advantages: advantages}, learned)
		}
		return advantages, learned
	}
	all, _ := worth("")
	after, learned := worth(`{by="unequal", compared=true}`)
	before, _ := worth(`{by="unequal"}`)
	if !slices.Equal(learned, []int{0, 1}) {
		t.Errorf("samples %v are learned from, and only the first group's scores differ", learned)
	}
	if !slices.Equal(after, all) || before[0] == after[0] {
		t.Errorf("advantages %v of all groups, %v of all that are compared, %v without the flat ones", all, after, before)
	}
}

// TestKeptEpisode: an episode of the buffer comes back from a checkpoint with every number of its tokens, those that an
// objective alone asks for included.
func TestKeptEpisode(t *testing.T) {
	full := trainer.Decisions{Step: []int{3, 7}, Trained: []bool{true, false}, LogProb: []float64{-1, -2}, Advantage: []float64{0.5, -0.5},
		Masked: []float64{-3, -4}, Value: []float64{0.1, 0.2}, Return: []float64{1, 2}}
	masked := full
	masked.Advantage, masked.Value, masked.Return = nil, nil, nil
	plain := masked
	plain.Masked = nil
	for name, want := range map[string]trainer.Decisions{"all": full, "masked": masked, "plain": plain} {
		key := trainer.Key{Iteration: 2, Prompt: 5, Sample: 1}
		kept, tensors, err := keepEpisode("kept.0.0", trainer.Sample{Key: key, Decisions: want}, mute{})
		if err != nil {
			t.Fatal(err)
		}
		state, err := json.Marshal(sampleState{Sample: 1, Steps: want.Step, Trained: want.Trained, Episode: kept})
		if err != nil {
			t.Fatal(err)
		}
		var s sampleState
		if err := json.Unmarshal(state, &s); err != nil {
			t.Fatal(err)
		}
		data, err := safetensors.Bytes(tensors, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Read("checkpoint", data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.episode("kept.0.0", key, f, mute{}); err != nil || !reflect.DeepEqual(got.Decisions, want) {
			t.Errorf("%s: %+v came back, %v", name, got.Decisions, err)
		}
	}
}

// mute is a model whose episodes say nothing.
type mute struct{ model.EpisodeCodec }

func (mute) Encode(trainer.Sample) (model.EncodedEpisode, error) {
	return model.EncodedEpisode{Text: json.RawMessage("{}")}, nil
}
func (mute) Decode([]trainer.Sample, []model.EncodedEpisode) error { return nil }

// TestSkip: a prompt that is always solved is rolled less and less often, every other one as often as before, and a
// run that goes on from a checkpoint rolls the same prompts as the whole run.
func TestSkip(t *testing.T) {
	begun := func() *selection {
		s := newSelection(parse(t, "rollout.skip={step=0}"), make([]prompts.Prompt, 5))
		return &s
	}
	of := func(s *selection, i int) iteration {
		settings, err := s.e.Iteration(0)
		if err != nil {
			t.Fatal(err)
		}
		return iteration{number: i, settings: settings, root: attempt{}.root(s.e.Run.Seed)}
	}
	iterate := func(r *selection, i int) (rolled []int) {
		report := &trainer.Report{}
		for _, k := range r.keys(of(r, i)) {
			score := float64(k.Sample % 2)
			if k.Prompt == 3 {
				score = 1
			}
			report.Samples, report.Scores = append(report.Samples, trainer.Sample{Key: k}), append(report.Scores, score)
			if k.Sample == 0 {
				rolled = append(rolled, k.Prompt)
			}
		}
		r.learn(of(r, i), report)
		return rolled
	}
	whole, visits := begun(), make([]int, 5)
	var later [][]int
	var kept *selectionState
	for i := range 200 {
		if i == 100 {
			kept, _, _ = whole.state(nil)
			kept.Skips = copied(kept.Skips)
		}
		rolled := iterate(whole, i)
		for _, p := range rolled {
			visits[p]++
		}
		if i >= 100 {
			later = append(later, rolled)
		}
	}
	if visits[3] > visits[0]/4 || visits[3] == 0 {
		t.Errorf("visits: %v, want few of prompt 3, and some", visits)
	}
	others := []int{visits[0], visits[1], visits[2], visits[4]}
	if slices.Max(others)-slices.Min(others) > 1 {
		t.Errorf("visits: %v, want all but prompt 3 alike", visits)
	}
	resumed := begun()
	if err := resumed.load(kept, nil, nil); err != nil {
		t.Fatal(err)
	}
	for i, want := range later {
		if got := iterate(resumed, 100+i); !slices.Equal(got, want) {
			t.Fatalf("iteration %d after going on rolls %v, want %v", 100+i, got, want)
		}
	}
	if p := whole.skips; p.Easy != 0.5 || p.Solved[3] == 0 {
		t.Errorf("learned %+v", p)
	}
}

func copied(s *prompts.Skips) *prompts.Skips {
	c := *s
	c.Solved, c.Failed = slices.Clone(s.Solved), slices.Clone(s.Failed)
	return &c
}

// TestMore: prompts that fail get further samples, which are compared with the first ones.
func TestMore(t *testing.T) {
	dir := t.TempDir()
	e := parse(t, "run.iterations=1", "evaluate.every=0", "optim.updates=1", "rollout.more={most=5, success=1e9}")
	if _, err := train(t, e, dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	line := ledgerOf(t, dir)[0]
	if c := line.Selection; line.Samples != 10 || c == nil || c.Rolls != 2 || c.Groups != 2 || c.Learned != 10 {
		t.Errorf("%d samples, %+v", line.Samples, c)
	}
	if f := line.Check; f == nil || f.Ratio != 1 {
		t.Errorf("the check is %+v", f)
	}
}

// TestBan: a prompt whose samples all do well is rolled no more, after going on from a checkpoint either; one whose
// samples differ stays, and so do as many as an iteration has.
func TestBan(t *testing.T) {
	begun := func() *selection {
		s := newSelection(parse(t, "rollout.ban={}"), make([]prompts.Prompt, 5))
		return &s
	}
	of := func(s *selection, i int) iteration {
		settings, err := s.e.Iteration(0)
		if err != nil {
			t.Fatal(err)
		}
		return iteration{number: i, settings: settings, root: attempt{}.root(s.e.Run.Seed)}
	}
	iterate := func(r *selection, i int, well ...int) (rolled []int) {
		report := &trainer.Report{}
		for _, k := range r.keys(of(r, i)) {
			score := 0.92
			switch {
			case slices.Contains(well, k.Prompt):
			case k.Prompt == 0: // as good on average, and not alike
				score = 0.85 + 0.1*float64(k.Sample)
			default:
				score = 0.5
			}
			report.Samples, report.Scores = append(report.Samples, trainer.Sample{Key: k}), append(report.Scores, score)
			if k.Sample == 0 {
				rolled = append(rolled, k.Prompt)
			}
		}
		r.learn(of(r, i), report)
		return rolled
	}
	r, visits := begun(), make([]int, 5)
	for i := range 20 {
		for _, p := range iterate(r, i, 3) {
			visits[p]++
		}
	}
	if visits[3] != 1 || visits[0]+visits[1]+visits[2]+visits[4] != 39 || slices.Min([]int{visits[0], visits[1], visits[2], visits[4]}) < 9 {
		t.Errorf("visits: %v, want one of prompt 3 and as many of each other", visits)
	}
	kept, _, _ := r.state(nil)
	resumed := begun()
	if err := resumed.load(kept, nil, nil); err != nil {
		t.Fatal(err)
	}
	for i := 20; i < 30; i++ {
		if got, want := iterate(resumed, i, 3), iterate(r, i, 3); !slices.Equal(got, want) || slices.Contains(got, 3) {
			t.Errorf("iteration %d after going on rolls %v, want %v", i, got, want)
		}
	}
	for i := 30; i < 60; i++ {
		if rolled := iterate(r, i, 0, 1, 2, 3, 4); len(rolled) != 2 {
			t.Fatalf("iteration %d rolls %v", i, rolled)
		}
	}
	if n := len(r.banned); n != 3 {
		t.Errorf("%d of 5 prompts are banned, where an iteration has 2", n)
	}
}
