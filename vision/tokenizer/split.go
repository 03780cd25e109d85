package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// splitter cuts pieces of text into words; first says that the text begins with them.
type splitter func(w *work, pieces []string, first bool) []string

type splitterFile struct {
	Type          string         `json:"type"`
	Pretokenizers []splitterFile `json:"pretokenizers"`
	Pattern       pattern        `json:"pattern"`
	Behavior      string         `json:"behavior"`
	Invert        bool           `json:"invert"`
	PrefixSpace   bool           `json:"add_prefix_space"`
	UseRegex      *bool          `json:"use_regex"`
	Replacement   string         `json:"replacement"`
	Scheme        string         `json:"prepend_scheme"`
	Split         *bool          `json:"split"`
	Individual    bool           `json:"individual_digits"`
}

func readSplitter(raw json.RawMessage) (splitter, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var f splitterFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	return f.build()
}

// words is GPT-2's expression.
const words = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func (f splitterFile) build() (splitter, error) {
	switch f.Type {
	case "Sequence":
		var all []splitter
		for _, p := range f.Pretokenizers {
			one, err := p.build()
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return func(w *work, pieces []string, first bool) []string {
			for _, s := range all {
				pieces = s(w, pieces, first)
			}
			return pieces
		}, nil
	case "Split":
		find, err := f.Pattern.compile()
		if err != nil {
			return nil, fmt.Errorf("pre_tokenizer Split: %w", err)
		}
		return each(func(w *work, s string) []string { return cutAt(s, find(w, s), f.Behavior, f.Invert) }), knownBehavior(f.Behavior)
	case "WhitespaceSplit":
		return each(func(_ *work, s string) []string { return strings.FieldsFunc(s, unicode.IsSpace) }), nil
	case "Whitespace":
		find, err := compile(`\w+|[^\w\s]+`)
		return each(func(w *work, s string) []string { return cutAt(s, find(w, s), "Removed", true) }), err
	case "Digits":
		expression := `\p{N}+`
		if f.Individual {
			expression = `\p{N}`
		}
		find, err := compile(expression)
		return each(func(w *work, s string) []string { return cutAt(s, find(w, s), "Isolated", false) }), err
	case "BertPreTokenizer":
		return each(bertWords), nil
	case "ByteLevel":
		return f.byteLevel()
	case "Metaspace":
		if f.Replacement == "" { // it would be found without end
			return nil, errors.New(`pre_tokenizer Metaspace needs a "replacement"`)
		}
		return f.metaspace(), short("pre_tokenizer Metaspace: a replacement", f.Replacement)
	}
	return nil, fmt.Errorf("pre_tokenizer of type %.40q is not known", f.Type)
}

// each applies f to every piece, and drops empty ones.
func each(f func(*work, string) []string) splitter {
	return func(w *work, pieces []string, _ bool) []string {
		var all []string
		for _, p := range pieces {
			for _, w := range f(w, p) {
				if w != "" {
					all = append(all, w)
				}
			}
		}
		return all
	}
}

func (f splitterFile) byteLevel() (splitter, error) {
	var find finder
	if f.UseRegex == nil || *f.UseRegex {
		var err error
		if find, err = compile(words); err != nil {
			return nil, err
		}
	}
	return each(func(w *work, s string) []string {
		if f.PrefixSpace && !strings.HasPrefix(s, " ") {
			s = " " + s
		}
		pieces := []string{s}
		if find != nil {
			pieces = cutAt(s, find(w, s), "Isolated", false)
		}
		for i, p := range pieces {
			pieces[i] = toByteLevel(p)
		}
		return pieces
	}), nil
}

// metaspace writes blanks as a character, puts one before the text, and cuts before each.
func (f splitterFile) metaspace() splitter {
	mark := f.Replacement
	return func(w *work, pieces []string, first bool) []string {
		var all []string
		for i, p := range pieces {
			if !w.holds(len(p) + strings.Count(p, " ")*len(mark)) {
				return nil
			}
			p = strings.ReplaceAll(p, " ", mark)
			prepend := f.Scheme == "always" || f.Scheme == "" || f.Scheme == "first" && first && i == 0
			if prepend && !strings.HasPrefix(p, mark) {
				p = mark + p
			}
			if f.Split != nil && !*f.Split {
				all = append(all, p)
				continue
			}
			all = append(all, cutAt(p, plainMatches(p, mark), "MergedWithNext", false)...)
		}
		return all
	}
}

func knownBehavior(b string) error {
	switch b {
	case "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous":
		return nil
	}
	return fmt.Errorf("pre_tokenizer Split: behavior %.40q is not known", b)
}

// cutAt cuts at matches; invert exchanges them with the text between them.
func cutAt(s string, matches [][2]int, behavior string, invert bool) []string {
	type part struct {
		text  string
		match bool
	}
	var parts []part
	from := 0
	for _, m := range matches {
		if m[0] > from {
			parts = append(parts, part{s[from:m[0]], invert})
		}
		parts = append(parts, part{s[m[0]:m[1]], !invert})
		from = m[1]
	}
	if from < len(s) {
		parts = append(parts, part{s[from:], invert})
	}
	var all []string
	joined := false // whether the last of all takes the following text
	for i, p := range parts {
		last := len(all) - 1
		switch {
		case behavior == "Removed" && p.match:
		case behavior == "MergedWithPrevious" && p.match && i > 0 && !parts[i-1].match,
			behavior == "MergedWithNext" && joined,
			behavior == "Contiguous" && p.match && i > 0 && parts[i-1].match:
			all[last] += p.text
			joined = false
		default:
			all = append(all, p.text)
		}
		if behavior == "MergedWithNext" {
			joined = p.match && i+1 < len(parts) && !parts[i+1].match
		}
	}
	return all
}

// added is a token that is found in a text as it stands, before the model sees it.
type added struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only between characters outside of words
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
