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
	v := view{Style: Style(), Name: run.Name, Status: run.Status(), Config: run.Config, Plan: planned(run)}
	if r := run.Result; r != nil {
		v.Why, v.Rows, v.Guidance, v.Guided = r.Why, table(r), r.Guidance, guided(r)
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

// table is what was held out, before and after.
func table(r *ledger.Result) []row {
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(r.HeldOut)) {
		g := r.HeldOut[name]
		rows = append(rows, rowOf(r, name, g.Before, &g.After))
	}
	return rows
}

// guided is the same under guidance.
func guided(r *ledger.Result) []row {
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(r.Guided)) {
		rows = append(rows, rowOf(r, name, r.Guided[name].Before, r.Guided[name].After))
	}
	return rows
}

// rowOf is a reward's measures; after may be nil.
func rowOf(r *ledger.Result, name string, before ledger.Measure, after *ledger.Measure) row {
	line := row{Name: name, Kind: r.Rewards[name], Before: said(before)}
	if line.Kind == "" {
		line.Kind = "all trained ones"
	}
	if after != nil {
		line.After, line.Gain = said(*after), Signed(after.Mean-before.Mean)
		line.Better, line.Worse = after.Low > before.High, after.High < before.Low
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
