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

	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
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
	Guidance float64
	Guided   []row // under guidance
	Plots    []Plot
	Fired    []fired
	Pictures []picture
	Extremes []extreme
	Plan     *plan
	Talks    []talk
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
	return folder.WriteFile(filepath.Join(dir, Name), text)
}

// Page is the page.
func Page(dir string) ([]byte, error) {
	run, err := Read(dir)
	if err != nil {
		return nil, err
	}
	v := view{Style: Style(), Name: run.Name, Status: run.Status(), Config: run.Config, Plan: planned(run), Rows: run.rows(run.Gains())}
	if r := run.Result; r != nil {
		v.Why, v.Guidance, v.Guided = r.Why, r.Guidance, run.rows(r.Guided)
	}
	samples, err := readSamples(dir)
	if err != nil {
		return nil, err
	}
	v.Plots = append(run.plots(), samples.parts()...)
	v.Extremes = samples.extremes(dir)
	for _, l := range run.Abandoned {
		if l.Rollback != nil {
			v.Fired = append(v.Fired, fired{l.Rollback.From, fmt.Sprintf("went back to iteration %d: %s", l.Rollback.To, l.Rollback.Why)})
		}
	}
	for _, l := range run.Lines {
		for _, says := range l.Fired {
			v.Fired = append(v.Fired, fired{l.Iteration, says})
		}
	}
	if v.Pictures, err = pictures(dir); err != nil {
		return nil, err
	}
	if v.Talks, err = talks(dir); err != nil {
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

// rows are what was held out, before and after.
func (r *Run) rows(gains map[string]ledger.Gain) []row {
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(gains)) {
		rows = append(rows, r.rowOf(name, gains[name]))
	}
	return rows
}

// rowOf is a reward's measures.
func (r *Run) rowOf(name string, g ledger.Gain) row {
	line := row{Name: name, Kind: r.kinds()[name], Before: said(g.Before), After: said(g.After)}
	if line.Kind == "" {
		line.Kind = "all trained ones"
	}
	if g.After != nil && g.Iteration != r.Iterations() {
		line.After += fmt.Sprintf(", after iteration %d", g.Iteration)
	}
	if g.Known() {
		line.Gain = Signed(g.After.Mean - g.Before.Mean)
		line.Better, line.Worse = g.After.Low > g.Before.High, g.After.High < g.Before.Low
	}
	return line
}

// pictures are the sheets before and after.
func pictures(dir string) ([]picture, error) {
	sheets, err := filepath.Glob(filepath.Join(dir, "images", "heldout_[0-9]*.png"))
	if err != nil {
		return nil, err
	}
	slices.Sort(sheets)
	shown := []struct{ caption, name string }{{"before", "heldout_before.png"}}
	if len(sheets) > 0 {
		shown = append(shown, struct{ caption, name string }{"after", filepath.Base(sheets[len(sheets)-1])})
	}
	for _, when := range []string{"before", "after"} {
		shown = append(shown, struct{ caption, name string }{when + ", under guidance", "guided_" + when + ".png"})
	}
	var all []picture
	for _, s := range shown {
		source, err := embedded(dir, "images/"+s.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, picture{s.caption, source})
	}
	return all, nil
}

// embedded is a PNG file of the run's folder as a part of the page. What is named beside the folder, or
// linked to, is not read.
func embedded(dir, name string) (template.URL, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	data, err := root.ReadFile(filepath.FromSlash(name))
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(data)), err //nolint:gosec // it is our own picture
}
