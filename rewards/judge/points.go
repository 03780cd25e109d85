package judge

import (
	"regexp"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: marks in a judge's words. The first "Final Score:" or "Alignment Score (1-5):" counts,
// and of its number one digit and what follows a point: 45 is read as 4, and 5.9 passes.
//
//	FinalFrom1   flow_grpo: 1 to 5. Upstream makes 0 of what it cannot read
//	Final        MixGRPO: 0 to 5. Upstream makes null of it, which fails the whole batch
//	Alignment    MixGRPO, of its longer question
//	Tag          flow_grpo's qwenvl: <Score>digits</Score> over 5, not bounded; 0 if unreadable
//
// Invariant (test): what is not there is not read.

const digits = `(?:\.\p{Nd}+)?`

var (
	finalFrom1 = regexp.MustCompile(`Final Score:` + pytext.SpaceClass + `*([1-5]` + digits + `)`)
	final      = regexp.MustCompile(`Final Score:` + pytext.SpaceClass + `*([0-5]` + digits + `)`)
	alignment  = regexp.MustCompile(`Alignment Score \(1-5\):` + pytext.SpaceClass + `*([0-5]` + digits + `)`)
	tagged     = regexp.MustCompile(`<Score>(\p{Nd}+)</Score>`)
)

func mark(r *regexp.Regexp, reply string) (float64, bool) {
	m := r.FindStringSubmatch(reply)
	if m == nil {
		return 0, false
	}
	return pytext.Float(m[1])
}

// FinalFrom1 is flow_grpo's mark, 1 to 5.
func FinalFrom1(reply string) (float64, bool) { return mark(finalFrom1, reply) }

// Final is MixGRPO's mark, 0 to 5.
func Final(reply string) (float64, bool) { return mark(final, reply) }

// Alignment is MixGRPO's mark for what was asked for, 0 to 5.
func Alignment(reply string) (float64, bool) { return mark(alignment, reply) }

// Tag is the mark of flow_grpo's aesthetic judge, over 5.
func Tag(reply string) (float64, bool) {
	v, ok := mark(tagged, reply)
	return v / 5, ok
}
