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
	for _, p := range slices.Concat(r.updates(), []Plot{r.groups(), r.diversity(), r.choice(), r.pictures(), r.tools(), r.lengths(), r.seconds()}) {
		if slices.ContainsFunc(p.Curves, Curve.drawn) {
			all = append(all, p)
		}
	}
	return all
}

// drawn reports whether a curve has a point that is a number.
func (c Curve) drawn() bool {
	return slices.ContainsFunc(c.Y, func(y float64) bool { return !math.IsNaN(y) })
}

// updates are the curves of every iteration's last update: loss, distances, clipping, optimiser.
func (r *Run) updates() []Plot {
	one := func(title, name, label string) Plot {
		return Plot{Title: title, Curves: []Curve{r.some(label, valued(name))}}
	}
	clipped := one("Clip fraction", "clip_fraction", "share of ratios that are clipped")
	for _, side := range []struct{ name, label string }{{"clipped_high", "above the range"}, {"clipped_low", "below it"}} {
		clipped.Curves = with(clipped.Curves, r.some(side.label, valued(side.name)))
	}
	moved := one("Approximate KL of an iteration's updates", "approx_kl", "between the weights that sampled and the trained ones")
	if !moved.Curves[0].drawn() {
		moved = one(moved.Title, "ppo_kl", moved.Curves[0].Name)
	}
	ratio := one("Ratio of the last update, less 1", "ratio", "the furthest from 0, either way")
	ratio.Curves = append(ratio.Curves, r.some("mean", func(l ledger.Line) (float64, bool) {
		if _, ok := l.Value("ratio"); !ok { // an objective without ratios
			return 0, false
		}
		return l.Updates[len(l.Updates)-1].RatioMean - 1, true
	}))
	all := []Plot{one("Loss", "loss", "of the last update")}
	if kl := one("KL to the reference model", "kl", "mean"); slices.ContainsFunc(kl.Curves[0].Y, func(y float64) bool { return y != 0 }) {
		all = append(all, kl)
	}
	return append(all, moved, clipped, one("Learning rate", "lr", "of the last update"),
		one("Gradient", "gradient", "norm, before it is clipped"),
		ratio,
		one("Entropy of tokens", "episode.entropy", "nats"))
}

// valued is a number of the line by the name that monitors watch it by.
func valued(name string) func(ledger.Line) (float64, bool) {
	return func(l ledger.Line) (float64, bool) { return l.Value(name) }
}

// compared reports whether an iteration has several samples of a prompt.
func compared(l ledger.Line) bool { return l.Samples > len(l.Prompts) }

// groups are curves of how samples of a prompt differ in reward.
func (r *Run) groups() Plot {
	in := func(name string) func(ledger.Line) (float64, bool) {
		return func(l ledger.Line) (float64, bool) {
			if !compared(l) {
				return 0, false
			}
			return l.Value(name)
		}
	}
	return Plot{Title: "Rewards inside groups", Curves: []Curve{r.some("deviation of the reward", in("spread_in_groups")), r.some("share of groups with one reward", in("dead_share"))}}
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
	label := "root mean squared difference of latents"
	if r.experiment != nil && r.experiment.Episode != nil {
		label = "share of pairs with other words"
	}
	return Plot{Title: "Difference between samples of a prompt", Curves: []Curve{r.some(label, func(l ledger.Line) (float64, bool) { return l.Diversity, compared(l) })}}
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
