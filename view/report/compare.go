package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// CompareName is the page of several runs.
const CompareName = "compare.html"

// Compare is a page of several runs: each one's result, their curves over each other, how their
// settings differ from the first one's, and the page of each.
func Compare(dirs []string) ([]byte, error) {
	var runs []*Run
	for _, dir := range dirs {
		r, err := Read(dir)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	TellApart(runs)
	return pageOf(runs)
}

// WriteCompare writes the page to a file.
func WriteCompare(path string, dirs []string) error {
	text, err := Compare(dirs)
	if err != nil {
		return err
	}
	return folder.WriteFile(path, text)
}

// alike reports whether all runs are trained on the same rewards, so that their totals can be compared.
func alike(runs []*Run) bool {
	return !slices.ContainsFunc(runs, func(r *Run) bool { return r.trained() != runs[0].trained() })
}

// TellApart gives runs that are named alike as much of their path as they need.
func TellApart(runs []*Run) {
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

// Signed is a difference to three digits; one that rounds to nothing has no minus.
func Signed(v float64) string {
	if s := fmt.Sprintf("%+.3f", v); s != "-0.000" {
		return s
	}
	return "+0.000"
}

// Difference is how a run's settings differ from the first one's.
type Difference struct {
	Name  string   `json:"name"`
	Lines []string `json:"lines"`
}

func differences(runs []*Run) []Difference {
	var all []Difference
	first, err := experiment.Parse("config.toml", []byte(runs[0].Config), nil)
	if err != nil {
		return nil
	}
	for _, r := range runs[1:] {
		e, err := experiment.Parse("config.toml", []byte(r.Config), nil)
		if err != nil {
			continue
		}
		d := Difference{Name: r.Name, Lines: experiment.Differences(first, e)}
		if len(d.Lines) == 0 {
			d.Lines = []string{"nothing"}
		}
		all = append(all, d)
	}
	return all
}
