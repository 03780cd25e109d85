package conversations

import (
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer"
)

// How tools are used, and how much a prompt's episodes differ: the ledger's "episodes" and "diversity".

// toolUse is how an iteration's episodes used tools, by name: what a monitor watches as
// "episode.NAME".
func toolUse(samples []trainer.Sample) map[string]float64 {
	sums := map[string]float64{}
	n, calls, entropy, drawn := 0.0, 0.0, 0.0, 0.0
	for _, s := range samples {
		e := EpisodeOf(s)
		n++
		made, refused := e.ToolCalls()
		calls += float64(made)
		sums["calls"] += float64(made)
		sums["refused_calls"] += float64(refused)
		sums["turns"] += float64(len(e.Turns))
		sums["pictures"] += float64(len(e.Shots))
		sums["tokens"] += float64(len(s.Decisions.Step))
		if e.End != told {
			entropy, drawn = entropy+e.Entropy, drawn+float64(len(s.Decisions.Step)-e.Given)
		}
		if e.Lost != nil {
			sums["lost"]++
		}
		if e.Given > 0 {
			sums["given"] += float64(e.Given)
		}
		if e.Defused > 0 { // special tokens that the model wrote into what came back to it
			sums["defused"] += float64(e.Defused)
		}
		for name, is := range map[string]bool{"called": made > 0, "answered": e.End == "answered", "over": e.Over, "cut": e.End == "cut"} {
			if is {
				sums[name]++
			} else {
				sums[name] += 0
			}
		}
	}
	if n == 0 {
		return nil
	}
	for name := range sums {
		if name == "refused_calls" {
			sums[name] /= max(1, calls)
		} else {
			sums[name] /= n
		}
	}
	if drawn > 0 {
		sums["entropy"] = entropy / drawn // a token
	}
	return sums
}

// worths adds the mean total of episodes that called a tool, and of those that did not: what looking closer is worth.
func worths(use map[string]float64, samples []trainer.Sample, totals []float64) {
	sums, n := map[string]float64{}, map[string]float64{}
	for i, s := range samples {
		if math.IsNaN(totals[i]) {
			continue
		}
		name := "score_direct"
		if made, _ := EpisodeOf(s).ToolCalls(); made > 0 {
			name = "score_called"
		}
		sums[name], n[name] = sums[name]+totals[i], n[name]+1
	}
	for name, sum := range sums {
		use[name] = sum / n[name]
	}
}

// differ is the share of pairs of a prompt's episodes that say different things.
func differ(samples []trainer.Sample, groups [][]int) float64 {
	different, pairs := 0.0, 0.0
	for _, g := range groups {
		for k, i := range g {
			for _, j := range g[:k] {
				pairs++
				if strings.Join(EpisodeOf(samples[i]).Texts, "\n") != strings.Join(EpisodeOf(samples[j]).Texts, "\n") {
					different++
				}
			}
		}
	}
	return different / max(1, pairs)
}
