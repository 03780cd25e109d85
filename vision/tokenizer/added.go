package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// added is a token that is found in a text as it stands, before the model sees it.
type added struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only between what is not of words
	LStrip     bool   `json:"lstrip"`      // takes the blanks before it
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"` // found in the normalised text
	Special    bool   `json:"special"`
}

// segment is a stretch of text, or a token.
type segment struct {
	text  string
	token *added
}

// cut cuts a text at the tokens that are looked for before or after normalisation: of
// those that begin first the longest.
func cut(text string, tokens []added, normalized bool) []segment {
	var all []segment
	from := 0
	for at := 0; at < len(text); {
		t := longest(text, at, tokens, normalized)
		if t == nil {
			at++
			continue
		}
		end := at + len(t.Content)
		start := at
		if t.LStrip {
			start = from + len(strings.TrimRightFunc(text[from:at], unicode.IsSpace))
		}
		if t.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if start > from {
			all = append(all, segment{text: text[from:start]})
		}
		all = append(all, segment{token: t})
		from, at = end, end
	}
	if from < len(text) {
		all = append(all, segment{text: text[from:]})
	}
	return all
}

func longest(text string, at int, tokens []added, normalized bool) *added {
	var best *added
	for i := range tokens {
		t := &tokens[i]
		if t.Normalized != normalized || t.Content == "" || t.Content[0] != text[at] || !strings.HasPrefix(text[at:], t.Content) {
			continue
		}
		if best != nil && len(best.Content) >= len(t.Content) {
			continue
		}
		if t.SingleWord && (wordBefore(text[:at]) || wordAfter(text[at+len(t.Content):])) {
			continue
		}
		best = t
	}
	return best
}

func isWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func wordBefore(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func wordAfter(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}
