package tokenizer

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Card: WordPiece as BERT has it (Schuster and Nakajima 2012; Devlin et al. 2019). Texts are cleaned, each Chinese
// character is a word, accents and capitals go; words are split at white space and at every mark of punctuation, and
// each word is cut from its start into the longest pieces that there are, of which all but the first begin with "##".
// A word that cannot be cut to its end, or is longer than 100 characters, is one unknown.
// Invariant (tests): ids are those of Hugging Face's tokenizers.

// wordPiece is the model.
type wordPiece struct {
	ids     map[string]int32
	texts   map[int32]string
	unknown int32
	prefix  string // of pieces that go on
	most    int    // characters of a word
}

const mostWordPiece = 100

func newWordPiece(ids map[string]int32, unknown, prefix string, most int) (*wordPiece, error) {
	m := &wordPiece{ids: ids, texts: make(map[int32]string, len(ids)), prefix: prefix, most: most}
	for s, id := range ids {
		if id < 0 || id > 1<<24 {
			return nil, fmt.Errorf("model.vocab: %.40q has the id %d", s, id)
		}
		m.texts[id] = s
	}
	var ok bool
	if m.unknown, ok = ids[unknown]; !ok {
		return nil, fmt.Errorf("model.vocab has no %.40q, which unknown words become", unknown)
	}
	return m, nil
}

func (m *wordPiece) id(piece string) (int32, bool) { id, ok := m.ids[piece]; return id, ok }
func (m *wordPiece) piece(id int32) (string, bool) { s, ok := m.texts[id]; return s, ok }

func (m *wordPiece) size() int {
	n := int32(-1)
	for id := range m.texts {
		n = max(n, id)
	}
	return int(n) + 1
}

func (m *wordPiece) pieces(word string, out []Piece) []Piece {
	if utf8.RuneCountInString(word) > m.most {
		return append(out, Piece{m.texts[m.unknown], m.unknown})
	}
	begin := len(out)
	for at := 0; at < len(word); {
		prefix, end := "", len(word)
		if at > 0 {
			prefix = m.prefix
		}
		for ; end > at; end-- {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			if id, ok := m.ids[prefix+word[at:end]]; ok {
				out = append(out, Piece{prefix + word[at:end], id})
				break
			}
		}
		if end == at {
			return append(out[:begin], Piece{m.texts[m.unknown], m.unknown})
		}
		at = end
	}
	return out
}

// bertNormal has the steps of normalisation.
type bertNormal struct {
	Clean   *bool `json:"clean_text"`
	Chinese *bool `json:"handle_chinese_chars"`
	Accents *bool `json:"strip_accents"` // not said: where Lower is
	Lower   *bool `json:"lowercase"`
}

func (o bertNormal) normalizer() normalizer {
	on := func(b *bool, other bool) bool {
		if b == nil {
			return other
		}
		return *b
	}
	low := on(o.Lower, true)
	return plainly(func(s string) string {
		if on(o.Clean, true) {
			s = strings.Map(cleaned, s)
		}
		if on(o.Chinese, true) {
			s = apart(s)
		}
		if on(o.Accents, low) {
			s = strings.Map(func(r rune) rune {
				if unicode.Is(unicode.Mn, r) {
					return -1
				}
				return r
			}, norm.NFD.String(s))
		}
		if low {
			s = lower(s)
		}
		return s
	})
}

// cleaned drops control characters, and makes white space a blank.
func cleaned(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\r' || unicode.IsSpace(r):
		return ' '
	case r == 0 || r == utf8.RuneError || unicode.Is(unicode.C, r):
		return -1
	}
	return r
}

// chinese are the blocks whose characters are words (CJK ideographs, not kana or hangul).
var chinese = [][2]rune{{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}}

func apart(s string) string {
	var b strings.Builder
	for _, r := range s {
		alone := false
		for _, c := range chinese {
			alone = alone || r >= c[0] && r <= c[1]
		}
		if alone {
			b.WriteString(" " + string(r) + " ")
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// bertWords splits at white space and around punctuation.
func bertWords(_ *work, s string) []string {
	var all []string
	for _, word := range strings.FieldsFunc(s, unicode.IsSpace) {
		from := 0
		for at, r := range word {
			if r < 0x80 && r > ' ' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != 0x7F || unicode.IsPunct(r) {
				end := at + utf8.RuneLen(r)
				all = append(all, word[from:at], word[at:end])
				from = end
			}
		}
		all = append(all, word[from:])
	}
	return all
}

// joinPieces undoes it as far as it can be undone; tidy takes blanks away before punctuation.
func joinPieces(prefix string, tidy bool) func([]string) []string {
	return func(tokens []string) []string {
		for i, t := range tokens {
			if i > 0 {
				if rest, ok := strings.CutPrefix(t, prefix); ok {
					t = rest
				} else {
					t = " " + t
				}
			}
			if tidy {
				t = tidied.Replace(t)
			}
			tokens[i] = t
		}
		return tokens
	}
}

var tidied = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " do not", " don't", " 's", "'s", " 've", "'ve", " 're", "'re")

var errNoFrame = errors.New("a BERT vocabulary without [CLS] or [SEP]")

// openVocabulary reads the older form: vocab.txt, a piece a line.
func openVocabulary(dir string) (*Tokenizer, error) {
	path := filepath.Join(dir, "vocab.txt")
	data, err := hub.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ids := map[string]int32{}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		ids[strings.TrimSuffix(line, "\r")] = int32(i)
	}
	settings, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	m, err := newWordPiece(ids, "[UNK]", "##", mostWordPiece)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t := &Tokenizer{model: m, normalize: bertNormal{}.normalizer(), split: each(bertWords), decode: decoder{joinPieces("##", true)}, roles: settings.roles()}
	var special []added
	for _, name := range []string{"[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"} {
		if id, ok := ids[name]; ok {
			special = append(special, added{ID: id, Content: name, Special: true})
		}
	}
	begin, ok := ids["[CLS]"]
	end, ok2 := ids["[SEP]"]
	if !ok || !ok2 {
		return nil, fmt.Errorf("%s: %w", path, errNoFrame)
	}
	t.post = post{[]int32{begin}, []int32{end}}
	return t, t.add(special)
}
