package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"regexp"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// spiece.model is a protocol buffer (sentencepiece_model.proto). Read here: the pieces (1: text 1, score 2, kind 3),
// the table of characters (3.2). T5's folders add 100 placeholders, in tokenizer_config.json.

var extraID = regexp.MustCompile(`^<extra_id_\d+>$`)

// The kinds of pieces.
const (
	kindUnknown = 2
	kindControl = 3
	kindByte    = 6
)

func openSentencePiece(dir string) (*Tokenizer, error) {
	path := filepath.Join(dir, "spiece.model")
	data, err := hub.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := readSentencePiece(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var settings settingsFile
	if exists(dir, "tokenizer_config.json") {
		if err := hub.JSON(filepath.Join(dir, "tokenizer_config.json"), &settings); err != nil {
			return nil, err
		}
	}
	tokens := t.added
	for _, a := range settings.added(nil) {
		if extraID.MatchString(a.Content) {
			tokens = append(tokens, a)
		}
	}
	return t, t.add(tokens)
}

func readSentencePiece(data []byte) (*Tokenizer, error) {
	var texts []string
	var scores []float64
	var special []added
	var table []byte
	unknown, fallback := int32(-1), false
	err := fields(data, func(n int, value []byte, _ uint64) error {
		switch n {
		case 1:
			text, score, kind := "", float32(0), uint64(1)
			if err := fields(value, func(n int, v []byte, x uint64) error {
				switch n {
				case 1:
					text = string(v)
				case 2:
					score = math.Float32frombits(uint32(x))
				case 3:
					kind = x
				}
				return nil
			}); err != nil {
				return err
			}
			id := int32(len(texts))
			texts, scores = append(texts, text), append(scores, float64(score))
			switch kind {
			case kindUnknown:
				unknown = id
				special = append(special, added{ID: id, Content: text, Special: true})
			case kindControl:
				special = append(special, added{ID: id, Content: text, Special: true})
			case kindByte:
				fallback = true
			}
		case 3:
			return fields(value, func(n int, v []byte, _ uint64) error {
				if n == 2 {
					table = v
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if unknown < 0 {
		return nil, fmt.Errorf("not a sentencepiece model: none of its %d pieces is for what is unknown", len(texts))
	}
	t := &Tokenizer{model: newUnigram(texts, scores, unknown, fallback), added: special}
	mark := splitterFile{Replacement: "▁", Scheme: "always"}
	t.split, t.decode = mark.metaspace(), decoder{joinFallback, decoderFile{Replacement: "▁", Scheme: "always"}.blanks}
	if end, ok := t.model.id("</s>"); ok {
		t.post.after = []int32{end}
	}
	return t, t.sentencePieceNormal(table)
}

// sentencePieceNormal is the table, then no blanks at the ends and single ones inside.
func (t *Tokenizer) sentencePieceNormal(table []byte) error {
	m := &charsMap{}
	if len(table) > 0 {
		var err error
		if m, err = readCharsMap(table); err != nil {
			return err
		}
	}
	blanks := regexp.MustCompile(` {2,}`)
	ends := regexp.MustCompile(`^ +| +$`)
	t.normalize = func(w *work, s string) string {
		return blanks.ReplaceAllString(ends.ReplaceAllString(m.normalize(w, s), ""), " ")
	}
	return nil
}

// fields calls f for every field of a message: its bytes, or its number.
func fields(b []byte, f func(n int, value []byte, x uint64) error) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Errorf("not a protocol buffer: a broken key")
		}
		b = b[n:]
		var value []byte
		var x uint64
		switch size := 0; key & 7 {
		case 0:
			if x, n = binary.Uvarint(b); n <= 0 {
				return fmt.Errorf("not a protocol buffer: a broken number")
			}
			b = b[n:]
		case 1, 5:
			if size = 8; key&7 == 5 {
				size = 4
			}
			if len(b) < size {
				return fmt.Errorf("not a protocol buffer: it ends inside a number")
			}
			for i := size - 1; i >= 0; i-- {
				x = x<<8 | uint64(b[i])
			}
			b = b[size:]
		case 2:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return fmt.Errorf("not a protocol buffer: a field is longer than the file")
			}
			value, b = b[n:n+int(length)], b[n+int(length):]
		default:
			return fmt.Errorf("not a protocol buffer: wire type %d", key&7)
		}
		if err := f(int(key>>3), value, x); err != nil {
			return err
		}
	}
	return nil
}
