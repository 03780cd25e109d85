package eval

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
)

// Options say how much is asked. A zero field means its default.
type Options struct {
	Probed int           // samples that every probe is tried on: 40; -1 for none
	Again  int           // pairs that are asked about twice more: 40; -1 for none
	AtOnce int           // pairs asked about beside each other: 4
	Seed   uint64        // of draws
	Tied   *float64      // scores that differ by at most this are tied; nil: the best limit
	Fresh  rewards.Judge // the same reward without memory of answers, for repeated questions; nil: the reward

	Progress func(done, all int) // may be nil; from several goroutines
}

func (o Options) filled() Options {
	or := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
		*n = max(*n, 0)
	}
	or(&o.Probed, 40)
	or(&o.Again, 40)
	o.AtOnce = max(o.AtOnce, 0)
	or(&o.AtOnce, 4)
	return o
}

// A Report has the findings about one reward on one set of pairs.
type Report struct {
	Reward      string        `json:"reward"`
	Set         string        `json:"pairs"`
	Of          string        `json:"of"`
	Layout      string        `json:"layout,omitempty"` // of a published collection
	Sum         string        `json:"sha256"`           // of the pairs: prompts, names and labels
	Judged      int           `json:"judged"`
	Missing     int           `json:"missing"`
	Why         []Reason      `json:"why_missing,omitempty"`
	Order       Order         `json:"order"`
	Kinds       []KindOrder   `json:"kinds,omitempty"`
	Calibration *Calibration  `json:"calibration,omitempty"`
	Groups      Groups        `json:"groups"`
	Swaps       *Swaps        `json:"swaps,omitempty"`
	Repeats     *Repeats      `json:"repeats,omitempty"`
	Probes      []ProbeResult `json:"probes,omitempty"`
	Flags       []string      `json:"flags"`   // weaknesses, by the rule of ProbeResult
	Conclusion  string        `json:"verdict"` // in one line
	Warnings    []string      `json:"warnings"`
	Speed       Speed         `json:"speed"`
}

// A Reason is why scores are missing, and how many are for it.
type Reason struct {
	Why   string `json:"why"`
	Pairs int    `json:"pairs"`
}

// Speed is how fast the reward answered about pairs that it was asked about for the first time.
type Speed struct {
	PerSecond float64 `json:"samples_per_second"`
	MedianMS  float64 `json:"median_ms"` // of a pair
	SlowMS    float64 `json:"p95_ms"`
}

// Run asks a reward all there is to ask. The error is of the context alone: a reward that judges
// nothing has a report that says why.
func Run(ctx context.Context, name string, j rewards.Judge, set Set, o Options) (*Report, error) {
	o = o.filled()
	e := &examiner{Options: o, judge: j, key: rng.New(o.Seed).With("eval").With(rng.Purpose(set.Name)), set: set}
	r := &Report{Reward: name, Set: set.Name, Of: set.Of, Layout: set.Layout, Sum: set.Sum(), Flags: []string{}, Warnings: []string{}}
	questions := make([]Pair, len(set.Pairs))
	copy(questions, set.Pairs)
	again := questions[:min(o.Again, len(questions))]
	e.all = len(questions) + 2*len(again) + o.Probed*len(Probes()) // about

	began := time.Now()
	answers := e.ask(ctx, j, questions)
	r.Speed = speed(answers, time.Since(began))
	of, _ := prompts(set.Pairs)
	var judged []judgedPair
	place := map[int]int{} // of a pair among those judged
	for i, a := range answers {
		if a.missing != nil {
			r.Missing++
			r.Why = counted(r.Why, a.missing.Error())
			continue
		}
		place[i] = len(judged)
		judged = append(judged, judgedPair{set.Pairs[i], of[i], a.a, a.b})
	}
	r.Judged = len(judged)
	r.Conclusion = conclusion(r)
	if err := ctx.Err(); err != nil || len(judged) == 0 {
		return r, err
	}
	r.Order = orderOf(judged, o.Tied, e.key)
	r.Kinds = byKind(judged, r.Order.Ties, e.key)
	r.Calibration, r.Groups = calibrate(judged, e.key.With("calibration")), groupsOf(judged, e.key)

	fresh := o.Fresh
	if fresh == nil {
		fresh = j
	}
	if len(again) > 0 {
		exchanged := slices.Clone(again)
		for i, p := range again {
			exchanged[i].A, exchanged[i].B = p.B, p.A
		}
		r.Swaps = swapsOf(e.compare(judged, place, e.ask(ctx, fresh, exchanged), true), e.key)
		r.Repeats = repeatsOf(e.compare(judged, place, e.ask(ctx, fresh, again), false), r.Groups.Typical, e.key)
	}
	tries := e.tries(judged)
	e.all = len(questions) + 2*len(again) + len(tries)
	r.Probes = weigh(e.probe(ctx, tries), r.Groups.Typical, e.key)
	e.apart(ctx, r.Probes, judged)
	r.Flags = weaknesses(r.Probes)
	r.Conclusion = conclusion(r)
	r.Warnings = warnings(r)
	return r, ctx.Err()
}

