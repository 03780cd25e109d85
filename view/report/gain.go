package report

import (
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// A Gain is how much a held-out reward rose from before training to the latest evaluation, with a 95 % interval.
//
// Both evaluations draw from the same seeds, so the interval is of the differences of single prompts where the run's
// folder has their scores (Paired). Where it has not, the two measures' own intervals are added as if they were
// independent, which is wider.
type Gain struct {
	Name      string          `json:"name"`
	Kind      string          `json:"kind"` // trained, gold, total
	Before    *ledger.Measure `json:"before"`
	After     *ledger.Measure `json:"after"`
	Iteration int             `json:"iteration"` // that After was measured after
	Known     bool            `json:"known"`     // both were measured
	Value     float64         `json:"value"`
	Low       float64         `json:"low"`
	High      float64         `json:"high"`
	Certain   bool            `json:"certain"` // there is an interval: more than one prompt
	Paired    bool            `json:"paired"`
}

// Rose and Fell report whether the whole interval lies on one side of 0.
func (g Gain) Rose() bool { return g.Certain && g.Low > 0 }

// Fell is Rose's opposite; a gain may be neither.
func (g Gain) Fell() bool { return g.Certain && g.High < 0 }

// gains are the total's first, then those of trained rewards, then of gold ones.
func (r *Run) gains(of map[string]ledger.Gain, paired bool) []Gain {
	var all []Gain
	kinds := r.kinds()
	var before, after []ledger.HeldOutLine
	if paired {
		before, after = r.firstAndLast(of)
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		kind := kinds[name]
		if name == "total" {
			kind = "total"
		}
		all = append(all, gainOf(name, kind, of[name], before, after))
	}
	order := map[string]int{"total": -3, "trained": -2, "gold": -1} // then values that the folder calls neither
	slices.SortStableFunc(all, func(a, b Gain) int { return order[a.Kind] - order[b.Kind] })
	return all
}

// firstAndLast are the samples of the evaluations that gains are between; none where the folder has none.
func (r *Run) firstAndLast(of map[string]ledger.Gain) (before, after []ledger.HeldOutLine) {
	last := 0
	for _, g := range of {
		last = max(last, g.Iteration)
	}
	if last == 0 {
		return nil, nil
	}
	all, err := ledger.ReadHeldOutOf(filepath.Join(r.Dir, ledger.HeldOutFile), 0, last)
	if err != nil {
		return nil, nil // the means are known without it
	}
	return all[0], all[last]
}

func gainOf(name, kind string, of ledger.Gain, before, after []ledger.HeldOutLine) Gain {
	g := Gain{Name: name, Kind: kind, Before: of.Before, After: of.After, Iteration: of.Iteration, Known: of.Known()}
	if !g.Known {
		return g
	}
	a, b := of.After, of.Before
	g.Value = a.Mean - b.Mean
	half := math.Hypot(a.High-a.Low, b.High-b.Low) / 2
	g.Low, g.High, g.Certain = g.Value-half, g.Value+half, min(a.Prompts, b.Prompts) > 1
	if len(before) == 0 || a.Missing+b.Missing > 0 {
		return g
	}
	if m := pairs(name, before, after); m.Prompts == a.Prompts && m.Prompts > 1 && math.Abs(m.Mean-g.Value) < 1e-9 {
		g.Low, g.High, g.Paired = m.Low, m.High, true
	}
	return g
}

// pairs measures the differences of single prompts.
func pairs(name string, before, after []ledger.HeldOutLine) ledger.Measure {
	type key struct{ prompt, sample int }
	first := map[key]float64{}
	for _, s := range before {
		if v := s.Number(name); v != nil {
			first[key{s.Prompt, s.Sample}] = *v
		}
	}
	by := map[int][]float64{}
	for _, s := range after {
		v, was := s.Number(name), first[key{s.Prompt, s.Sample}]
		if _, ok := first[key{s.Prompt, s.Sample}]; ok && v != nil {
			by[s.Prompt] = append(by[s.Prompt], *v-was)
		}
	}
	var groups [][]float64
	for _, p := range slices.Sorted(maps.Keys(by)) {
		groups = append(groups, by[p])
	}
	return ledger.MeasureOf(groups)
}

// Conclusion is a run's result, in sentences.
type Conclusion struct {
	Text  string   `json:"says"`
	Tone  string   `json:"tone"`  // better, worse, or "" where neither is certain
	Notes []string `json:"notes"` // warnings: gold rewards that fell, monitors
}

// leastFall is the share of its value by which a gold reward falls where a page warns of it.
const leastFall = 0.01

// conclusion computes it from the gains and the number of monitors that fired.
func (r *Run) conclusion(gains []Gain, fired int) Conclusion {
	v := Conclusion{Text: "Nothing was measured on held-out prompts yet, so the gain is unknown."}
	if len(gains) > 0 && gains[0].Kind == "total" && gains[0].Known {
		g := gains[0]
		v.Text, v.Tone = g.says()
	}
	for _, g := range gains {
		switch {
		case g.Kind != "gold" || !g.Known:
		case g.Fell() && -g.Value >= leastFall*math.Abs(g.Before.Mean): // a smaller one is in the table alone
			v.Notes = append(v.Notes, fmt.Sprintf("Gold reward %s fell by %.3f (%s): the trained reward may be gamed.", g.Name, -g.Value, g.interval()))
		}
	}
	v.Text = minus(v.Text)
	if fired > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s fired.", count(fired, "monitor")))
	}
	return v
}

