package main

import (
	"fmt"
	"strings"
)

// mostSeeds is how many runs of a preset are looked for.
const mostSeeds = 3

// reference is the preset whose cost is 1, of each kind.
var reference = map[string]string{"generators": "flow_grpo", "episodes": "drgrpo"}

// pageOf is the page of a folder's finished runs.
func pageOf(out string) (string, error) {
	var b strings.Builder
	b.WriteString(head)
	for _, kind := range []string{"generators", "episodes"} {
		text, err := tableOf(out, kind)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

const head = `# Results

Written by ` + "`make results`" + ` from finished runs: every preset on the embedded model of its kind, under one configuration
(internal/methods/generator.toml and zoom.toml: what is trained, prompts, reward, learning rate, samples of an
iteration, iterations). All else is the preset's own, tuned by its authors for models a thousand times as large: this
table says what a preset does unchanged on a small one, and not which method is better.

"Gain" is the trained reward on held-out prompts after training less before, a number a seed, from seed 1 on where the
note names no others. "CPU minutes" are those that a run took of the processor, both evaluations included, as the mean
over its seeds; unlike minutes of a clock they depend little on what else the machine does. "Gain a CPU minute" is the
mean gain over these minutes, and "cost" is them over those of the preset that is named above the table. A gain whose
sign differs from seed to seed may be chance. Episodes are used for one update each here: presets that differ only in
how they treat later updates (` + "`gspo` and `sapo`" + `) have the same numbers.

`

// tableOf is a kind's table.
func tableOf(out, kind string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\nCost 1 is `%s`.\n\n| preset | gain of each seed | mean gain | CPU minutes | gain a CPU minute | cost | note |\n|---|---|---|---|---|---|---|\n", strings.ToUpper(kind[:1])+kind[1:], reference[kind])
	one := 0.0
	rows := map[string][]trial{}
	for _, e := range entries() {
		for seed := 1; e.kind() == kind && seed <= mostSeeds; seed++ {
			t, done, err := e.finished(out, seed)
			if err != nil {
				return "", fmt.Errorf("%s: %w", e.folder(out, seed), err)
			}
			if done {
				rows[e.preset] = append(rows[e.preset], t)
			}
		}
		if e.preset == reference[kind] {
			one = minutes(rows[e.preset])
		}
	}
	for _, e := range entries() {
		if e.kind() == kind {
			b.WriteString(e.row(rows[e.preset], e.failures(out), one))
		}
	}
	return b.String() + "\n", nil
}

// row is a preset's line; one is the minutes of its baseline, 0 without a run of it.
func (e entry) row(trials []trial, failed []string, one float64) string {
	notes := failed
	if e.note != "" {
		notes = append(notes, e.note)
	}
	if len(trials) == 0 {
		why := e.why
		if why == "" {
			why = "not run"
		}
		return fmt.Sprintf("| `%s` | | | | | | %s |\n", e.preset, strings.Join(append([]string{why}, notes...), "; "))
	}
	var gains []string
	sum := 0.0
	for _, t := range trials {
		gains, sum = append(gains, fmt.Sprintf("%+.4f", t.after-t.before)), sum+t.after-t.before
	}
	if len(trials) < mostSeeds {
		notes = append([]string{"seed" + numbers(trials) + " alone"}, notes...)
	}
	mean, took, cost := sum/float64(len(trials)), minutes(trials), ""
	if mean <= 0 {
		notes = append([]string{"no gain"}, notes...)
	}
	if one > 0 {
		cost = fmt.Sprintf("%.2f", took/one)
	}
	return fmt.Sprintf("| `%s` | %s | %+.4f | %.1f | %+.4f | %s | %s |\n", e.preset, strings.Join(gains, ", "), mean, took, mean/took, cost, strings.Join(notes, "; "))
}

// numbers are the seeds of some trials: " 1", or "s 1, 3".
func numbers(trials []trial) string {
	var all []string
	for _, t := range trials {
		all = append(all, fmt.Sprint(t.seed))
	}
	if len(all) == 1 {
		return " " + all[0]
	}
	return "s " + strings.Join(all, ", ")
}

// minutes are the processor's, as the mean over trials.
func minutes(trials []trial) float64 {
	s := 0.0
	for _, t := range trials {
		s += t.cpu / 60
	}
	return s / float64(max(1, len(trials)))
}
