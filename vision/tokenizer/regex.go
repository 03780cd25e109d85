package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// finder is where matches lie in a text: [start, end) in bytes.
type finder func(*work, string) [][2]int

func (p pattern) compile() (finder, error) {
	switch {
	case p.String != nil && *p.String == "":
		return nil, fmt.Errorf("an empty text to find")
	case p.String != nil:
		return func(_ *work, s string) [][2]int { return plainMatches(s, *p.String) }, nil
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
		return nil, fmt.Errorf("the expression %.200q: %w", expression, err)
	}
	re.MatchTimeout = workTime
	return func(w *work, s string) [][2]int {
		var all [][2]int
		if !w.goesOn() {
			return nil
		}
		runes := []rune(s)
		offset, at := 0, 0 // bytes before rune at
		m, err := re.FindRunesMatch(runes)
		for ; m != nil && err == nil && w.goesOn(); m, err = re.FindNextMatch(m) {
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
		if err != nil {
			w.late = true
			w.fail("matching %.40q takes more than %v: it is broken, or made to be slow", expression, workTime)
		}
		return all
	}, nil
}
