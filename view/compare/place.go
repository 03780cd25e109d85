package compare

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Place is a number that differs, or a text.
type Place struct {
	File      string  `json:"file"`
	Line      int     `json:"line,omitempty"` // counted from 1
	Iteration int     `json:"iteration"`      // 0: before the first
	Attempt   int     `json:"attempt,omitempty"`
	Prompt    *int    `json:"prompt,omitempty"`
	Sample    *int    `json:"sample,omitempty"`
	Token     *int    `json:"token,omitempty"` // of an episode
	Text      string  `json:"text,omitempty"`  // the prompt's
	Number    string  `json:"number"`          // as scores.ocr.value
	A         string  `json:"a"`               // "": not there
	B         string  `json:"b"`
	Units     *uint64 `json:"units_in_the_last_place,omitempty"` // between two numbers

	rank rank
}

// String is the place in a sentence.
func (p Place) String() string {
	where := []string{p.File}
	if p.Line > 0 {
		where[0] += fmt.Sprintf(":%d", p.Line)
	}
	if p.Iteration == 0 {
		where = append(where, "before the first iteration")
	} else {
		where = append(where, fmt.Sprintf("iteration %d", p.Iteration))
	}
	if p.Attempt > 0 {
		where = append(where, fmt.Sprintf("attempt %d", p.Attempt+1))
	}
	for _, of := range []struct {
		name string
		n    *int
	}{{"prompt", p.Prompt}, {"sample", p.Sample}, {"token", p.Token}} {
		if of.n != nil {
			where = append(where, fmt.Sprintf("%s %d", of.name, *of.n))
		}
	}
	said := func(v string) string { return cmp.Or(v, "not there") }
	s := fmt.Sprintf("%s: %s is %s in A and %s in B", strings.Join(where, ", "), p.Number, said(p.A), said(p.B))
	switch {
	case p.Units == nil:
	case *p.Units == 1:
		s += ", 1 unit in the last place"
	case *p.Units < 1e6:
		s += fmt.Sprintf(", %d units in the last place", *p.Units)
	default: // as a count it says nothing to people
		a, noA := strconv.ParseFloat(p.A, 64)
		b, noB := strconv.ParseFloat(p.B, 64)
		if most := max(math.Abs(a), math.Abs(b)); noA == nil && noB == nil && most > 0 {
			s += fmt.Sprintf(", %.2g %% apart", 100*math.Abs(a/most-b/most))
		}
	}
	return s
}

// moment is when a line came to be.
type moment struct{ attempt, iteration int }

func (p Place) when() moment { return moment{p.Attempt, p.Iteration} }

func (m moment) before(n moment) int {
	return cmp.Or(cmp.Compare(m.attempt, n.attempt), cmp.Compare(m.iteration, n.iteration))
}
