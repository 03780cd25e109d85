// Package pytext reads text the way Python reads it.
//
// What language models write is judged by published programs, and those are written in Python:
// what str.strip removes, which texts float takes, that json.loads knows NaN, decide whether an
// answer counts. Go differs in each of these, so the rules are here, once.
//
// Here are white space and case; values.go has float, isdigit, repr, str and the types of values, json.go has
// json.loads and json.dumps.
package pytext

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Space is str.isspace: Go's white space, and the four separators of ASCII.
func Space(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// SpaceClass is \s of the module re, for Go's regexp.
const SpaceClass = `[\s\v\x1c-\x1f\x85\p{Z}]`

// Strip is str.strip.
func Strip(s string) string { return strings.TrimFunc(s, Space) }

// Fields is str.split without an argument.
func Fields(s string) []string { return strings.FieldsFunc(s, Space) }

// Lower is str.lower: the full rules, by which a word's last sigma has its own form, and a
// dotted I becomes two code points.
func Lower(s string) string { return cases.Lower(language.Und).String(s) }

// Upper is str.upper.
func Upper(s string) string { return cases.Upper(language.Und).String(s) }

// Last is s.split(sep)[-1]: what follows the last sep, all where there is none.
func Last(s, sep string) string {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[i+len(sep):]
	}
	return s
}

// First is s.split(sep)[0].
func First(s, sep string) string {
	before, _, _ := strings.Cut(s, sep)
	return before
}

// Tail is s[-n:], in code points.
func Tail(s string, n int) string {
	runes := []rune(s)
	return string(runes[max(0, len(runes)-n):])
}
