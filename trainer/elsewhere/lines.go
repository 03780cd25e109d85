package elsewhere

import (
	"regexp"
	"slices"
	"strings"
)

// Python's statements: where they begin and end, and which names they may set.

// logical is a statement with its indent.
type logical struct {
	text   string
	indent int
	at     int // its first line
}

// statements are a file's: comments are left out, lines in brackets and texts of several lines are one.
func statements(text string) (all []logical) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var b strings.Builder
	var s logical
	line, begin, open := 1, 0, 0
	end := func() {
		if s.text = strings.TrimSpace(b.String()); s.text != "" {
			all = append(all, s)
		}
		b.Reset()
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if b.Len() == 0 && strings.IndexByte(" \t\f\n", c) >= 0 {
			if c == '\n' {
				line, begin = line+1, i+1
			}
			continue
		}
		if b.Len() == 0 {
			if s.at = line; strings.TrimSpace(text[begin:i]) == "" {
				s.indent = i - begin
			}
		}
		switch {
		case c == '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case c == '"' || c == '\'':
			inner, after := literal(text[i:])
			b.WriteString(inner)
			line += strings.Count(text[i:i+after], "\n")
			i += after - 1
		case c == '\\' && i+1 < len(text) && text[i+1] == '\n', c == '\n' && open > 0:
			b.WriteByte(' ')
			if line++; c != '\n' {
				i++
			}
		case c == '\n' || c == ';' && open == 0:
			if end(); c == '\n' {
				line, begin = line+1, i+1
			}
		default:
			if strings.IndexByte("([{", c) >= 0 {
				open++
			} else if strings.IndexByte(")]}", c) >= 0 {
				open = max(0, open-1)
			}
			b.WriteByte(c)
		}
	}
	end()
	return all
}

// literal is the quoted text that a text begins with, in single quotation marks, and its length. One without an end
// ends with its line; of three marks, with the file.
func literal(text string) (string, int) {
	mark := text[:1]
	if three := strings.Repeat(mark, 3); strings.HasPrefix(text, three) {
		mark = three
	}
	for i := len(mark); i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], mark):
			if inner := text[len(mark):i]; len(mark) == 3 {
				return `"` + strings.ReplaceAll(inner, `"`, `\"`) + `"`, i + 3
			}
			return text[:i+1], i + 1
		case text[i] == '\n' && len(mark) == 1:
			return text[:i], i
		}
	}
	return text, len(text)
}

var (
	dotted  = regexp.MustCompile(`^[A-Za-z_]\w*(\.\w+|\[ *("\w+"|'\w+') *\])*`)
	keyed   = regexp.MustCompile(`\[ *["'](\w+)["'] *\]`)
	quoted  = regexp.MustCompile(`^[fFrRbBuU]{0,2}["']`)
	numeral = regexp.MustCompile(`^[0-9_]*\.?[0-9_]*([eE][+-]?[0-9_]+)?\w*`)
	changes = regexp.MustCompile(`^(.+)\.(update|update_from_flattened_dict|setdefault|pop|popitem|clear|__setattr__|__setitem__)$`)
)

// plainPath has NAME["key"] as NAME.key.
func plainPath(path string) string { return keyed.ReplaceAllString(path, ".$1") }

// word is a text's first one, and the rest.
func word(text string) (first, rest string) {
	text = strings.TrimSpace(text)
	i := 0
	for i < len(text) && isName(text[i]) {
		i++
	}
	return text[:i], strings.TrimSpace(text[i:])
}

// defines is the name of the function that a statement begins, and its parameters.
func (s logical) defines() (name, parameters string, ok bool) {
	first, rest := word(s.text)
	if first == "async" {
		first, rest = word(rest)
	}
	if first != "def" {
		return "", "", false
	}
	name, parameters = word(rest)
	parameters, _, _ = strings.Cut(strings.TrimPrefix(parameters, "("), ")")
	return name, strings.TrimSpace(parameters), true
}

