package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
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

// plainly is a function whose cost is bounded by the text's length.
func plainly(f func(string) string) normalizer { return func(_ *work, s string) string { return f(s) } }

// pattern is a text to find, or an expression.
type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
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

// A table of characters, as sentencepiece stores it: a trie in a double array (Yata's
// darts-clone) from bytes to places in a text of replacements, each ended by a zero byte.
//
// As the hub's tokenizers apply it: a grapheme of less than six bytes is replaced as a whole by the value of its
// shortest prefix in the trie; otherwise each of its characters alone. (sentencepiece takes the longest prefix at
// each place; they differ on stacked accents.)
type charsMap struct {
	trie         []uint32
	replacements []byte
}

func readCharsMap(raw []byte) (*charsMap, error) {
	if len(raw) < 4 {
		return nil, errors.New("the table of characters is too short")
	}
	n := binary.LittleEndian.Uint32(raw)
	raw = raw[4:]
	if n%4 != 0 || uint64(n) > uint64(len(raw)) {
		return nil, errors.New("the table of characters says that it is longer than it is")
	}
	m := &charsMap{trie: make([]uint32, n/4), replacements: raw[n:]}
	for i := range m.trie {
		m.trie[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return m, nil
}

func (m *charsMap) normalize(w *work, s string) string {
	var b strings.Builder
	for state := -1; s != "" && w.holds(b.Len()); {
		var grapheme string
		grapheme, s, _, state = uniseg.FirstGraphemeClusterInString(s, state)
		if len(grapheme) < 6 {
			if r, ok := m.find(grapheme); ok {
				b.WriteString(r)
				continue
			}
		}
		for _, c := range grapheme {
			if r, ok := m.find(string(c)); ok {
				b.WriteString(r)
			} else {
				b.WriteRune(c)
			}
		}
	}
	return b.String()
}

// find is the replacement of the shortest prefix of key that the trie has.
func (m *charsMap) find(key string) (string, bool) {
	at := uint32(0)
	if len(m.trie) == 0 {
		return "", false
	}
	unit := m.trie[0]
	at ^= offset(unit)
	for i := range len(key) {
		c := key[i]
		if c == 0 {
			break
		}
		at ^= uint32(c)
		if int(at) >= len(m.trie) {
			return "", false
		}
		unit = m.trie[at]
		if unit&(1<<31|0xFF) != uint32(c) {
			return "", false
		}
		at ^= offset(unit)
		if unit>>8&1 == 1 && int(at) < len(m.trie) {
			return m.replacement(m.trie[at] & (1<<31 - 1))
		}
	}
	return "", false
}

func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

func (m *charsMap) replacement(at uint32) (string, bool) {
	if int(at) >= len(m.replacements) {
		return "", false
	}
	text := string(m.replacements[at:])
	if end := strings.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	return text, true
}
