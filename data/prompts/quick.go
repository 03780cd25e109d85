package prompts

import (
	"encoding/json"
	"strconv"
	"strings"
)

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