// minus is a text with the sign that a minus has in print; words keep their hyphens.
func minus(text string) string { return negative.ReplaceAllString(text, "${1}\u2212$2") }

var negative = regexp.MustCompile(`(^|[ (])-(\d)`)

func (g Gain) says() (text, tone string) {
	where := fmt.Sprintf("from %.3f to %.3f after iteration %d", g.Before.Mean, g.After.Mean, g.Iteration)
	switch {
	case !g.Certain:
		return fmt.Sprintf("The held-out reward went %s: %s, of one prompt, which has no interval.", where, Signed(g.Value)), ""
	case g.Rose():
		return fmt.Sprintf("The held-out reward rose by %.3f (%s), %s.", g.Value, g.interval(), where), "better"
	case g.Fell():
		return fmt.Sprintf("The held-out reward fell by %.3f (%s), %s.", -g.Value, g.interval(), where), "worse"
	}
	return fmt.Sprintf("No gain beyond chance: %s (%s), %s.", Signed(g.Value), g.interval(), where), ""
}

// interval is the gain's, of a fall in the order in which a fall is read.
func (g Gain) interval() string {
	if g.Fell() {
		return fmt.Sprintf("95 %%: %.3f to %.3f", -g.High, -g.Low)
	}
	return fmt.Sprintf("95 %%: %s to %s", strings.TrimSpace(Signed(g.Low)), Signed(g.High))
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// An Evaluation is a sheet of held-out pictures, with each one's scores where the folder has them.
type Evaluation struct {
	Iteration int        `json:"iteration"` // 0: before training
	Guided    bool       `json:"guided,omitempty"`
	Sheet     string     `json:"sheet,omitempty"`   // where the page finds it
	Plays     bool       `json:"plays,omitempty"`   // it is animated: of clips
	Sources   string     `json:"sources,omitempty"` // of their sources, each in its picture's place on the first sheet
	Samples   []Pictured `json:"samples,omitempty"`
}

// Pictured is a held-out sample on a sheet.
type Pictured struct {
	ledger.HeldOutLine
	Trails json.RawMessage `json:"trails,omitempty"` // of a clip: ways of its points, in the sheet's pixels
}

// A Source is where a page finds a picture of the run's folder; "" where the page shows it not.
type Source func(name string) string

// evaluations are those of a run, the one before training first.
func (r *Run) evaluations(source Source, limits Limits) ([]Evaluation, error) {
	names := []string{"images/heldout_before.png"}
	sheets, _ := filepath.Glob(filepath.Join(r.Dir, "images", "heldout_[0-9]*.png")) // the pattern is well formed
	slices.Sort(sheets)
	for _, s := range spread(sheets, limits.Evaluations-1) {
		names = append(names, "images/"+filepath.Base(s))
	}
	var wanted []int
	for _, name := range names {
		wanted = append(wanted, iterationOf(name))
	}
	samples, err := ledger.ReadHeldOutOf(filepath.Join(r.Dir, ledger.HeldOutFile), wanted...)
	if err != nil {
		return nil, err
	}
	var all []Evaluation
	for _, name := range names {
		e := Evaluation{Iteration: iterationOf(name), Sheet: source(name), Plays: animated(r.Dir, name)}
		if e.Iteration == 0 {
			e.Sources = source("images/heldout_sources.png")
		}
		for _, l := range samples[e.Iteration] {
			if l.At != nil {
				e.Samples = append(e.Samples, Pictured{HeldOutLine: l})
			}
		}
		if e.Plays {
			r.trails(strings.TrimSuffix(name, ".png")+".trails.json", e.Samples, limits.Bytes)
		}
		if e.Sheet != "" {
			all = append(all, e)
		}
	}
	for _, when := range []string{"before", "after"} {
		e := Evaluation{Guided: true, Sheet: source("images/guided_" + when + ".png")}
		if when == "after" {
			e.Iteration = r.Iterations()
		}
		if e.Sheet != "" {
			all = append(all, e)
		}
	}
	return all, nil
}

// trails reads those of a sheet's clips, as far as the page has bytes left; a page without them says less, and
// is whole.
func (r *Run) trails(name string, samples []Pictured, left *budget) {
	text, err := inside(r.Dir, name)
	if err != nil {
		return
	}
	var all []json.RawMessage
	if json.Unmarshal(text, &all) != nil || len(all) != len(samples) || !left.take(len(text)) {
		return
	}
	for i := range samples {
		samples[i].Trails = all[i]
	}
}

// iterationOf reads a sheet's name; 0: before training.
func iterationOf(name string) (n int) {
	for _, c := range name {
		if c >= '0' && c <= '9' && n < 1e8 {
			n = 10*n + int(c-'0')
		}
	}
	return n
}

// spread are at most n of a list at even distances, its first and last among them; n < 0: all.
func spread[T any](list []T, n int) []T {
	switch {
	case n < 0 || len(list) <= n:
		return list
	case n == 0:
		return nil
	case n == 1:
		return list[len(list)-1:]
	}
	var few []T
	for k := range n {
		few = append(few, list[k*(len(list)-1)/(n-1)])
	}
	return few
}

// A Forest is rows of a name and an interval, one below the other.
type Forest struct {
	Title     string
	Rows      []ForestRow
	Threshold *float64  // a line across all rows
	Ticks     []float64 // where the axis is marked; of Wide, in units of the values
	Wide      bool      // the axis is even near 0 and logarithmic far from it
}

// A ForestRow is one of them.
type ForestRow struct {
	Name, Note       string
	Value, Low, High float64
	Hue              int // of hues
}

// The drawing's sizes, in its own units.
const (
	rowHeight  = 20.0
	nameWidth  = 190.0
	noteWidth  = 120.0
	forestWide = 640.0
)

// SVG is the drawing.
func (f Forest) SVG() template.HTML {
	x := interval{math.Inf(1), math.Inf(-1)}
	for _, r := range f.Rows {
		x.take(f.place(r.Low))
		x.take(f.place(r.High))
	}
	for _, t := range f.Ticks {
		if !f.Wide {
			x.take(t)
		}
	}
	if f.Threshold != nil {
		x.take(f.place(*f.Threshold))
		x.take(0)
	}
	x = x.widened(0.03)
	high := rowHeight*float64(len(f.Rows)) + 30
	at := func(v float64) float64 {
		return nameWidth + (f.place(v)-x.low)/(x.high-x.low)*(forestWide-nameWidth-noteWidth)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, forestWide, high, html.EscapeString(f.Title))
	for _, t := range f.Ticks {
		if p := f.place(t); p < x.low || p > x.high {
			continue
		}
		fmt.Fprintf(&b, `<line class="grid" x1="%.1[1]f" x2="%.1[1]f" y1="2" y2="%[2]g"/><text class="tick" x="%.1[1]f" y="%[3]g" text-anchor="middle">%[4]s</text>`, at(t), high-26, high-8, label(t))
	}
	if f.Threshold != nil {
		fmt.Fprintf(&b, `<line class="threshold" x1="%.1[1]f" x2="%.1[1]f" y1="2" y2="%[2]g"/>`, at(*f.Threshold), high-26)
	}
	for i, r := range f.Rows {
		y := rowHeight*float64(i) + 12
		hue := hues[r.Hue%len(hues)]
		fmt.Fprintf(&b, `<text class="name" x="%g" y="%.1f" text-anchor="end">%s</text>`, nameWidth-10, y+4, html.EscapeString(r.Name))
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1[3]f" y2="%.1[3]f" stroke="%[4]s" stroke-width="2"/>`, at(r.Low), at(r.High), y, hue)
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s: %s (%s to %s)</title></circle>`, at(r.Value), y, hue, html.EscapeString(r.Name), label(r.Value), label(r.Low), label(r.High))
		fmt.Fprintf(&b, `<text class="tick" x="%g" y="%.1f">%s</text>`, forestWide-noteWidth+8, y+4, html.EscapeString(r.Note))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // names are escaped, all else is numbers
}

// place is where a value lies on the axis.
func (f Forest) place(v float64) float64 {
	if !f.Wide {
		return v
	}
	return math.Asinh(4*v) / math.Ln10
}
