package report

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
)

// A run's samples: the parts of rewards, and the best and the worst pictures.

// Samples holds a page's data of samples.jsonl, which is read as it grows.
type Samples struct {
	tail  folder.Tail
	sums  map[string]map[string]map[int]*average // by reward, part and iteration
	shown []ledger.SampleLine                    // of which a picture was kept
}

// An average is a sum and how many numbers went into it.
type average struct {
	sum float64
	n   int
}

// NewSamples are those of a run's folder; Read reads them.
func NewSamples(dir string) *Samples {
	s := &Samples{tail: folder.Tail{Path: filepath.Join(dir, "samples.jsonl")}}
	s.empty()
	return s
}

func (s *Samples) empty() { s.sums, s.shown = map[string]map[string]map[int]*average{}, nil }

// Read reads the new lines.
func (s *Samples) Read() (changed bool, err error) { return s.tail.Next(s.empty, s.line) }

// sampleBrief holds the fields of a line for parts: most lines have no picture, and need no more.
type sampleBrief struct {
	Iteration int `json:"iteration"`
	Scores    map[string]struct {
		Parts map[string]float64 `json:"parts"`
	} `json:"scores"`
	Rollback *ledger.Rollback `json:"rollback"`
}

// line takes a line of the file. Abandoned lines are left out.
func (s *Samples) line(text []byte) error {
	var b sampleBrief
	if bytes.Contains(text, []byte(`"picture":`)) || !bytes.Contains(text, []byte(`"parts":`)) && bytes.Contains(text, []byte(`"rollback":`)) {
		var l ledger.SampleLine
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Picture != "" && l.Rollback == nil {
			s.shown = append(s.shown, l)
		}
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	if b.Rollback != nil {
		s.forget(b.Rollback.To)
		return nil
	}
	for reward, score := range b.Scores {
		for part, v := range score.Parts {
			s.average(reward, part, b.Iteration).add(v)
		}
	}
	return nil
}

// forget drops the lines after an iteration.
func (s *Samples) forget(iteration int) {
	s.shown = slices.DeleteFunc(s.shown, func(l ledger.SampleLine) bool { return l.Iteration > iteration })
	for _, parts := range s.sums {
		for _, by := range parts {
			maps.DeleteFunc(by, func(i int, _ *average) bool { return i > iteration })
		}
	}
}

// average is where a part's numbers of an iteration are added up.
func (s *Samples) average(reward, part string, iteration int) *average {
	parts := s.sums[reward]
	if parts == nil {
		parts = map[string]map[int]*average{}
		s.sums[reward] = parts
	}
	if parts[part] == nil {
		parts[part] = map[int]*average{}
	}
	a := parts[part][iteration]
	if a == nil {
		a = &average{}
		parts[part][iteration] = a
	}
	return a
}

func (a *average) add(v float64) { a.sum, a.n = a.sum+v, a.n+1 }

// mostParts is how many parts of a reward a plot has: those of a fixed kind, not of single samples.
const mostParts = 8

// parts returns curves of each reward's parts.
func (s *Samples) parts() []Plot {
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

// Kept is a training sample whose picture was kept.
type Kept struct {
	ledger.SampleLine
	Source  string   `json:"source"`
	Sources []string `json:"sources,omitempty"` // its sources
}

// kept are the samples of few iterations at even distances, the first and the last among them; few < 0: of all. A
// sample without a total, or whose picture the page cannot show, is left out.
func (s *Samples) kept(source Source, few int) []Kept {
	var iterations []int
	by := map[int][]ledger.SampleLine{}
	for _, l := range s.shown {
		if l.Total == nil {
			continue
		}
		if by[l.Iteration] == nil {
			iterations = append(iterations, l.Iteration)
		}
		by[l.Iteration] = append(by[l.Iteration], l)
	}
	slices.Sort(iterations)
	var all []Kept
	for _, i := range spread(iterations, few) {
		for _, l := range by[i] {
			if from := source(l.Picture); from != "" {
				k := Kept{SampleLine: l, Source: from}
				for _, name := range l.Sources {
					if made := source(name); made != "" {
						k.Sources = append(k.Sources, made)
					}
				}
				all = append(all, k)
			}
		}
	}
	return all
}

// animated reports whether a PNG file of a run's folder has frames: a chunk acTL precedes its first picture data.
func animated(dir, name string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return false
	}
	defer f.Close()
	const magic, before = 8, 64 // of bytes, and of chunks: a file has few before its pictures
	at := int64(magic)
	for range before {
		var head [8]byte
		if n, err := f.ReadAt(head[:], at); n < len(head) || err != nil && !errors.Is(err, io.EOF) {
			return false
		}
		switch string(head[4:]) {
		case "acTL":
			return true
		case "IDAT":
			return false
		}
		at += int64(len(head)) + int64(binary.BigEndian.Uint32(head[:4])) + 4
	}
	return false
}
