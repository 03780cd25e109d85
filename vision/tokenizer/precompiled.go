package tokenizer

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/rivo/uniseg"
)

// A table of characters, as sentencepiece stores it: a trie in a double array (Yata's
// darts-clone) from bytes to places in a text of replacements, each ended by a zero byte.
//
// As the hub's tokenizers apply it: a grapheme of less than six bytes is replaced as a
// whole by what its shortest prefix in the trie says; otherwise each of its characters
// alone. (sentencepiece takes the longest prefix at each place; they differ on stacked
// accents.)
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
