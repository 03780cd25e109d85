// Package anchors names headings as GitHub does: the pages of internal/site have them, and a test holds links to them.
package anchors

import (
	"strings"
	"unicode"
)

// Of is the name of a page's first heading of these words.
func Of(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
