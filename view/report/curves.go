package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// Curves of a run's ledger.

// measured is a number of every iteration by the name that monitors watch it by, with a gap where it was not
// measured.
func (r *Run) measured(label, name string) Curve {
	return r.each(label, func(l ledger.Line) float64 {
		if v, ok := l.Value(name); ok {
			return v
		}
		return math.NaN()
	})
}

// each is a number of every iteration; NaN is a gap.
func (r *Run) each(name string, value func(l ledger.Line) float64) Curve {
	c := Curve{Name: name}
	for _, l := range r.Lines {
		c.X, c.Y = append(c.X, float64(l.Iteration)), append(c.Y, value(l))
	}
	return c
}

// some is a number of the iterations that have it.
func (r *Run) some(name string, value func(l ledger.Line) (float64, bool)) Curve {
	c := Curve{Name: name}
	for _, l := range r.Lines {
		if v, ok := value(l); ok {
			c.X, c.Y = append(c.X, float64(l.Iteration)), append(c.Y, v)
		}
	}
	return c
}

// lastUpdate is a number of an iteration's last update, where it has one.
func lastUpdate(value func(u ledger.UpdateLine) float64) func(ledger.Line) (float64, bool) {
	return func(l ledger.Line) (float64, bool) {
		if len(l.Updates) == 0 {
			return 0, false
		}
		return value(l.Updates[len(l.Updates)-1]), true
	}
}

// held is a held-out reward, the measure before training first.
func (r *Run) held(name, label string) Curve {
	c := Curve{Name: label, Dots: true}
	for _, e := range r.HeldOut(name) {
		c.X, c.Y = append(c.X, float64(e.Iteration)), append(c.Y, e.Mean)
		c.Low, c.High = append(c.Low, e.Low), append(c.High, e.High)
	}
	return c
}

const heldOutLabel = "held-out prompts, with 95 % intervals"

