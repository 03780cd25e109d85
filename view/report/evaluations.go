package report

import (
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// An Evaluation is a sheet of held-out pictures, with each one's scores where the folder has them.
type Evaluation struct {
	Iteration int                  `json:"iteration"` // 0: before training
	Guided    bool                 `json:"guided,omitempty"`
	Sheet     string               `json:"sheet,omitempty"`   // where the page finds it
	Plays     bool                 `json:"plays,omitempty"`   // it is animated: of clips
	Sources   string               `json:"sources,omitempty"` // of their sources, each in its picture's place on the first sheet
	Samples   []ledger.HeldOutLine `json:"samples,omitempty"`
}

// A Source is where a page finds a picture of the run's folder; "" where the page shows it not.
type Source func(name string) string

// evaluations are those of a run, the one before training first.
func (r *Run) evaluations(source Source, few int) ([]Evaluation, error) {
	names := []string{"images/heldout_before.png"}
	sheets, _ := filepath.Glob(filepath.Join(r.Dir, "images", "heldout_[0-9]*.png")) // the pattern is well formed
	slices.Sort(sheets)
	for _, s := range spread(sheets, few-1) {
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
				e.Samples = append(e.Samples, l)
			}
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
