package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/record/folder"
)

// Rollback is a ledger's line that abandons the lines between itself and an earlier iteration.
type Rollback struct {
	From    int     `json:"from"` // the last iteration that was abandoned
	To      int     `json:"to"`   // and the last that was kept
	Attempt int     `json:"attempt"`
	LRScale float64 `json:"lr_scale"` // from now on
	Why     string  `json:"why"`
}

// Book is a ledger's lines: those that count, and those that rollbacks abandoned, with the rollbacks' own.
type Book struct {
	Kept, Abandoned []Line
}

// Add takes the next line.
func (b *Book) Add(l Line) {
	if l.Rollback == nil {
		if n := len(b.Kept); n > 0 && b.Kept[n-1].Measuring < l.Measuring { // the held-out measure before is another one
			for i := range b.Kept {
				b.Kept[i].HeldOut = nil
			}
		}
		b.Kept = append(b.Kept, l)
		return
	}
	n := slices.IndexFunc(b.Kept, func(k Line) bool { return k.Iteration > l.Rollback.To })
	if n < 0 {
		n = len(b.Kept)
	}
	b.Abandoned = append(append(b.Abandoned, b.Kept[n:]...), l)
	b.Kept = b.Kept[:n:n]
}

// mostIterations is more than any run makes.
const mostIterations = 1 << 40

// possible is an error where the line cannot be of a run.
func (l Line) possible() error {
	if l.Iteration < 0 || l.Iteration > mostIterations {
		return fmt.Errorf("iteration %d is none of a run", l.Iteration)
	}
	return nil
}

// AddText takes the next line as it stands in the file.
func (b *Book) AddText(text []byte) error {
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if err := l.possible(); err != nil {
		return err
	}
	b.Add(l)
	return nil
}

// Read reads a ledger's lines: those that count, and those that rollbacks abandoned. A
// folder without a ledger has none.
func Read(path string) (kept, abandoned []Line, err error) {
	var b Book
	err = folder.ReadLines(path, b.AddText)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return b.Kept, b.Abandoned, err
}

// eachField calls f for every field of a JSON object, with its name as it is written and its value, until f returns
// false. It reports whether it came to the object's end. Brackets and quotes separate values; f reads their content.
func eachField(text []byte, f func(name, value []byte) bool) bool {
	i := space(text, 0)
	if i == len(text) || text[i] != '{' {
		return false
	}
	if i = space(text, i+1); i < len(text) && text[i] == '}' {
		return space(text, i+1) == len(text)
	}
	for i < len(text) && text[i] == '"' {
		end := stringEnd(text, i)
		colon := space(text, end)
		if end < 0 || colon == len(text) || text[colon] != ':' {
			return false
		}
		from := space(text, colon+1)
		to := valueEnd(text, from)
		if to <= from || !f(text[i+1:end-1], text[from:to]) {
			return false
		}
		if i = space(text, to); i == len(text) {
			return false
		}
		switch text[i] {
		case ',':
			i = space(text, i+1)
		case '}':
			return space(text, i+1) == len(text)
		default:
			return false
		}
	}
	return false
}

// space returns the first place from i on without white space.
func space(text []byte, i int) int {
	for i >= 0 && i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is behind the string that begins at i; -1: it has no end.
func stringEnd(text []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' { // it ends at the quote that began the string
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// ends are the bytes that a value's end may depend on.
var ends = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true, ',': true, ' ': true, '\t': true, '\n': true, '\r': true}

// deepest is how deep values may lie within one another, as for encoding/json.
const deepest = 10000

// valueEnd is behind the value that begins at i; -1: it has no end, or lies too deep.
func valueEnd(text []byte, i int) int {
	deep := 0
	for ; i < len(text); i++ {
		if !ends[text[i]] {
			continue
		}
		switch text[i] {
		case '"':
			if i = stringEnd(text, i); i < 0 || deep == 0 {
				return i
			}
			i--
		case '{', '[':
			if deep++; deep > deepest {
				return -1
			}
		case '}', ']':
			if deep == 0 {
				return i // of the container of the value: a number or a word ends before it
			}
			if deep--; deep == 0 {
				return i + 1
			}
		default:
			if deep == 0 {
				return i
			}
		}
	}
	return -1
}

// An overview of many runs needs little of each line, and reading the rest is most of the work. So lines are walked
// field by field (eachField), and a field that nobody needs is skipped.

// AddBrief takes the next line's iteration, samples, mean total, held-out measures, monitors and rollback alone.
// Skipped fields are not checked either.
func (b *Book) AddBrief(text []byte) error {
	var l Line
	ok := eachField(text, func(name, value []byte) bool {
		switch string(name) {
		case "iteration":
			return integer(value, &l.Iteration)
		case "samples":
			return integer(value, &l.Samples)
		case "total":
			return l.Total.brief(value)
		case "heldout":
			return json.Unmarshal(value, &l.HeldOut) == nil
		case "monitors":
			return json.Unmarshal(value, &l.Fired) == nil
		case "rollback":
			return json.Unmarshal(value, &l.Rollback) == nil
		}
		return true
	})
	if !ok { // the whole line, for a reason in the words of those who read it whole
		l = Line{}
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
	}
	if err := l.possible(); err != nil {
		return err
	}
	b.Add(l)
	return nil
}

// brief takes the mean, which may be null, and how many are missing.
func (s *Spread) brief(text []byte) (ok bool) {
	s.Mean = math.NaN()
	return eachField(text, func(name, value []byte) bool {
		switch string(name) {
		case "mean":
			return string(value) == "null" || number(value, &s.Mean)
		case "missing":
			return integer(value, &s.Missing)
		}
		return true
	})
}

// number reads a number as JSON has it.
func number(text []byte, into *float64) bool {
	v, err := strconv.ParseFloat(string(text), 64)
	*into = v
	return err == nil && (text[0] == '-' || text[0] >= '0' && text[0] <= '9')
}

func integer(text []byte, into *int) bool {
	v, err := strconv.Atoi(string(text))
	*into = v
	return err == nil
}

// BriefTiming is a line of timing.jsonl with the seconds of the whole iteration alone.
func BriefTiming(text []byte) (l TimingLine, ok bool) {
	ok = eachField(text, func(name, value []byte) bool {
		switch string(name) {
		case "iteration":
			return integer(value, &l.Iteration)
		case "seconds":
			return eachField(value, func(part, seconds []byte) bool {
				var all float64
				if string(part) != "all" {
					return true
				}
				ok := number(seconds, &all)
				l.Seconds = map[string]float64{"all": all}
				return ok
			})
		}
		return true
	})
	return l, ok && l.Seconds != nil
}
