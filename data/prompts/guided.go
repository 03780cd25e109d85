package prompts

import (
	"encoding/json"
	"fmt"
	"math"
)

// Card: guidance by the beginning of a solution (Guided GRPO and G2RPO-A; Guo et al., arXiv 2508.13023). The first of a
// group are given the first L tokens of their prompt's solution as the beginning of their answer, the others none. L
// follows how well the iterations go, in rounds of Every: with a the last one's mean score and b the mean of those
// before it in the round,
//
//	a < b:  L ← min(⌊L·b/a⌋, Most)        worse: more is given
//	a > b:  L ← max(⌊L·b/a⌋, 1)           better: less is given
//
// and where a or b is 0 or below, L stays. Upstream's rounds have three iterations, its score is that of the reward
// accuracy over all samples, guided ones too, and L begins at 3,072, which is also Most. An iteration in which nobody
// has a score is in no round.
//
// Invariants (tests): the authors' rule on recorded scores; L stays within 1 and Most; a round that a checkpoint cuts
// goes on.

// Guided is [episode.guided].
type Guided struct {
	Share  float64 `toml:"share" range:"(0,1]" doc:"of a group: these are given the beginning of the prompt's solution, which counts as their own answer and is learned from"`
	Tokens int     `toml:"tokens" range:"[1,1e7]" doc:"of the solution that are given, in the first iteration; a shorter solution is given whole"`
	Most   int     `toml:"most" range:"[1,1e7]" doc:"tokens that are ever given"`
	Every  int     `toml:"every" range:"[0,1e6]" doc:"iterations after which the number of tokens follows the scores: the last of them is compared with the mean of the others; 0: it stays"`
	Key    string  `toml:"key" doc:"of meta: the prompt's solution, a text; a prompt without it is answered alone"`
	Reward string  `toml:"reward" doc:"the reward, by its label, whose scores are compared; empty: the first that is trained on"`
}

// SetDefaults sets the code's values: two of twelve.
func (g *Guided) SetDefaults() {
	*g = Guided{Share: 1. / 6, Tokens: 3072, Most: 3072, Every: 3, Key: "solution"}
}

// Of is how many of a group are guided: its first ones.
func (g Guided) Of(group int) int { return int(math.Round(g.Share * float64(group))) }

// Check reports settings that contradict each other.
func (g Guided) Check(report func(key, problem, hint string)) {
	if g.Tokens > g.Most {
		report("most", fmt.Sprintf("%d tokens are given at first, and %d at most", g.Tokens, g.Most), "most = 3072 is published")
	}
	if g.Every == 1 {
		report("every", "an iteration is compared with those before it, and there are none", "every = 3 is published; 0: the number stays")
	}
}

// Solution returns the text of a prompt's meta under the key; "" without one.
func (g Guided) Solution(m Meta) (string, error) {
	raw, ok := m.Get(g.Key)
	if !ok {
		return "", nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("meta.%s is no text\nhint: episode.guided reads the beginning of an answer there; episode.guided.key names another key", g.Key)
	}
	return text, nil
}

// Guidance is how much is given now.
type Guidance struct {
	Tokens int       `json:"tokens"`
	Scores []float64 `json:"scores,omitempty"` // means of the round's iterations so far
}

// New is that of a run that has not begun.
func (g Guided) New() *Guidance { return &Guidance{Tokens: g.Tokens} }

// Learn takes in an iteration's mean score; NaN: nobody had one.
func (g Guided) Learn(k *Guidance, score float64) {
	switch {
	case g.Every == 0 || math.IsNaN(score):
		return
	case len(k.Scores) < g.Every-1:
		k.Scores = append(k.Scores, score)
		return
	}
	before := 0.0
	for _, s := range k.Scores {
		before += s
	}
	before /= float64(len(k.Scores))
	k.Scores = nil
	if !(score > 0 && before > 0) || score == before {
		return
	}
	moved := float64(k.Tokens) * (before / score)
	k.Tokens = int(math.Max(1, math.Min(moved, float64(g.Most))))
}
