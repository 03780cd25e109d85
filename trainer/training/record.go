package training

import "github.com/darkroom-rl/darkroom/trainer"

// What is kept of an iteration: its line in the ledger, and a line a sample.

// line is what the ledger says of an iteration.
func (t *Training) line(i int, r *trainer.Report) *Line {
	l := &Line{Iteration: i + 1, Attempt: t.again.Attempt, Stage: t.turn.Stage, Window: t.turn.Trained, Passed: r.Passed, Samples: len(r.Samples), Total: spreadOf(r.Scores), Rewards: map[string]Spread{}}
	all := groups(r.Samples)
	for _, g := range all {
		l.Prompts = append(l.Prompts, r.Samples[g[0]].Key.Prompt)
	}
	for _, j := range t.judges {
		l.Rewards[j.name] = spreadOf(t.scored.numbers(j.name))
	}
	l.Dead, l.Spread = within(all, r.Scores)
	l.Diversity = diversity(r.Samples, all)
	l.Episodes = toolUse(r.Samples)
	if t.Episode != nil && t.Episode.Noisy != nil {
		l.Noisy = noisy(r.Samples, t.Episode.Noisy.Old == "rolled")
	}
	if t.Episode != nil && t.turn.Advantage.Estimator == "remax" {
		l.Episodes["greedy"] = t.likely.Mean
	}
	t.describe(l, r, all)
	t.account(l, r)
	l.Check = t.check
	l.Passes = t.model.passes()
	for _, u := range r.Updates {
		l.Updates = append(l.Updates, update(u))
	}
	return l
}

// record appends to the ledger and to the samples.
func (t *Training) record(r *trainer.Report, line *Line) error {
	shown, err := t.extremes(r, line)
	if err != nil {
		return err
	}
	for i, s := range r.Samples {
		if err := t.samples.Append(SampleLine{Iteration: line.Iteration, Attempt: line.Attempt, Prompt: s.Key.Prompt, Sample: s.Key.Sample, Text: t.train[s.Key.Prompt].Text,
			Total: number(r.Scores[i]), Advantage: number(r.Advantages[i]), Scores: t.scored.lines(i), Picture: shown[i]}); err != nil {
			return err
		}
	}
	if err := t.recordEpisodes(r, line); err != nil {
		return err
	}
	return t.ledger.Append(line)
}
