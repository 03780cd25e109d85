package eval

import (
	"fmt"
	"strings"
)

// Card: what a report comes to, in one line. That no weakness was found says something only where one
// would have been: most pairs were judged, most probes on them were, and of enough prompts. Else the
// verdict is that nothing can be told, and why; a reward that fails is not a good one.
//
// Invariant (test): NoneFound with at least half of the pairs and of each probe's samples judged.

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
		}
	}
	return NoneFound
}
