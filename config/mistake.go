package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Mistake is something wrong, and where:
//
//	quickstart.toml:23:1: unknown key "loss.clip_rnage"
//	  23 | clip_rnage = 0.2
//	     | ~~~~~~~~~~
//	  hint: did you mean "clip_range"?
//
// A setting of the command line has no line or column: it is shown as typed.
type Mistake struct {
	File    string // or --set
	Line    int    // from 1; 0 where the mistake is something missing
	Column  int    // from 1, in characters
	Problem string
	Hint    string

	at      span
	key     string
	first   *span // where the same thing is written before
	excerpt string
}

// Mistakes is an error that tells all of them.
type Mistakes []Mistake

// mostTold bounds a message: a file with more mistakes than this is another file.
const mostTold = 50

func (m Mistakes) Error() string {
	var b strings.Builder
	for i, one := range m {
		if i == mostTold {
			fmt.Fprintf(&b, "\n... and %d more", len(m)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(one.String())
	}
	return b.String()
}

func (m Mistake) String() string {
	s := m.File
	if m.Line > 0 {
		s += fmt.Sprintf(":%d:%d", m.Line, m.Column)
	}
	s += ": " + m.Problem + m.excerpt
	if m.Hint != "" {
		s += "\n  hint: " + m.Hint
	}
	return s
}

// locate finds the line and the column of a mistake, and shows them. An empty span
// at the start of a file is nowhere in it.
func (d *Document) locate(m *Mistake) {
	src := d.sources[m.at.source]
	m.File = src.name
	if m.first != nil {
		m.Hint = fmt.Sprintf("the first is on line %d", src.line(m.first.at))
	}
	if m.at == (span{}) {
		return
	}
	start := 1 + bytes.LastIndexByte(src.text[:m.at.at], '\n')
	end := len(src.text)
	if i := bytes.IndexByte(src.text[m.at.at:], '\n'); i >= 0 {
		end = m.at.at + i
	}
	line := bytes.TrimRight(src.text[start:end], "\r\n")
	label := "--set"
	if !src.set {
		m.Line = src.line(m.at.at)
		m.Column = 1 + utf8.RuneCount(src.text[start:m.at.at])
		label = fmt.Sprint(m.Line)
	}
	from := min(m.at.at-start, len(line))
	to := min(max(m.at.to-start, from), len(line))
	m.excerpt = excerpt(label, string(line[:from]), string(line[from:to]), string(line[to:]))
}

// line is the number of the line that a byte is on.
func (s source) line(at int) int { return 1 + bytes.Count(s.text[:at], []byte("\n")) }

// brief cuts texts that would flood a terminal.
func brief(s string) string {
	const most = 400
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// excerpt shows a line with tildes under its middle part; long lines are cut.
func excerpt(label, before, marked, after string) string {
	const most = 40 // characters on either side
	b, m, a := []rune(plain(before)), []rune(plain(marked)), []rune(plain(after))
	if len(b) > 2*most {
		b = append([]rune("..."), b[len(b)-most:]...)
	}
	if len(m) > 2*most {
		m = append(m[:2*most], []rune("...")...)
		a = nil
	}
	if len(a) > 2*most {
		a = append(a[:most], []rune("...")...)
	}
	tildes := strings.Repeat("~", max(1, len(m)))
	return fmt.Sprintf("\n  %s | %s%s%s\n  %s | %s%s", label, string(b), string(m), string(a),
		strings.Repeat(" ", len(label)), strings.Repeat(" ", len(b)), tildes)
}

// plain makes a stranger's text safe for a terminal, one character for one.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '\uFFFD'
		}
		return r
	}, s)
}

// Near is the name most like a wrong one, "" if none is like enough: about a third
// of the letters may differ, or one may begin with all of the other.
func Near(wrong string, names []string) string {
	if best := nearest(wrong, names, max(1, len(wrong)/3)); best != "" {
		return best
	}
	for _, n := range names {
		if len(n) > 2 && strings.HasPrefix(wrong, n) || len(wrong) > 2 && strings.HasPrefix(n, wrong) {
			return n
		}
	}
	return ""
}

// nearest is the name with the fewest edits, if there are no more than most.
func nearest(wrong string, names []string, most int) (best string) {
	for _, n := range names {
		if d := edits(wrong, n); d <= most {
			best, most = n, d-1
		}
	}
	return best
}

// edits is the number of letters to insert, delete, replace, or swap with their
// neighbour, to make b of a (optimal string alignment).
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 { // nobody misspells that
		return 64
	}
	var rows [2][]int // the last two
	rows[1] = make([]int, len(b)+1)
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := rows[1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = slices.Min([]int{change, rows[1][j] + 1, row[j-1] + 1})
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], rows[0][j-2]+1)
			}
		}
		rows[0], rows[1] = rows[1], row
	}
	return rows[1][len(b)]
}
