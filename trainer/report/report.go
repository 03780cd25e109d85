package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer/training"
)

// Name is the page in a run's folder.
const Name = "report.html"

//go:embed page.html
var page string

//go:embed style.css
var style string

// Style is what all pages look like.
func Style() template.CSS { return template.CSS(style) } //nolint:gosec // it is our own

// view is what the template shows.
type view struct {
	Style    template.CSS
	Name     string
	Status   string
	Why      string
	Rows     []row
	Plots    []Plot
	Fired    []fired
	Pictures []picture
	Config   string
}

type row struct {
	Name, Kind          string
	Before, After, Gain string
	Better, Worse       bool // by more than both intervals
}

type fired struct {
	Iteration int
	Says      string
}

type picture struct {
	Caption string
	Source  template.URL
}

// Write rewrites a folder's page from its files. A run that is under way, or was killed, has a
// page too.
func Write(dir string) error {
	text, err := Page(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, Name)
	if err := os.WriteFile(path+".part", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// Page is the page.
func Page(dir string) ([]byte, error) {
	run, err := Read(dir)
	if err != nil {
		return nil, err
	}
	lines, result := run.Lines, run.Result
	v := view{Style: Style(), Name: run.Name, Status: "under way, or killed", Config: run.Config}
	if result != nil {
		v.Status, v.Why, v.Rows = result.Status, result.Why, table(result)
	}
	v.Plots = plots(lines, result)
	for _, l := range lines {
		for _, says := range l.Fired {
			v.Fired = append(v.Fired, fired{l.Iteration, says})
		}
	}
	if v.Pictures, err = pictures(dir); err != nil {
		return nil, err
	}
	t, err := template.New("page").Parse(page)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// table is what was held out, before and after.
func table(r *training.Result) []row {
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(r.HeldOut)) {
		g := r.HeldOut[name]
		said := func(m training.Measure) string {
			return fmt.Sprintf("%.3f (%.3f to %.3f)", m.Mean, m.Low, m.High)
		}
		kind := r.Rewards[name]
		if kind == "" {
			kind = "all trained ones"
		}
		rows = append(rows, row{name, kind, said(g.Before), said(g.After), fmt.Sprintf("%+.3f", g.After.Mean-g.Before.Mean), g.After.Low > g.Before.High, g.After.High < g.Before.Low})
	}
	return rows
}

// plots are the curves of a ledger.
func plots(lines []training.Line, result *training.Result) []Plot {
	each := func(name string, value func(l training.Line) float64) Curve {
		c := Curve{Name: name}
		for _, l := range lines {
			c.X, c.Y = append(c.X, float64(l.Iteration)), append(c.Y, value(l))
		}
		return c
	}
	last := func(l training.Line) training.UpdateLine {
		if len(l.Updates) == 0 {
			return training.UpdateLine{}
		}
		return l.Updates[len(l.Updates)-1]
	}
	reward := each("of the training samples, ± their deviation inside groups", func(l training.Line) float64 { return l.Total.Mean })
	for _, l := range lines {
		reward.Low, reward.High = append(reward.Low, l.Total.Mean-l.Spread), append(reward.High, l.Total.Mean+l.Spread)
	}
	all := []Plot{{Title: "Reward", Curves: []Curve{reward}}}
	if c := heldOut(lines, result, "total"); len(c.X) > 0 {
		all[0].Curves = append(all[0].Curves, c)
	}
	names := map[string]bool{}
	for _, l := range lines {
		for n := range l.Rewards {
			names[n] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		p := Plot{Title: "Reward “" + n + "”", Curves: []Curve{each("training samples", func(l training.Line) float64 { return l.Rewards[n].Mean })}}
		if result != nil && result.Rewards[n] == "gold" {
			p.Title += ", gold: never trained on"
		}
		if c := heldOut(lines, result, n); len(c.X) > 0 {
			p.Curves = append(p.Curves, c)
		}
		all = append(all, p)
	}
	return append(all,
		Plot{Title: "Inside groups", Curves: []Curve{each("deviation of the reward", func(l training.Line) float64 { return l.Spread }), each("share of dead groups", func(l training.Line) float64 { return float64(l.Dead) / float64(max(1, len(l.Prompts))) })}},
		Plot{Title: "Distance between samples of a prompt", Curves: []Curve{each("latents", func(l training.Line) float64 { return l.Diversity })}},
		Plot{Title: "Gradient", Curves: []Curve{each("norm", func(l training.Line) float64 { return last(l).Gradient })}},
		Plot{Title: "Ratio of the last update", Curves: []Curve{each("furthest from 1", func(l training.Line) float64 { return last(l).RatioMost }), each("mean", func(l training.Line) float64 { return last(l).RatioMean })}})
}

// heldOut are the evaluations of a reward, the one before training first.
func heldOut(lines []training.Line, result *training.Result, name string) Curve {
	c := Curve{Name: "held-out prompts, with 95 % intervals", Dots: true}
	add := func(x float64, m training.Measure) {
		c.X, c.Y, c.Low, c.High = append(c.X, x), append(c.Y, m.Mean), append(c.Low, m.Low), append(c.High, m.High)
	}
	if result != nil {
		if g, ok := result.HeldOut[name]; ok {
			add(0, g.Before)
		}
	}
	for _, l := range lines {
		if m, ok := l.HeldOut[name]; ok {
			add(float64(l.Iteration), m)
		}
	}
	return c
}

// pictures are the sheets before and after.
func pictures(dir string) ([]picture, error) {
	sheets, err := filepath.Glob(filepath.Join(dir, "images", "heldout_[0-9]*.png"))
	if err != nil {
		return nil, err
	}
	slices.Sort(sheets)
	shown := []struct{ caption, path string }{{"before", filepath.Join(dir, "images", "heldout_before.png")}}
	if len(sheets) > 0 {
		shown = append(shown, struct{ caption, path string }{"after", sheets[len(sheets)-1]})
	}
	var all []picture
	for _, s := range shown {
		data, err := os.ReadFile(s.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, picture{s.caption, template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(data))}) //nolint:gosec // it is our own picture
	}
	return all, nil
}
