// Package plain makes strangers' text safe to print. Names of files, a server's words and a model's
// settings may hold sequences that move a terminal's cursor, change its title or reverse the order of letters; Text
// shows them as escapes in place of obeying them.
//
// Start with Text; Writer does it to a stream.
package plain

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is s with each control character written as its escape, \u001b, and each byte that is not
// UTF-8 as \x9b. The escapes are those of JSON's strings, so JSON stays the same JSON. Line feeds and
// tabs stay.
func Text(s string) string {
	if strings.IndexFunc(s, unsafe) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unsafe(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// unsafe characters are C0 without line feed and tab, DEL, C1, marks and overrides of direction, and
// the separators of lines and paragraphs.
func unsafe(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x80:
		return r < ' ' || r == 0x7f
	}
	return r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufeff' || unicode.Is(unicode.Bidi_Control, r)
}

// Bold begins and Normal ends bold type: the only sequences that a Writer lets pass.
const (
	Bold   = "\x1b[1m"
	Normal = "\x1b[0m"
)

// A Writer writes Text of its input, and keeps bold type. Every call of Write has whole characters.
type Writer struct{ W io.Writer }

// Write reports the length of p where all of its text was written.
func (w Writer) Write(p []byte) (int, error) {
	if _, err := w.W.Write(clean(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// clean is Text of each part between marks of bold type.
func clean(p []byte) []byte {
	if !bytes.ContainsFunc(p, unsafe) && utf8.Valid(p) {
		return p
	}
	var b strings.Builder
	for s := string(p); s != ""; {
		at, mark := len(s), ""
		for _, m := range []string{Bold, Normal} {
			if i := strings.Index(s, m); i >= 0 && i < at {
				at, mark = i, m
			}
		}
		b.WriteString(Text(s[:at]) + mark)
		s = s[at+len(mark):]
	}
	return []byte(b.String())
}
