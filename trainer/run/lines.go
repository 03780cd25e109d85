package run

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// What is kept of an iteration: its line in the ledger, and a line a sample.

// line is what the ledger says of an iteration.
func (t *training) line(i int, r *trainer.Report) *ledger.Line {
	l := &ledger.Line{Iteration: i + 1, Attempt: t.state.Attempt, Measuring: t.state.Measuring, Stage: t.now.turn.Stage, Window: t.now.turn.Trained, Passed: r.Passed, Samples: len(r.Samples),
		Total: ledger.SpreadOf(t.totals(r.Samples, r.Scores)), Rewards: map[string]ledger.Spread{}}
	if l.Skipped = r.Skipped; len(r.Samples) == 0 { // they hold numbers that are not finite
		none := math.NaN()
		l.Total = ledger.Spread{Mean: none, Std: none, Least: none, Most: none}
		return l
	}
	all := trainer.Groups(r.Samples)
	for _, g := range all {
		l.Prompts = append(l.Prompts, r.Samples[g[0]].Key.Prompt)
	}
	l.Lists = t.listed(l.Prompts)
	if !t.now.turn.Taught() {
		for _, j := range t.rewards.all {
			l.Rewards[j.name] = ledger.SpreadOf(t.now.scored.numbers(j.name))
		}
		scores := members(r.Samples, r.Scores)
		l.Dead, l.Spread = ledger.Within(all, scores)
		t.describe(l, scores, all)
	}
	t.model.Describe(l, r)
	t.now.controls.line(l)
	t.account(l, r)
	l.Check = t.now.check
	l.Passes = t.model.Passes()
	for _, u := range r.Updates {
		l.Updates = append(l.Updates, ledger.UpdateOf(u))
	}
	return l
}

// record appends to the ledger and to the samples.
func (t *training) record(r *trainer.Report, line *ledger.Line) error {
	if len(r.Samples) == 0 {
		return t.files.ledger.Append(line)
	}
	shown, err := t.model.Record(model.Outputs{Folder: t.files.folder, Lines: t.files.further}, line, r)
	if err != nil {
		return err
	}
	sized := t.varied()
	for i, s := range r.Samples {
		var size []int
		if m := s.Item.Image; m != nil && sized {
			size = []int{m.Width, m.Height}
		}
		var sources []string
		if shown[i] != "" {
			if sources, err = t.keepSources(s.Item.Sources); err != nil {
				return err
			}
		}
		if err := t.files.samples.Append(ledger.SampleLine{Iteration: line.Iteration, Attempt: line.Attempt, Prompt: s.Key.Prompt, Sample: s.Key.Sample, Text: t.train[s.Key.Prompt].Text,
			Total: ledger.Number(r.Scores[i]), Advantage: ledger.Number(r.Advantages[i]), Scores: t.now.scored.lines(i), Size: size, Picture: shown[i], Sources: sources}); err != nil {
			return err
		}
	}
	return t.files.ledger.Append(line)
}

// varied reports whether an iteration's pictures may have several sizes.
func (t *training) varied() bool {
	return len(t.now.turn.Asked()) > 1 || slices.ContainsFunc(t.train, prompts.Prompt.Sized)
}