// outer calls f with each byte outside of brackets and quoted texts, up to one for which it is true.
func outer(text string, f func(i int) bool) {
	open := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			_, n := literal(text[i:])
			i += n - 1
		case strings.IndexByte("([{", c) >= 0:
			open++
		case strings.IndexByte(")]}", c) >= 0:
			open--
		case open == 0 && f(i):
			return
		}
	}
}

// parts are a statement and, behind the colon of if, for and their like, the statement on the same line.
func (s logical) parts() []string {
	switch first, _ := word(s.text); first {
	case "if", "elif", "else", "for", "while", "with", "try", "except", "finally", "def", "class", "async", "match",
		"case":
		at := len(s.text)
		outer(s.text, func(i int) bool {
			if s.text[i] == ':' {
				at = i
			}
			return at < len(s.text)
		})
		if at < len(s.text) {
			return append([]string{s.text[:at]}, logical{text: strings.TrimSpace(s.text[at+1:])}.parts()...)
		}
	}
	return []string{s.text}
}

// A target is a name that a statement may set, or a table inside which it may.
type target struct {
	name   string
	inside bool
}

// targets are those of an assignment, a for, a del, of methods that change a table, and the arguments of calls.
func targets(text string) []target {
	return append(assigned(text), arguments(text)...)
}

// idle are names before a bracket that change no table inside it.
var idle = strings.Fields(`and assert copy.copy copy.deepcopy dict elif enumerate float for if in int is isinstance len
	list max min ml_collections.ConfigDict ConfigDict not or print range return round set sorted str sum tuple type while with`)

// arguments are names in the brackets of calls, which may change them.
func arguments(text string) (all []target) {
	if first, _ := word(text); first == "def" || first == "class" || first == "async" {
		return nil
	}
	open := []bool{false} // whether a bracket is a call's, or inside of one
	callee := ""
	for i := 0; i < len(text); {
		c, inside := text[i], open[len(open)-1]
		n := 1
		switch path := dotted.FindString(text[i:]); {
		case c == '"' || c == '\'':
			_, n = literal(text[i:])
		case path != "" && (i == 0 || !isName(text[i-1]) && text[i-1] != '.'):
			if n = len(path); strings.HasPrefix(strings.TrimLeft(text[i+n:], " \t"), "(") {
				callee = plainPath(path)
			} else if inside {
				all = append(all, target{plainPath(path), true})
			}
		case strings.IndexByte("([{", c) >= 0:
			open = append(open, inside || callee != "" && !slices.Contains(idle, callee))
			callee = ""
		case strings.IndexByte(")]}", c) >= 0 && len(open) > 1:
			open = open[:len(open)-1]
		}
		i += n
	}
	return all
}

// assigned are targets beside calls.
func assigned(text string) (all []target) {
	first, rest := word(text)
	end := 0
	switch first {
	case "del":
		text, end = rest, len(rest)
	case "for", "async":
		if text = strings.TrimPrefix(rest, "for "); strings.Contains(text, " in ") {
			end = strings.Index(text, " in ")
		}
	case "with", "except":
		if i := strings.LastIndex(text, " as "); i >= 0 {
			text = text[i+len(" as "):]
			end = len(text)
		}
	case "setattr":
		return assigned(strings.Replace(strings.TrimPrefix(rest, "("), ",", "[0] = ", 1))
	default:
		outer(text, func(i int) bool {
			before := text[max(0, i-1)]
			if text[i] == '=' && strings.IndexByte("=!<>", before) < 0 && !strings.HasPrefix(text[i+1:], "=") {
				end = i
			}
			return false
		})
		if m := changes.FindStringSubmatch(dotted.FindString(text)); m != nil && end == 0 {
			return []target{{plainPath(m[1]), true}}
		}
	}
	for i := 0; i < end; {
		path := dotted.FindString(text[i:end])
		if path == "" || i > 0 && (isName(text[i-1]) || text[i-1] == '.') {
			i++
			continue
		}
		i += len(path)
		all = append(all, target{plainPath(path), strings.HasPrefix(text[i:], "[")})
	}
	return all
}
