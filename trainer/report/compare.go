package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// CompareName is the page of several runs.
const CompareName = "compare.html"

//go:embed compare.html
var comparePage string

// Compare is a page of several runs: what each came to, their curves over each other, how their
// settings differ from the first one's, and their pictures beside each other.
func Compare(dirs []string) ([]byte, error) {
	var runs []*Run
	for _, dir := range dirs {
		r, err := Read(dir)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	tellApart(runs)
	v := map[string]any{"Style": Style(), "Rows": comparison(runs), "Plots": overlaid(runs), "Differences": differences(runs), "Alike": alike(runs)}
	var sheets []sheets
	for _, r := range runs {
		p, err := pictures(r.Dir)
		if err != nil {
			return nil, err
		}
		sheets = append(sheets, sheetsOf(r, p))
	}
	v["Sheets"] = sheets
	t, err := template.New("compare").Parse(comparePage)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, v)
	return out.Bytes(), err
}

// WriteCompare writes the page to a file.
func WriteCompare(path string, dirs []string) error {
	text, err := Compare(dirs)
	if err != nil {
		return err
	}
	return folder.WriteFile(path, text)
}

type sheets struct {
	Name     string
	Pictures []picture
}

func sheetsOf(r *Run, p []picture) sheets { return sheets{r.Name, p} }

// alike reports whether all runs are trained on the same rewards, so that their totals can be compared.
func alike(runs []*Run) bool {
	return !slices.ContainsFunc(runs, func(r *Run) bool { return r.trained() != runs[0].trained() })
}

// tellApart gives runs that are named alike as much of their path as they need.
func tellApart(runs []*Run) {
	for depth := 2; depth < 12; depth++ {
		count := map[string]int{}
		for _, r := range runs {
			count[r.Name]++
		}
		alike := false
		for _, r := range runs {
			parts := strings.Split(filepath.ToSlash(filepath.Clean(r.Dir)), "/")
			if count[r.Name] > 1 && depth <= len(parts) {
				r.Name, alike = strings.Join(parts[len(parts)-depth:], "/"), true
			}
		}
		if !alike {
			return
		}
	}
}

// compared is a line of the table.
type compared struct {
	Name, Status, Trained   string
	Iterations              int
	Before, After, Gain     string
	PerIteration, PerMinute string
	Roll, Score, Train      string
	Better, Worse           bool
	Gold                    []string // what each gained
}

// comparison is the table of several runs.
func comparison(runs []*Run) []compared {
	var rows []compared
	for _, r := range runs {
		c := compared{Name: r.Name, Status: r.Status(), Trained: r.trained(), Iterations: r.Iterations(), Before: "-", After: "-", Gain: "-", PerMinute: "-", PerIteration: "-", Roll: "-", Score: "-", Train: "-"}
		if held := r.HeldOut("total"); len(held) > 1 {
			first, last := held[0], held[len(held)-1]
			gain := last.Mean - first.Mean
			c.Before, c.After, c.Gain = said(&first.Measure), said(&last.Measure), Signed(gain)
			c.Better, c.Worse = last.Low > first.High, last.High < first.Low
			if last.Seconds > 0 {
				c.PerMinute = Signed(gain * 60 / last.Seconds)
			}
		}
		if s := r.PerIteration(); s["all"] > 0 {
			c.PerIteration, c.Roll, c.Score, c.Train = seconds(s["all"]), seconds(s["roll"]), seconds(s["score"]), seconds(s["train"])
		}
		for _, name := range r.rewards() {
			if held := r.HeldOut(name); r.gold(name) && len(held) > 1 {
				c.Gold = append(c.Gold, name+" "+Signed(held[len(held)-1].Mean-held[0].Mean))
			}
		}
		rows = append(rows, c)
	}
	return rows
}

// said is a measure with its interval, which one prompt does not have; nil was not measured.
func said(m *ledger.Measure) string {
	if m == nil {
		return "not measured"
	}
	s := fmt.Sprintf("%.3f (%.3f to %.3f)", m.Mean, m.Low, m.High)
	if m.Prompts == 1 {
		s = fmt.Sprintf("%.3f (one prompt)", m.Mean)
	}
	if m.Missing > 0 {
		s += fmt.Sprintf(", %d missing", m.Missing)
	}
	return s
}

// Signed is a difference to three digits; one that rounds to nothing has no minus.
func Signed(v float64) string {
	if s := fmt.Sprintf("%+.3f", v); s != "-0.000" {
		return s
	}
	return "+0.000"
}

func seconds(s float64) string { return fmt.Sprintf("%.2f", s) }

// overlaid are the curves of all runs over each other.
func overlaid(runs []*Run) []Plot {
	names := map[string]bool{}
	for _, r := range runs {
		for _, n := range r.rewards() {
			names[n] = true
		}
	}
	var all []Plot
	add := func(title, x string, curve func(r *Run) Curve) {
		p := Plot{Title: title, Across: x}
		for _, r := range runs {
			c := curve(r)
			c.Name = r.Name
			p.Curves = append(p.Curves, c) // an empty one keeps its hue
		}
		if slices.ContainsFunc(p.Curves, func(c Curve) bool { return len(c.X) > 0 }) {
			all = append(all, p)
		}
	}
	held := func(name string, x func(Evaluated) float64) func(r *Run) Curve {
		return func(r *Run) Curve {
			c := Curve{Marks: true}
			for _, e := range r.HeldOut(name) {
				c.X, c.Y = append(c.X, x(e)), append(c.Y, e.Mean) // their intervals would hide each other; the table has them
			}
			return c
		}
	}
	iteration, time := func(e Evaluated) float64 { return float64(e.Iteration) }, func(e Evaluated) float64 { return e.Seconds }
	if alike(runs) { // what is trained on differs: so do the units of totals
		add("Held-out reward, over iterations", "iteration", held("total", iteration))
		add("Held-out reward, over seconds of training", "seconds", held("total", time))
		add("Reward of the training samples", "iteration", func(r *Run) Curve { return r.measured("", "total") })
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		title := "Held-out “" + n + "”"
		if slices.ContainsFunc(runs, func(r *Run) bool { return r.gold(n) }) {
			title += ", gold"
		}
		add(title, "iteration", held(n, iteration))
	}
	if alike(runs) {
		add("Deviation of the reward inside groups", "iteration", func(r *Run) Curve { return r.measured("", "spread_in_groups") })
	}
	add("Distance between samples of a prompt", "iteration", func(r *Run) Curve { return r.each("", func(l ledger.Line) float64 { return l.Diversity }) })
	add("Gradient's norm", "iteration", func(r *Run) Curve {
		return r.some("", lastUpdate(func(u ledger.UpdateLine) float64 { return u.Gradient }))
	})
	return all
}

// difference is how a run's settings differ from the first one's.
type difference struct {
	Name  string
	Lines []string
}

func differences(runs []*Run) []difference {
	var all []difference
	first, err := experiment.Parse("config.toml", []byte(runs[0].Config), nil)
	if err != nil {
		return nil
	}
	for _, r := range runs[1:] {
		e, err := experiment.Parse("config.toml", []byte(r.Config), nil)
		if err != nil {
			continue
		}
		d := difference{Name: r.Name, Lines: experiment.Differences(first, e)}
		if len(d.Lines) == 0 {
			d.Lines = []string{"nothing"}
		}
		all = append(all, d)
	}
	return all
}
