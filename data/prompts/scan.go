package prompts

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// scan is a place in a text of JSON. Each method reads the element of its name, and returns false if the text has
// another or a complex one: a key with escapes, an object of many keys, deep nesting.
type scan struct {
	text string
	at   int
}

const (
	deepest  = 32 // objects and lists in each other
	mostKeys = 16 // of an object
)

// next returns the next byte other than a blank; 0 at the end.
func (s *scan) next() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take passes over a byte, after blanks.
func (s *scan) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at++
	return true
}

// quoted returns the bytes between a string's marks, and whether they are its text, without escapes.
func (s *scan) quoted() (inner string, plain, ok bool) {
	if !s.take('"') {
		return "", false, false
	}
	from := s.at
	for plain = true; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[from : s.at-1], plain, true
		case c < ' ':
			return "", false, false
		case c == '\\':
			n := escape(s.text[s.at+1:])
			if n == 0 {
				return "", false, false
			}
			plain, s.at = false, s.at+n
		}
	}
	return "", false, false
}

// escape returns the number of bytes of an escape behind its backslash; 0: not an escape.
func escape(text string) int {
	if len(text) == 0 {
		return 0
	}
	switch text[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(text) < 5 {
			return 0
		}
		for _, c := range []byte(text[1:5]) {
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return 0
			}
		}
		return 5
	}
	return 0
}

// object hands on the keys, each once, with the scan before their values, which each must pass over.
func (s *scan) object(each func(key string) bool) bool {
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	var keys [mostKeys]string
	for n := range keys {
		key, plain, ok := s.quoted()
		if !ok || !plain || !s.take(':') {
			return false
		}
		if slices.Contains(keys[:n], key) {
			return false
		}
		keys[n] = key
		if !each(key) {
			return false
		}
		if !s.take(',') {
			return s.take('}')
		}
	}
	return false
}

// list passes over values.
func (s *scan) list(depth int) bool {
	s.at++
	if s.take(']') {
		return true
	}
	for s.value(depth) {
		if !s.take(',') {
			return s.take(']')
		}
	}
	return false
}

// value passes over any value.
func (s *scan) value(depth int) bool {
	switch c := s.next(); {
	case c == '"':
		_, _, ok := s.quoted()
		return ok
	case depth == deepest:
		return false
	case c == '{':
		return s.object(func(string) bool { return s.value(depth + 1) })
	case c == '[':
		return s.list(depth + 1)
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *scan) literal(word string) bool {
	if !strings.HasPrefix(s.text[s.at:], word) {
		return false
	}
	s.at += len(word)
	return true
}

// number passes over -12.5e+3 and the like.
func (s *scan) number() bool {
	s.one('-', '-')
	if zero := s.one('0', '0'); !zero && s.digits() == 0 {
		return false
	}
	if s.one('.', '.') && s.digits() == 0 {
		return false
	}
	if s.one('e', 'E') {
		s.one('+', '-')
		return s.digits() > 0
	}
	return true
}

// one reads one of two bytes.
func (s *scan) one(a, b byte) bool {
	if s.at < len(s.text) && (s.text[s.at] == a || s.text[s.at] == b) {
		s.at++
		return true
	}
	return false
}

func (s *scan) digits() (n int) {
	for ; s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9'; n++ {
		s.at++
	}
	return n
}

// Long lists have plain records: a text, its meta, each key once. quick reads those in one pass over the line, and
// shares the memory of the line; it leaves any other line, right or wrong, to record, which reports the mistake.
//
// Invariant (fuzzed): quick and record read the same prompt from a line that quick accepts.

// quick is a line's prompt; false where record has to read it.
func quick(line string) (p Prompt, ok bool) {
	s := scan{text: line}
	ok = s.object(func(key string) (ok bool) {
		switch key {
		case "prompt":
			p.Text, ok = s.word()
		case "negative":
			var text string
			text, ok = s.word()
			p.Negative = &text
		case "meta":
			p.Meta, ok = s.meta()
		case "image":
			var name string
			name, ok = s.word()
			p.Image = Images{name}
		case "width":
			p.Width, ok = s.count()
		case "height":
			p.Height, ok = s.count()
		case "frames":
			p.Frames, ok = s.count()
		}
		return ok
	})
	return p, ok && s.next() == 0 && s.at == len(line)
}

// meta is an object as it is written.
func (s *scan) meta() (Meta, bool) {
	s.next()
	from, empty := s.at, true
	ok := s.object(func(string) bool {
		empty = false
		return s.value(1)
	})
	if empty {
		return "", ok
	}
	return Meta(s.text[from:s.at]), ok
}

// word is a string's text.
func (s *scan) word() (string, bool) {
	s.next()
	from := s.at
	inner, plain, ok := s.quoted()
	if !ok || plain {
		return inner, ok
	}
	if text, ok := unescaped(inner); ok {
		return text, true
	}
	var text string
	err := json.Unmarshal([]byte(s.text[from:s.at]), &text)
	return text, err == nil
}

// unescaped is a string's text where only single characters are escaped, and none by its number.
func unescaped(inner string) (string, bool) {
	var b strings.Builder
	b.Grow(len(inner))
	for {
		i := strings.IndexByte(inner, '\\')
		if i < 0 {
			b.WriteString(inner)
			return b.String(), true
		}
		b.WriteString(inner[:i])
		at := strings.IndexByte(`"\/bfnrt`, inner[i+1])
		if at < 0 {
			return "", false
		}
		b.WriteByte("\"\\/\b\f\n\r\t"[at])
		inner = inner[i+2:]
	}
}

// count is a whole number.
func (s *scan) count() (int, bool) {
	s.next()
	from := s.at
	if !s.number() {
		return 0, false
	}
	n, err := strconv.Atoi(s.text[from:s.at])
	return n, err == nil
}
