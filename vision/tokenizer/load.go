package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Open reads a folder's tokenizer: tokenizer.json, or vocab.json and merges.txt, or
// spiece.model, or BERT's vocab.txt.
func Open(dir string) (*Tokenizer, error) {
	if exists(dir, "tokenizer.json") {
		t, err := ReadFile(filepath.Join(dir, "tokenizer.json"))
		if err != nil {
			return nil, err
		}
		settings, err := readSettings(dir)
		if err != nil {
			return nil, err
		}
		t.roles = settings.roles()
		return t, nil
	}
	if exists(dir, "vocab.json") && exists(dir, "merges.txt") {
		return openMerges(dir)
	}
	if exists(dir, "spiece.model") {
		return openSentencePiece(dir)
	}
	if exists(dir, "vocab.txt") {
		return openVocabulary(dir)
	}
	return nil, fmt.Errorf("%s: no tokenizer: tokenizer.json, or vocab.json with merges.txt, or spiece.model, or vocab.txt is needed", dir)
}

func exists(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && !info.IsDir()
}

// The older form of byte-pair tokenizers: vocab.json, merges.txt and tokenizer_config.json, which names special tokens.

// openMerges reads the older form: vocab.json, merges.txt and, for special tokens,
// tokenizer_config.json. Its class says how texts are split.
func openMerges(dir string) (*Tokenizer, error) {
	var vocabulary map[string]int32
	if err := hub.JSON(filepath.Join(dir, "vocab.json"), &vocabulary); err != nil {
		return nil, err
	}
	lines, err := hub.ReadFile(filepath.Join(dir, "merges.txt"))
	if err != nil {
		return nil, err
	}
	m := newBPE(vocabulary)
	var merges [][2]string
	for i, line := range strings.Split(string(lines), "\n") {
		line = strings.TrimRight(line, "\r")
		if line == "" || i == 0 && strings.HasPrefix(line, "#version") {
			continue
		}
		a, b, ok := strings.Cut(line, " ")
		if !ok {
			return nil, fmt.Errorf("%s:%d: %.40q is not two pieces", filepath.Join(dir, "merges.txt"), i+1, line)
		}
		merges = append(merges, [2]string{a, b})
	}
	settings, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{model: m, decode: decoder{joinBytes}, roles: settings.roles()}
	if strings.HasPrefix(settings.Class, "CLIP") {
		err = t.likeCLIP(m)
	} else {
		err = t.likeQwen()
	}
	if err != nil {
		return nil, err
	}
	if err := m.learn(merges); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "merges.txt"), err)
	}
	if err := t.add(settings.added(vocabulary)); err != nil {
		return nil, err
	}
	if strings.HasPrefix(settings.Class, "CLIP") {
		begin, ok := t.ID("<|startoftext|>")
		end, ok2 := t.ID("<|endoftext|>")
		if !ok || !ok2 {
			return nil, fmt.Errorf("%s: a CLIP tokenizer without <|startoftext|> or <|endoftext|>", dir)
		}
		m.unknown, t.post = end, post{[]int32{begin}, []int32{end}}
	}
	return t, nil
}

// settingsFile is what tokenizer_config.json says about special tokens.
type settingsFile struct {
	Class   string           `json:"tokenizer_class"`
	Decoder map[string]added `json:"added_tokens_decoder"`
	Begin   role             `json:"bos_token"`
	End     role             `json:"eos_token"`
	Pad     role             `json:"pad_token"`
	Unknown role             `json:"unk_token"`
}

// readSettings reads a folder's tokenizer_config.json; there need not be one.
func readSettings(dir string) (s settingsFile, err error) {
	if exists(dir, "tokenizer_config.json") {
		err = hub.JSON(filepath.Join(dir, "tokenizer_config.json"), &s)
	}
	return s, err
}

// role is a token's text, or an object that holds it, or nothing.
type role string

func (r *role) UnmarshalJSON(data []byte) error {
	var token *struct{ Content string }
	var text *string
	switch {
	case json.Unmarshal(data, &text) == nil:
		if text != nil {
			*r = role(*text)
		}
	case json.Unmarshal(data, &token) == nil:
		*r = role(token.Content)
	default:
		return fmt.Errorf("%.40s is not a token", data)
	}
	return nil
}

// roles are the named tokens.
func (s settingsFile) roles() map[string]string {
	all := map[string]string{}
	for name, r := range map[string]role{"bos_token": s.Begin, "eos_token": s.End, "pad_token": s.Pad, "unk_token": s.Unknown} {
		if r != "" {
			all[name] = string(r)
		}
	}
	return all
}

// added are the listed tokens; without a list, those of the vocabulary between <| and |>.
func (s settingsFile) added(vocabulary map[string]int32) []added {
	var all []added
	for key, a := range s.Decoder {
		if _, err := fmt.Sscan(key, &a.ID); err == nil {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		for text, id := range vocabulary {
			if strings.HasPrefix(text, "<|") && strings.HasSuffix(text, "|>") {
				all = append(all, added{ID: id, Content: text, Special: true})
			}
		}
	}
	return all
}

// likeCLIP is how CLIP splits: lower case, words, single digits.
func (t *Tokenizer) likeCLIP(m *bpe) error {
	m.suffix = "</w>"
	normal, err := readNormalizer([]byte(`{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "},{"type":"Lowercase"}]}`))
	if err != nil {
		return err
	}
	t.normalize = normal
	t.split, err = readSplitter([]byte(`{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"},"behavior":"Removed","invert":true},{"type":"ByteLevel"}]}`))
	return err
}

// likeQwen is how Qwen2 splits.
func (t *Tokenizer) likeQwen() (err error) {
	if t.normalize, err = readNormalizer([]byte(`{"type":"NFC"}`)); err != nil {
		return err
	}
	t.split, err = readSplitter([]byte(`{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated"},{"type":"ByteLevel","use_regex":false}]}`))
	return err
}