// plots are all curves of a run.
func (r *Run) plots() []Plot {
	reward := r.measured("of the training samples, ± their deviation inside groups", "total")
	for i, l := range r.Lines {
		reward.Low, reward.High = append(reward.Low, reward.Y[i]-l.Spread), append(reward.High, reward.Y[i]+l.Spread)
	}
	all := []Plot{{Title: "Reward", Curves: with([]Curve{reward}, r.held("total", heldOutLabel))}}
	if best := r.bestOf(); len(best.Curves) > 1 {
		all = append(all, best)
	}
	for _, n := range r.rewards() {
		p := Plot{Title: "Reward “" + n + "”", Curves: with([]Curve{r.measured("training samples", "reward."+n)}, r.held(n, heldOutLabel))}
		if r.gold(n) {
			p.Title += ", gold: never trained on"
		}
		all = append(all, p)
	}
	if h := r.histogram(); len(h.Curves) > 0 {
		all = append(all, h)
	}
	all = append(all,
		Plot{Title: "Inside groups", Curves: []Curve{r.measured("deviation of the reward", "spread_in_groups"), r.each("share of dead groups", func(l ledger.Line) float64 { return float64(l.Dead) / float64(max(1, len(l.Prompts))) })}},
		r.diversity())
	for _, p := range []Plot{r.choice(), r.pictures(), r.tools(), r.lengths(),
		{Title: "Gradient", Curves: []Curve{r.some("norm", lastUpdate(func(u ledger.UpdateLine) float64 { return u.Gradient }))}},
		{Title: "Ratio of the last update", Curves: []Curve{r.some("furthest from 1", lastUpdate(func(u ledger.UpdateLine) float64 { return u.RatioMost })), r.some("mean", lastUpdate(func(u ledger.UpdateLine) float64 { return u.RatioMean }))}},
		r.seconds()} {
		if len(p.Curves) > 0 && len(p.Curves[0].X) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// with adds a curve that has points.
func with(curves []Curve, more Curve) []Curve {
	if len(more.X) > 0 {
		curves = append(curves, more)
	}
	return curves
}

// rewards are the names of all that was measured.
func (r *Run) rewards() []string {
	names := map[string]bool{}
	for _, l := range r.Lines {
		for n := range l.Rewards {
			names[n] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (r *Run) gold(name string) bool { return r.kinds()[name] == "gold" }

// bestOf returns the expected best totals of several samples of a prompt beside the mean: they close
// up where samples of a prompt become alike.
func (r *Run) bestOf() Plot {
	p := Plot{Title: "Mean, and the best of several samples of a prompt", Curves: []Curve{r.measured("mean", "total")}}
	names := map[int]bool{}
	for _, l := range r.Lines {
		for n := range l.BestOf {
			if k, err := strconv.Atoi(n); err == nil && k > 1 {
				names[k] = true
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(names)) {
		p.Curves = with(p.Curves, r.some(fmt.Sprintf("best of %d", k), func(l ledger.Line) (float64, bool) { v, ok := l.BestOf[strconv.Itoa(k)]; return v, ok }))
	}
	return p
}

// histogram is how totals were distributed in the first and in the last fifth of the run, as
// shares of the samples.
func (r *Run) histogram() Plot {
	p := Plot{Title: "Distribution of the reward, as shares of samples", Across: "reward"}
	var lines []ledger.Line
	for _, l := range r.Lines {
		if l.Histogram != nil {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return p
	}
	n := max(1, len(lines)/5)
	for _, part := range []struct {
		name  string
		lines []ledger.Line
	}{{ofIterations("first", n), lines[:n]}, {ofIterations("last", n), lines[len(lines)-n:]}} {
		h := part.lines[0].Histogram
		counts, sum := make([]float64, len(h.Counts)), 0.0
		for _, l := range part.lines {
			for i, c := range l.Histogram.Counts[:min(len(counts), len(l.Histogram.Counts))] {
				counts[i], sum = counts[i]+float64(c), sum+float64(c)
			}
		}
		c := Curve{Name: part.name, Bars: true}
		width := (h.High - h.Low) / float64(len(counts))
		for i, v := range counts {
			c.X, c.Y = append(c.X, h.Low+(float64(i)+0.5)*width), append(c.Y, v/max(sum, 1))
		}
		p.Curves = append(p.Curves, c)
		if len(lines) == 1 {
			break
		}
	}
	return p
}

func ofIterations(which string, n int) string {
	if n == 1 {
		return "the " + which + " iteration"
	}
	return fmt.Sprintf("the %s %d iterations", which, n)
}

// choice is the trained samples, where an iteration chose.
func (r *Run) choice() Plot {
	of := func(name string, value func(c ledger.SelectionLine) float64) Curve {
		return r.some(name, func(l ledger.Line) (float64, bool) {
			if l.Selection == nil {
				return 0, false
			}
			return value(*l.Selection), true
		})
	}
	return Plot{Title: "Samples that were learned from", Curves: []Curve{of("of this iteration", func(c ledger.SelectionLine) float64 { return float64(c.Learned) }),
		of("of earlier ones", func(c ledger.SelectionLine) float64 { return float64(c.Reused) }), r.each("rolled", func(l ledger.Line) float64 { return float64(l.Samples) })}}
}

// pictures are statistics of the pictures: drift that no reward names shows here first.
func (r *Run) pictures() Plot {
	p := Plot{Title: "Statistics of the pictures"}
	for _, s := range []struct {
		name, label string
		unit        float64
	}{{"brightness", "brightness / 255", 255}, {"contrast", "contrast / 255", 255}, {"saturation", "saturation", 1}} {
		p.Curves = with(p.Curves, r.some(s.label, func(l ledger.Line) (float64, bool) { v, ok := l.Pictures[s.name]; return v / s.unit, ok }))
	}
	return p
}

// diversity is how far apart samples of a prompt are.
func (r *Run) diversity() Plot {
	return Plot{Title: "Distance between samples of a prompt",
		Curves: []Curve{r.each("latents; of conversations, the share of pairs that say different things", func(l ledger.Line) float64 { return l.Diversity })}}
}

// tools is how a model that speaks used its tools, and ended.
func (r *Run) tools() Plot {
	return r.episodes("Tools and ends", "called", "share that called a tool", "refused_calls", "share of calls that were refused", "answered", "share that answered", "over", "share that still called when a limit came")
}

// lengths is how long a model spoke.
func (r *Run) lengths() Plot {
	return r.episodes("Length of an episode", "turns", "turns", "pictures", "pictures", "calls", "calls")
}

// episodes are curves of means over an iteration's episodes: names in the ledger, and their labels.
func (r *Run) episodes(title string, names ...string) Plot {
	p := Plot{Title: title}
	for i := 0; i+1 < len(names); i += 2 {
		p.Curves = with(p.Curves, r.some(names[i+1], func(l ledger.Line) (float64, bool) { v, ok := l.Episodes[names[i]]; return v, ok }))
	}
	return p
}

// seconds are an iteration's, by part.
func (r *Run) seconds() Plot {
	p := Plot{Title: "Seconds of an iteration"}
	for _, part := range []string{"roll", "score", "train"} {
		p.Curves = with(p.Curves, r.some(part, func(l ledger.Line) (float64, bool) { v, ok := r.Seconds[l.Iteration][part]; return v, ok }))
	}
	return p
}
