package ptxtest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A module is PTX text, split into functions. Bodies are parsed when a kernel is asked for.
type module struct {
	functions map[string]*function
	kernels   map[string]*program
}

// A function as the text has it.
type function struct {
	name   string
	entry  bool
	params []parameter
	result string // the name of its result, "" for nothing
	body   string
	line   int // of the body's beginning
	parsed []statement
	// The limit of a kernel's block: .maxntid, or the limit of every device.
	threads int
}

type parameter struct {
	name  string
	class class
	bytes int
}

// A statement is a declaration, a label, a bracket of a scope, or an instruction.
type statement struct {
	line    int
	guard   string // a predicate's name
	negated bool
	op      string   // ".reg" and the like; "label"; "{" and "}"; or an instruction's name
	args    []string // as they are written
}

var (
	header    = regexp.MustCompile(`(?m)^(?:\.visible )?\.(entry|func)\s+(?:\(\.param \.\w+ (\w+)\) )?(\w+)\(`)
	mostText  = regexp.MustCompile(`\n\.maxntid (\d+), 1, 1\n`)
	paramText = regexp.MustCompile(`\.param (?:\.align \d+ )?\.([bfsu]\d+) (\w+)(?:\[(\d+)\])?`)
)

// parse splits a module's text.
func parse(text string) (*module, error) {
	m := &module{map[string]*function{}, map[string]*program{}}
	if !strings.Contains(text, "\n.version ") {
		return nil, fmt.Errorf("this is no PTX: there is no .version")
	}
	line, at := 1, 0
	for _, h := range header.FindAllStringSubmatchIndex(text, -1) {
		open := strings.Index(text[h[0]:], "\n{\n")
		end := strings.Index(text[h[0]:], "\n}\n")
		if open < 0 || end < open {
			return nil, fmt.Errorf("a function's body has no end: %.60q", text[h[0]:])
		}
		open, end = h[0]+open, h[0]+end
		line += strings.Count(text[at:open], "\n")
		at = open
		f := &function{name: text[h[6]:h[7]], entry: text[h[2]:h[3]] == "entry", body: text[open+3 : end+1], line: line + 2,
			threads: 1024}
		if h[4] >= 0 {
			f.result = text[h[4]:h[5]]
		}
		for _, p := range paramText.FindAllStringSubmatch(text[h[1]:open], -1) {
			bytes, _ := strconv.Atoi(p[3])
			f.params = append(f.params, parameter{p[2], classOf("." + p[1]), bytes})
		}
		if most := mostText.FindStringSubmatch(text[h[1] : open+1]); most != nil {
			f.threads, _ = strconv.Atoi(most[1])
		}
		m.functions[f.name] = f
	}
	return m, nil
}

// statements are a function's, read once.
func (f *function) statements() ([]statement, error) {
	if f.parsed != nil {
		return f.parsed, nil
	}
	s := scanner{text: f.body, line: f.line}
	for {
		st, ok, err := s.next()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", s.line, err)
		}
		if !ok {
			return f.parsed, nil
		}
		f.parsed = append(f.parsed, st)
	}
}

// A scanner reads a body's statements one after another.
type scanner struct {
	text string
	line int
}

func (s *scanner) next() (st statement, ok bool, err error) {
	if s.space(); s.text == "" {
		return st, false, nil
	}
	st.line = s.line
	switch s.text[0] {
	case '{', '}':
		st.op, s.text = s.text[:1], s.text[1:]
		return st, true, nil
	case '$':
		name, rest, found := strings.Cut(s.text, ":")
		if !found || strings.ContainsAny(name, " \n;") {
			return st, false, fmt.Errorf("a label without its colon: %.40q", s.text)
		}
		st.op, st.args, s.text = "label", []string{name}, rest
		return st, true, nil
	}
	text, rest, found := strings.Cut(s.text, ";")
	if !found {
		return st, false, fmt.Errorf("a statement has no end: %.40q", s.text)
	}
	s.line += strings.Count(text, "\n")
	s.text = rest
	if text[0] == '@' {
		name, after, _ := strings.Cut(text[1:], " ")
		st.guard, st.negated = strings.TrimPrefix(name, "!"), name[0] == '!'
		text = strings.TrimSpace(after)
	}
	end := strings.IndexAny(text, " \t\n")
	if end < 0 {
		st.op = text
		return st, true, nil
	}
	st.op, st.args = text[:end], split(text[end:])
	return st, true, nil
}

// space passes over blanks and remarks.
func (s *scanner) space() {
	for s.text != "" {
		switch c := s.text[0]; {
		case c == '\n':
			s.line++
			s.text = s.text[1:]
		case c == ' ' || c == '\t':
			s.text = s.text[1:]
		case strings.HasPrefix(s.text, "//"):
			_, s.text, _ = strings.Cut(s.text, "\n")
			s.line++
		default:
			return
		}
	}
}

// split parts operands at commas that are in no bracket.
func split(text string) (args []string) {
	depth, from := 0, 0
	for i := range text {
		switch text[i] {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			depth--
		case ',':
			if depth == 0 {
				args = append(args, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	return append(args, strings.TrimSpace(text[from:]))
}
