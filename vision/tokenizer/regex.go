package tokenizer

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// finder is where matches lie in a text: [start, end) in bytes.
type finder func(string) [][2]int

// matchTime bounds one text's matching: patterns come with models, and look-ahead needs an
// engine that can be made slow. What is left then is one piece.
const matchTime = 5 * time.Second

func (p pattern) compile() (finder, error) {
	switch {
	case p.String != nil && *p.String == "":
		return nil, fmt.Errorf("an empty text to find")
	case p.String != nil:
		return func(s string) [][2]int { return plainMatches(s, *p.String) }, nil
	case p.Regex != nil:
		return compile(*p.Regex)
	}
	return nil, fmt.Errorf(`a pattern is {"String": ...} or {"Regex": ...}`)
}

func plainMatches(s, find string) (all [][2]int) {
	for at := 0; ; {
		i := strings.Index(s[at:], find)
		if i < 0 {
			return all
		}
		all = append(all, [2]int{at + i, at + i + len(find)})
		at += i + len(find)
	}
}

func compile(expression string) (finder, error) {
	re, err := regexp2.Compile(expression, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("the expression %q: %w", expression, err)
	}
	re.MatchTimeout = matchTime
	return func(s string) [][2]int {
		var all [][2]int
		runes := []rune(s)
		offset, at := 0, 0 // bytes before rune at
		m, err := re.FindRunesMatch(runes)
		for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
			for ; at < m.Index; at++ {
				offset += utf8.RuneLen(runes[at])
			}
			start := offset
			for ; at < m.Index+m.Length; at++ {
				offset += utf8.RuneLen(runes[at])
			}
			if offset > start {
				all = append(all, [2]int{start, offset})
			}
		}
		return all
	}, nil
}
