package report

import (
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// What a run's samples show: the parts that rewards consist of, and the best and the worst pictures.

// samples is what a page needs of samples.jsonl.
type samples struct {
	sums  map[string]map[string]map[int]*average // by reward, part and iteration
	shown map[int][]ledger.SampleLine            // of which a picture was kept
}

// An average is a sum and how many numbers went into it.
type average struct {
	sum float64
	n   int
}

// readSamples reads the file line by line. What a rollback took back is left out.
func readSamples(dir string) (*samples, error) {
	s := &samples{map[string]map[string]map[int]*average{}, map[int][]ledger.SampleLine{}}
	err := folder.ReadLines(filepath.Join(dir, "samples.jsonl"), func(text []byte) error {
		var l ledger.SampleLine
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Rollback != nil {
			s.forget(l.Rollback.To)
			return nil
		}
		s.add(l)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, err
}

// forget drops what came after an iteration.
func (s *samples) forget(iteration int) {
	later := func(i int) bool { return i > iteration }
	maps.DeleteFunc(s.shown, func(i int, _ []ledger.SampleLine) bool { return later(i) })
	for _, parts := range s.sums {
		for _, by := range parts {
			maps.DeleteFunc(by, func(i int, _ *average) bool { return later(i) })
		}
	}
}

func (s *samples) add(l ledger.SampleLine) {
	if l.Picture != "" && l.Total != nil {
		s.shown[l.Iteration] = append(s.shown[l.Iteration], l)
	}
	for reward, score := range l.Scores {
		for part, v := range score.Parts {
			parts := s.sums[reward]
			if parts == nil {
				parts = map[string]map[int]*average{}
				s.sums[reward] = parts
			}
			if parts[part] == nil {
				parts[part] = map[int]*average{}
			}
			a := parts[part][l.Iteration]
			if a == nil {
				a = &average{}
				parts[part][l.Iteration] = a
			}
			a.sum, a.n = a.sum+v, a.n+1
		}
	}
}

// mostParts is how many parts of a reward a plot has: those of a fixed kind, not of single samples.
const mostParts = 8

// parts are curves of what each reward consists of.
func (s *samples) parts() []Plot {
	var all []Plot
	for _, reward := range slices.Sorted(maps.Keys(s.sums)) {
		p := Plot{Title: "Parts of “" + reward + "”, training samples"}
		for _, part := range slices.Sorted(maps.Keys(s.sums[reward])) {
			by := s.sums[reward][part]
			c := Curve{Name: part}
			for _, i := range slices.Sorted(maps.Keys(by)) {
				c.X, c.Y = append(c.X, float64(i)), append(c.Y, by[i].sum/float64(by[i].n))
			}
			if len(p.Curves) < mostParts {
				p.Curves = with(p.Curves, c)
			}
		}
		if len(p.Curves) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// An extreme is an iteration's best and worst picture.
type extreme struct {
	Iteration   int
	Best, Worst pictured
}

// pictured is a sample with its picture and what was said of it.
type pictured struct {
	Source template.URL
	Total  string
	Text   string
	Said   string // every reward's score
}

// mostExtremes is how many iterations are shown.
const mostExtremes = 8

// extremes are iterations at even distances, the first and the last among them. One whose pictures
// are gone is left out.
func (s *samples) extremes(dir string) []extreme {
	iterations := slices.Sorted(maps.Keys(s.shown))
	n := min(len(iterations), mostExtremes)
	var all []extreme
	for k := range n {
		i := iterations[0]
		if n > 1 {
			i = iterations[k*(len(iterations)-1)/(n-1)]
		}
		two := slices.Clone(s.shown[i])
		slices.SortStableFunc(two, func(a, b ledger.SampleLine) int {
			switch {
			case *a.Total > *b.Total:
				return -1
			case *a.Total < *b.Total:
				return 1
			}
			return 0
		})
		best, err := picturedSample(dir, two[0])
		if err != nil {
			continue
		}
		worst, err := picturedSample(dir, two[len(two)-1])
		if err != nil {
			continue
		}
		all = append(all, extreme{i, best, worst})
	}
	return all
}

func picturedSample(dir string, l ledger.SampleLine) (pictured, error) {
	source, err := embedded(dir, l.Picture)
	s := pictured{Source: source, Total: label(*l.Total), Text: l.Text}
	var said []string
	for _, reward := range slices.Sorted(maps.Keys(l.Scores)) {
		switch score := l.Scores[reward]; {
		case score.Value != nil:
			said = append(said, reward+" "+label(*score.Value))
		default:
			said = append(said, reward+" missing: "+score.Missing)
		}
	}
	s.Said = strings.Join(said, ", ")
	return s, err
}
