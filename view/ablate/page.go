package ablate

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/view/report"
)

// The files of a grid's folder.
const (
	PageName     = "ablate.html"
	MarkdownName = "ablate.md"
)

//go:embed page.html
var page string

// WritePage writes the page and the table in Markdown beside the runs.
func (t *Table) WritePage(dir string) error {
	text, err := t.Page()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{PageName: text, MarkdownName: []byte(t.Markdown())} {
		if err := folder.WriteFile(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

// Page is the page: one file without a script.
func (t *Table) Page() ([]byte, error) {
	header, rows := t.Cells()
	best := t.best()
	var lines []line
	for i, r := range rows {
		lines = append(lines, line{Cells: r, Best: i == best, Missing: t.Rows[i].Missing})
	}
	parsed, err := template.New("ablate").Parse(page)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{"Style": report.Style(), "Title": t.title(), "Status": t.status(), "Header": header, "Rows": lines, "Told": best >= 0, "Plots": t.plots()})
	return out.Bytes(), err
}

type line struct {
	Cells   []string
	Best    bool
	Missing []string
}

func (t *Table) title() string {
	var keys []string
	for _, v := range t.Vary {
		keys = append(keys, v.Key)
	}
	return strings.Join(keys, " × ")
}

func (t *Table) status() string {
	budget := "the iterations of the file each"
	switch {
	case t.Budget.Iterations > 0:
		budget = fmt.Sprintf("%d iterations each", t.Budget.Iterations)
	case t.Budget.Seconds > 0:
		budget = fmt.Sprintf("%.0f s of training each", t.Budget.Seconds)
	}
	return fmt.Sprintf("%s, %s, %s, %s", filepath.Base(t.Base), several(len(t.Rows), "combination"), several(t.Seeds, "seed"), budget)
}

// best is the cell whose gain lies above every other's, intervals and all, and above 0; -1: no difference is
// significant. One seed has no interval.
func (t *Table) best() int {
	for i, r := range t.Rows {
		g := r.HeldOut.Gain
		if g.Seeds > 1 && g.Low > 0 && !slices.ContainsFunc(t.Rows, func(o Row) bool {
			h := o.HeldOut.Gain
			return o.Name != r.Name && h.Seeds > 0 && (h.Seeds == 1 || h.High >= g.Low)
		}) {
			return i
		}
	}
	return -1
}

// plots are held-out rewards over iterations and over time.
func (t *Table) plots() []report.Plot {
	names := map[string]bool{}
	for _, r := range t.Rows {
		for name := range r.Curves {
			names[name] = true
		}
	}
	delete(names, "total")
	gold := t.Gold()
	var all []report.Plot
	for _, name := range append([]string{"total"}, slices.Sorted(maps.Keys(names))...) {
		title := "Held-out " + name
		switch {
		case name == "total":
			title = "Held-out reward"
		case slices.Contains(gold, name):
			title += ", gold: never trained on"
		}
		over := report.Plot{Title: title + ", over iterations", Across: "iteration"}
		time := report.Plot{Title: title + ", over seconds of training", Across: "seconds"}
		for _, r := range t.Rows {
			if len(r.Curves[name]) > 0 {
				over.Curves = append(over.Curves, r.curve(name, func(p Point) float64 { return float64(p.Iteration) }))
				time.Curves = append(time.Curves, r.curve(name, func(p Point) float64 { return p.Seconds }))
			}
		}
		if len(over.Curves) > 0 {
			all = append(all, over, time)
		}
	}
	return all
}

// curve is the mean over seeds, with a band from the least to the greatest.
func (r Row) curve(name string, x func(Point) float64) report.Curve {
	c := report.Curve{Name: r.Name, Marks: true}
	n := len(r.Curves[name][0])
	for _, trial := range r.Curves[name] {
		n = min(n, len(trial))
	}
	for k := range n {
		var xs, ys []float64
		for _, trial := range r.Curves[name] {
			xs, ys = append(xs, x(trial[k])), append(ys, trial[k].Mean)
		}
		c.X, c.Y = append(c.X, mean(xs)), append(c.Y, mean(ys))
		if len(ys) > 1 {
			c.Low, c.High = append(c.Low, slices.Min(ys)), append(c.High, slices.Max(ys))
		}
	}
	return c
}

// several is a number of things.
func several(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
