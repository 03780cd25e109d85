package tokenizer

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites a text before it is split.
type normalizer func(*work, string) string

type normalizerFile struct {
	Type        string           `json:"type"`
	Normalizers []normalizerFile `json:"normalizers"`
	Pattern     pattern          `json:"pattern"`
	Content     string           `json:"content"`
	Left        bool             `json:"strip_left"`
	Right       bool             `json:"strip_right"`
	Prepend     string           `json:"prepend"`
	CharsMap    string           `json:"precompiled_charsmap"`

	bertNormal
}

// plainly is a function that costs what the text's length says.
func plainly(f func(string) string) normalizer { return func(_ *work, s string) string { return f(s) } }

// pattern is a text to find, or an expression.
type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

func readNormalizer(raw json.RawMessage) (normalizer, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var f normalizerFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	return f.build()
}

func (f normalizerFile) build() (normalizer, error) {
	switch f.Type {
	case "Sequence":
		var all []normalizer
		for _, n := range f.Normalizers {
			one, err := n.build()
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return func(w *work, s string) string {
			for _, n := range all {
				if !w.holds(len(s)) {
					return ""
				}
				s = n(w, s)
			}
			return s
		}, nil
	case "NFC":
		return plainly(norm.NFC.String), nil
	case "NFD":
		return plainly(norm.NFD.String), nil
	case "NFKC":
		return plainly(norm.NFKC.String), nil
	case "NFKD":
		return plainly(norm.NFKD.String), nil
	case "BertNormalizer":
		return f.bertNormal.normalizer(), nil
	case "Lowercase":
		return plainly(lower), nil
	case "Strip":
		return plainly(func(s string) string {
			if f.Left {
				s = strings.TrimLeftFunc(s, unicode.IsSpace)
			}
			if f.Right {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
			}
			return s
		}), nil
	case "Prepend":
		return plainly(func(s string) string {
			if s == "" {
				return s
			}
			return f.Prepend + s
		}), short("normalizer Prepend: a text", f.Prepend)
	case "Replace":
		find, err := f.Pattern.compile()
		if err != nil {
			return nil, fmt.Errorf("normalizer Replace: %w", err)
		}
		return func(w *work, s string) string { return replaceAll(w, s, find, f.Content) }, nil
	case "Precompiled":
		raw, err := base64.StdEncoding.DecodeString(f.CharsMap)
		if err != nil {
			return nil, fmt.Errorf("normalizer Precompiled: %w", err)
		}
		m, err := readCharsMap(raw)
		if err != nil {
			return nil, fmt.Errorf("normalizer Precompiled: %w", err)
		}
		return m.normalize, nil
	}
	return nil, fmt.Errorf("normalizer of type %.40q is not known", f.Type)
}

// lower is lower case character by character: without the rule for a word's last sigma,
// and with the one capital that becomes two characters.
func lower(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == 'İ' {
			b.WriteString("i̇")
			continue
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// replaceAll puts content in the place of every match.
func replaceAll(w *work, s string, find finder, content string) string {
	var b strings.Builder
	from := 0
	found := find(w, s)
	if !w.holds(len(s) + len(found)*len(content)) {
		return ""
	}
	for _, m := range found {
		b.WriteString(s[from:m[0]])
		b.WriteString(content)
		from = m[1]
	}
	b.WriteString(s[from:])
	return b.String()
}