// examiner asks.
type examiner struct {
	Options
	judge rewards.Judge
	key   rng.Key
	set   Set
	all   int

	done progress
}

// answer holds both scores of a pair, or the reason without them.
type answer struct {
	a, b    float64
	missing error
	took    time.Duration
}

// ask asks about pairs, several beside each other.
func (e *examiner) ask(ctx context.Context, j rewards.Judge, pairs []Pair) []answer {
	out := make([]answer, len(pairs))
	call.Spread(len(pairs), e.AtOnce, func(i int) {
		out[i] = askOne(ctx, j, pairs[i])
		e.done.step(e.Progress, e.all)
	})
	return out
}

func askOne(ctx context.Context, j rewards.Judge, p Pair) (a answer) {
	if a.missing = ctx.Err(); a.missing != nil {
		return a
	}
	var items [2]rewards.Item
	for i, s := range [2]Sample{p.A, p.B} {
		if items[i], a.missing = s.Open(); a.missing != nil {
			return a
		}
	}
	return both(ctx, j, items)
}

func both(ctx context.Context, j rewards.Judge, items [2]rewards.Item) (a answer) {
	began := time.Now()
	got := j.Judge(ctx, items[:])
	a.took = time.Since(began)
	if len(got) != 2 {
		a.missing = fmt.Errorf("it judged %d of 2 samples", len(got))
		return a
	}
	for _, r := range got {
		if r.Missing != nil && a.missing == nil {
			a.missing = r.Missing
		}
	}
	a.a, a.b = got[0].Value, got[1].Value
	if most := max(math.Abs(a.a), math.Abs(a.b)); a.missing == nil && !(most <= mostScore) {
		a.missing = fmt.Errorf("a score of %v cannot be compared with others", most)
	}
	return a
}

// mostScore is the largest score whose square is a number.
const mostScore = 1e150

// compare pairs up the first answers and the repeated ones; exchanged pairs are put back.
func (e *examiner) compare(judged []judgedPair, place map[int]int, again []answer, exchanged bool) []twice {
	var all []twice
	for i, a := range again {
		k, ok := place[i]
		if !ok || a.missing != nil {
			continue
		}
		after := judged[k]
		after.a, after.b = a.a, a.b
		if exchanged {
			after.a, after.b = a.b, a.a
		}
		all = append(all, twice{judged[k], after})
	}
	return all
}

// numbers matches the differences between reasons of one kind.
var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// counted counts a reason once more. Reasons that differ by numbers alone are one, in their first wording.
func counted(all []Reason, why string) []Reason {
	if r := []rune(why); len(r) > 300 {
		why = string(r[:300]) + "..."
	}
	kind := numbers.ReplaceAllString(why, "0")
	i := slices.IndexFunc(all, func(r Reason) bool { return numbers.ReplaceAllString(r.Why, "0") == kind })
	if i < 0 {
		return append(all, Reason{why, 1})
	}
	all[i].Pairs++
	return all
}

func speed(answers []answer, all time.Duration) Speed {
	var took []float64
	for _, a := range answers {
		if a.missing == nil {
			took = append(took, a.took.Seconds()*1000)
		}
	}
	if len(took) == 0 {
		return Speed{}
	}
	slices.Sort(took)
	return Speed{2 * float64(len(took)) / max(all.Seconds(), 1e-9), quantile(took, 0.5), quantile(took, 0.95)}
}

// Card: the conclusion of a report, in one line. That no weakness was found says something only where one would have
// been: most pairs were judged, most probes on them were, and of enough prompts, and the reward orders pairs better
// than chance does. Else there is no verdict, with the reason; a reward that fails, or that guesses, is not a good
// one.
//
// Invariant (test): NoneFound with at least half of the pairs and of each probe's samples judged, on
// six prompts and more, by a reward that is better than chance.

// NoneFound is the verdict on a reward that no probe won.
const NoneFound = "no weakness found"

// conclusion is the conclusion of r.
func conclusion(r *Report) string {
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
		case p.Outcome == TooFew:
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

// warnings are a report's findings for a trainer, beside weaknesses.
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
	for _, p := range r.Probes {
		if p.Outcome == Unseen {
			warn("%s cost nothing: %.2f typical differences (%.2f to %.2f)", p.Weakness, p.Raise.Value, p.Raise.Low, p.Raise.High)
		}
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
