package eval

import (
	"fmt"
	"strings"
)

// Card: reports as a page of Markdown, for people who compare rewards: accuracies with intervals, by source, and all
// that they depend on.

// A Setup is all that reports depend on beside rewards and pairs.
type Setup struct {
	Command string // the flags
	Seed    uint64
	Program string // its version
}

// CardOf is the page.
func CardOf(reports []*Report, s Setup) string {
	var b strings.Builder
	w := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	w("# Rewards on labelled pairs")
	for _, r := range reports {
		r.card(w)
	}
	w("\n## Setup\n\n| | |\n|---|---|")
	w("| command | `%s` |", inCell(s.Command))
	w("| seed | %d |", s.Seed)
	w("| program | %s |", s.Program)
	w("\nIntervals are of 95 %%, bootstraps over prompts. Accuracy is of pairs with a better one, where equal scores count")
	w("half. With ties, a pair is right where label and scores say the same, a tie among them (Deutsch et al. 2023); points")
	w("give a half where one of both is a tie (Pick-a-Pic).")
	return b.String()
}

// inCell is a text that does not end a table's cell.
func inCell(text string) string {
	return strings.NewReplacer("|", "/", "`", "'", "\n", " ").Replace(text)
}

// percent is a share with its interval, in per cent.
func percent(i *Interval) string {
	if i == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*i.Value, 100*i.Low, 100*i.High)
}

// card is the part of one report.
func (r *Report) card(w func(format string, a ...any)) {
	w("\n## %s on %s", inCell(r.Reward), inCell(r.Set))
	if r.Layout != "" {
		w("\nLayout: %s.", r.Layout)
	}
	w("\n| source | pairs with a better one | accuracy | with ties, of all pairs |\n|---|---|---|---|")
	ties := r.Order.Ties
	all := "-"
	if ties != nil {
		all = percent(ties.Accuracy)
	}
	w("| **all** | %d | %s | %s |", r.Order.Pairs, percent(r.Order.Accuracy), all)
	for _, k := range r.Kinds {
		w("| %s | %d | %s | %s |", inCell(k.Kind), k.Pairs, percent(k.Accuracy), percent(k.WithTies))
	}
	w("\n| | |\n|---|---|")
	w("| pairs with both scores | %d of %d |", r.Judged, r.Judged+r.Missing)
	w("| equal scores | %d |", r.Order.Equal)
	if t := r.Order.Tau; t != nil {
		w("| Kendall's tau-b | %.3f (%.3f to %.3f) |", t.Value, t.Low, t.High)
	}
	if ties != nil {
		w("| tied labels | %d of %d |", ties.Labelled, ties.Pairs)
		w("| scores are tied up to a difference of | %.6g |", ties.Limit)
		w("| points | %s, tied up to %.6g |", percent(ties.Points), ties.Half)
	}
	w("| pairs | SHA-256 `%s` |", r.Sum)
	w("| conclusion | %s |", inCell(r.Conclusion))
	for _, text := range r.Warnings {
		w("| warning | %s |", inCell(text))
	}
	for _, why := range r.Why {
		w("| missing | %d pairs: %s |", why.Pairs, inCell(why.Why))
	}
}
