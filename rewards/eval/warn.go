package eval

import (
	"fmt"
	"sync/atomic"
)

// warnings are what a report says that a trainer should know, beside weaknesses.
func warnings(r *Report) []string {
	all := []string{}
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if n := r.Judged + r.Missing; 20*r.Missing > n {
		warn("%d of %d pairs have no score", r.Missing, n)
	}
	if a := r.Order.Accuracy; a != nil {
		switch {
		case a.High < 0.5:
			warn("it prefers the worse of two: %.0f %% of pairs in order (%.0f to %.0f)", 100*a.Value, 100*a.Low, 100*a.High)
		case a.Low <= 0.5:
			warn("no better than chance on these pairs: %.0f %% in order (%.0f to %.0f)", 100*a.Value, 100*a.Low, 100*a.High)
		}
	}
	if r.Groups.Dead > 0.2 {
		warn("%.0f %% of prompts have samples of one score: nothing can be learnt from them", 100*r.Groups.Dead)
	}
	if s := r.Swaps; s != nil && s.First != nil && (s.First.Low > 0 || s.First.High < 0) {
		where := "first"
		if s.First.Value < 0 {
			where = "second"
		}
		warn("it prefers what is shown %s: %.2f (%.2f to %.2f); ask in both orders", where, s.First.Value, s.First.Low, s.First.High)
	}
	if s := r.Repeats; s != nil && s.Same != nil && s.Same.Value < 0.9 {
		warn("asked again it agrees with itself on %.0f %% of pairs", 100*s.Same.Value)
	}
	return all
}

// progress counts questions.
type progress struct{ n atomic.Int64 }

func (p *progress) step(say func(done, all int), all int) {
	if n := p.n.Add(1); say != nil {
		say(int(n), all)
	}
}
