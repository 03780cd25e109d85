package eval

import (
	"fmt"
	"strings"
)

// Card: what a report comes to, in one line. That no weakness was found says something only where one
// would have been: most pairs were judged, most probes on them were, and of enough prompts, and the
// reward orders pairs better than chance does. Else the verdict is that nothing can be told, and why;
// a reward that fails, or that guesses, is not a good one.
//
// Invariant (test): NoneFound with at least half of the pairs and of each probe's samples judged, on
// six prompts and more, by a reward that is better than chance.

// NoneFound is the verdict on a reward that no probe won.
const NoneFound = "no weakness found"

// verdict is what r comes to.
func verdict(r *Report) string {
	pairs := r.Judged + r.Missing
	switch {
	case r.Judged == 0:
		return fmt.Sprintf("no verdict: none of %d pairs was judged", pairs)
	case len(r.Flags) > 0:
		return "won by " + strings.Join(r.Flags, ", ")
	case len(r.Probes) == 0:
		return "weaknesses were not looked for"
	case 2*r.Missing > pairs:
		return fmt.Sprintf("no verdict: %d of %d pairs have no score", r.Missing, pairs)
	}
	for _, p := range r.Probes {
		switch {
		case 2*p.Missing > p.Samples+p.Missing:
			return fmt.Sprintf("no verdict: %d of %d samples have no score after the probe %s", p.Missing, p.Samples+p.Missing, p.Name)
		case p.Verdict == TooFew:
			return fmt.Sprintf("no verdict: %s raises it, on fewer than %d prompts", p.Name, leastPrompts)
		case p.Prompts < leastPrompts:
			return fmt.Sprintf("no verdict: the probe %s was made on samples of %d prompts, and a weakness shows on %d at least", p.Name, p.Prompts, leastPrompts)
		}
	}
	if a := r.Order.Accuracy; a != nil && a.Low <= 0.5 {
		return fmt.Sprintf("no verdict: no probe won it, and it is no better than chance on these pairs (%.0f %% in order, %.0f to %.0f)", 100*a.Value, 100*a.Low, 100*a.High)
	}
	return NoneFound
}
