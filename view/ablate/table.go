package ablate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/view/report"
)

// An Interval is a mean over seeds, and where 95 % of bootstrapped means lie. One seed has no
// interval: low and high are the mean.
type Interval struct {
	Mean  float64 `json:"mean"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Seeds int     `json:"seeds"`
}

// resamples of a bootstrap.
const resamples = 4000

// Bootstrap is the mean of x, with the percentile interval of means of as many draws from x. The
// draws are always the same. For three seeds it is nearly the range from the least to the greatest.
func Bootstrap(x []float64) Interval {
	i := Interval{Seeds: len(x)}
	if len(x) == 0 {
		return i
	}
	i.Mean = mean(x)
	i.Low, i.High = i.Mean, i.Mean
	if len(x) == 1 {
		return i
	}
	draw, means := rng.New(1).With("bootstrap").Draw(), make([]float64, resamples)
	for k := range means {
		sum := 0.0
		for range x {
			sum += x[draw.Intn(len(x))]
		}
		means[k] = sum / float64(len(x))
	}
	slices.Sort(means)
	i.Low, i.High = means[resamples*25/1000], means[resamples*975/1000-1]
	return i
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Gain is a reward's held-out score before and after, over seeds.
type Gain struct {
	Before Interval `json:"before"`
	After  Interval `json:"after"`
	Gain   Interval `json:"gain"`
}

// A Row is a cell's result.
type Row struct {
	Cell
	Values    map[string]string    `json:"values"`
	HeldOut   Gain                 `json:"heldout"` // of all trained rewards
	Rewards   map[string]Gain      `json:"rewards"`
	Gold      []string             `json:"gold"` // which of them were not trained on
	Seconds   map[string]float64   `json:"seconds_per_iteration"`
	PerMinute Interval             `json:"gain_per_minute"`   // of training, without evaluations
	Missing   []string             `json:"missing,omitempty"` // trials without a result, and why
	Curves    map[string][][]Point `json:"curves"`            // of held-out rewards, a trial each
}

// A Point is a held-out mean.
type Point struct {
	Iteration int     `json:"iteration"`
	Seconds   float64 `json:"seconds"`
	Mean      float64 `json:"mean"`
}

// A Table is a grid's result.
type Table struct {
	Base   string `json:"base"`
	Vary   []Vary `json:"vary"`
	Seeds  int    `json:"seeds"`
	Budget Budget `json:"budget"`
	Rows   []Row  `json:"cells"`
}

// Table reads the folders.
func (g *Grid) Table() (*Table, error) {
	t := &Table{Base: g.Base, Vary: g.Vary, Seeds: max(1, g.Seeds), Budget: g.Budget}
	for _, c := range g.Cells {
		row, err := g.row(c)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

func (g *Grid) row(c *Cell) (Row, error) {
	row := Row{Cell: *c, Values: map[string]string{}, Rewards: map[string]Gain{}, Curves: map[string][][]Point{}, Seconds: map[string]float64{}}
	for i, v := range g.Vary {
		row.Values[v.Key] = c.Values[i]
	}
	before, after := map[string][]float64{}, map[string][]float64{}
	var perMinute []float64
	seconds := map[string][]float64{}
	for _, trial := range c.Trials {
		if !trial.done {
			why := "not finished"
			if trial.Err != nil {
				why = trial.Err.Error()
			}
			row.Missing = append(row.Missing, fmt.Sprintf("seed %d: %s", trial.Seed, why))
			continue
		}
		run, err := report.Read(trial.Dir)
		if err != nil {
			return row, err
		}
		for name, held := range run.Result.HeldOut {
			if !held.Known() || held.Iteration != run.Result.Iterations {
				row.Missing = append(row.Missing, fmt.Sprintf("seed %d: %s was not measured before training and after it", trial.Seed, name))
				continue
			}
			before[name], after[name] = append(before[name], held.Before.Mean), append(after[name], held.After.Mean)
			var curve []Point
			for _, e := range run.HeldOut(name) {
				curve = append(curve, Point{e.Iteration, e.Seconds, e.Mean})
			}
			row.Curves[name] = append(row.Curves[name], curve)
		}
		for name, kind := range run.Result.Rewards {
			if kind == "gold" && !slices.Contains(row.Gold, name) {
				row.Gold = append(row.Gold, name)
			}
		}
		for part, s := range run.PerIteration() {
			seconds[part] = append(seconds[part], s)
		}
		if curve := run.HeldOut("total"); len(curve) > 1 && curve[len(curve)-1].Seconds > 0 {
			last := curve[len(curve)-1]
			perMinute = append(perMinute, (last.Mean-curve[0].Mean)*60/last.Seconds)
		}
	}
	slices.Sort(row.Gold)
	for name := range after {
		gain := Gain{Before: Bootstrap(before[name]), After: Bootstrap(after[name]), Gain: Bootstrap(differences(after[name], before[name]))}
		if name == "total" {
			row.HeldOut = gain
			continue
		}
		row.Rewards[name] = gain
	}
	for part, s := range seconds {
		row.Seconds[part] = mean(s)
	}
	row.PerMinute = Bootstrap(perMinute)
	return row, nil
}

func differences(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range out {
		out[i] = a[i] - b[i]
	}
	return out
}

// String is a mean with its interval.
func (i Interval) String() string {
	return i.with(func(v float64) string { return fmt.Sprintf("%.3f", v) })
}

// Signed has a plus or a minus.
func (i Interval) Signed() string { return i.with(report.Signed) }

func (i Interval) with(said func(float64) string) string {
	switch i.Seeds {
	case 0:
		return "-"
	case 1:
		return said(i.Mean)
	}
	return said(i.Mean) + " (" + said(i.Low) + " to " + said(i.High) + ")"
}

// Gold are the rewards that no cell trained on.
func (t *Table) Gold() []string {
	all := map[string]bool{}
	for _, r := range t.Rows {
		for _, g := range r.Gold {
			all[g] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Cells are the table as text: a header, and a line a cell.
func (t *Table) Cells() (header []string, rows [][]string) {
	for _, v := range t.Vary {
		header = append(header, v.Key)
	}
	header = append(header, "held out before", "after", "gain (95 % over seeds)", "gain/min", "s/iteration", "roll", "score", "train")
	for _, g := range t.Gold() {
		header = append(header, g+" (gold)")
	}
	for _, r := range t.Rows {
		var cells []string
		for _, v := range t.Vary {
			cells = append(cells, r.Values[v.Key])
		}
		gain := r.HeldOut.Gain.Signed()
		if n := len(r.Missing); n > 0 {
			gain += fmt.Sprintf(" [%d of %d seeds]", r.HeldOut.Gain.Seeds, r.HeldOut.Gain.Seeds+n)
		}
		cells = append(cells, meanOf(r.HeldOut.Before), meanOf(r.HeldOut.After), gain, r.PerMinute.Signed())
		for _, part := range []string{"all", "roll", "score", "train"} {
			cells = append(cells, secondsOf(r.Seconds[part]))
		}
		for _, g := range t.Gold() {
			cells = append(cells, r.Rewards[g].Gain.Signed())
		}
		rows = append(rows, cells)
	}
	return header, rows
}

func meanOf(i Interval) string {
	if i.Seeds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", i.Mean)
}

func secondsOf(s float64) string {
	if s == 0 || math.IsNaN(s) {
		return "-"
	}
	return fmt.Sprintf("%.2f", s)
}

// Markdown is the table for a text.
func (t *Table) Markdown() string {
	header, rows := t.Cells()
	var b strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(&b, "| %s ", strings.ReplaceAll(c, "|", `\|`))
		}
		b.WriteString("|\n")
	}
	line(header)
	b.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, r := range rows {
		line(r)
	}
	return b.String()
}
