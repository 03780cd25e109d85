package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/outside/regular"
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

// settingsFile has the special tokens of tokenizer_config.json.
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
	normal := normalizerFile{Type: "Sequence", Normalizers: []normalizerFile{
		{Type: "NFC"}, {Type: "Replace", Pattern: pattern{Regex: new(`\s+`)}, Content: " "}, {Type: "Lowercase"},
	}}
	var err error
	if t.normalize, err = normal.build(); err != nil {
		return err
	}
	t.split, err = readSplitter([]byte(`{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"},"behavior":"Removed","invert":true},{"type":"ByteLevel"}]}`))
	return err
}

// likeQwen is how Qwen2 splits.
func (t *Tokenizer) likeQwen() (err error) {
	if t.normalize, err = (normalizerFile{Type: "NFC"}).build(); err != nil {
		return err
	}
	t.split, err = readSplitter([]byte(`{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated"},{"type":"ByteLevel","use_regex":false}]}`))
	return err
}

// tokenizer.json of the hub: one file with the model, its merges, and the steps before and after it.

// file is tokenizer.json.
type file struct {
	Added      []added         `json:"added_tokens"`
	Normalizer *normalizerFile `json:"normalizer"`
	Split      json.RawMessage `json:"pre_tokenizer"`
	Post       json.RawMessage `json:"post_processor"`
	Decoder    json.RawMessage `json:"decoder"`
	Model      *modelFile      `json:"model"`
}

type modelFile struct {
	Type        string          `json:"type"`
	Vocab       json.RawMessage `json:"vocab"`
	Merges      []pieces        `json:"merges"`
	Unknown     *string         `json:"unk_token"`
	UnknownID   *int32          `json:"unk_id"`
	Suffix      string          `json:"end_of_word_suffix"`
	Prefix      string          `json:"continuing_subword_prefix"`
	FuseUnknown bool            `json:"fuse_unk"`
	Fallback    bool            `json:"byte_fallback"`
	Ignore      bool            `json:"ignore_merges"`
	Most        *int            `json:"max_input_chars_per_word"`
}

// mostBytes is the largest tokenizer.json that is read; those of large vocabularies have 35 MB.
const mostBytes = 128 << 20

// ReadFile reads a tokenizer.json.
func ReadFile(path string) (*Tokenizer, error) {
	data, err := regular.Read(path, mostBytes)
	if err != nil {
		return nil, err
	}
	t, err := Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Read reads the text of a tokenizer.json.
func Read(data []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("not a tokenizer.json: %w", err)
	}
	if f.Model == nil {
		return nil, errors.New(`not a tokenizer.json: it has no "model"`)
	}
	t := &Tokenizer{}
	var err error
	if t.model, err = f.Model.build(); err != nil {
		return nil, err
	}
	if f.Normalizer != nil {
		if t.normalize, err = f.Normalizer.build(); err != nil {
			return nil, err
		}
	}
	if t.split, err = readSplitter(f.Split); err != nil {
		return nil, err
	}
	if t.post, err = readPost(f.Post); err != nil {
		return nil, err
	}
	if t.decode, err = readDecoder(f.Decoder); err != nil {
		return nil, err
	}
	return t, t.add(f.Added)
}

// add takes added tokens in.
func (t *Tokenizer) add(tokens []added) error {
	t.added, t.ids, t.names, t.special = tokens, map[string]int32{}, map[int32]string{}, map[int32]bool{}
	t.vocabulary = t.model.size()
	for _, a := range tokens {
		if a.ID < 0 || a.ID > 1<<24 {
			return fmt.Errorf("added token %.40q has the id %d", a.Content, a.ID)
		}
		t.ids[a.Content], t.names[a.ID], t.special[a.ID] = a.ID, a.Content, a.Special
		t.vocabulary = max(t.vocabulary, int(a.ID)+1)
	}
	return nil
}

func (f *modelFile) build() (model, error) {
	for _, text := range []string{f.Suffix, f.Prefix} {
		if err := short("model: a mark of words", text); err != nil {
			return nil, err
		}
	}
	kind := f.Type
	if kind == "" && f.Merges != nil {
		kind = "BPE"
	}
	switch kind {
	case "BPE":
		return f.bpe()
	case "Unigram":
		return f.unigram()
	case "WordPiece":
		return f.wordPiece()
	}
	return nil, fmt.Errorf("a model of type %.40q is not known; BPE, Unigram and WordPiece are", f.Type)
}

func (f *modelFile) wordPiece() (model, error) {
	var vocabulary map[string]int32
	if err := json.Unmarshal(f.Vocab, &vocabulary); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	unknown, most := "[UNK]", mostWordPiece
	if f.Unknown != nil {
		unknown = *f.Unknown
	}
	if f.Most != nil {
		most = *f.Most
	}
	return newWordPiece(vocabulary, unknown, f.Prefix, most)
}

func (f *modelFile) bpe() (model, error) {
	var vocabulary map[string]int32
	if err := json.Unmarshal(f.Vocab, &vocabulary); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	if f.Merges == nil {
		return nil, errors.New(`model: a BPE model needs "merges"`)
	}
	merges := make([][2]string, len(f.Merges))
	for i, p := range f.Merges {
		if p.broken != "" {
			return nil, fmt.Errorf("model.merges[%d]: %s is not two pieces", i, p.broken)
		}
		merges[i] = p.pair
	}
	m := newBPE(vocabulary)
	m.suffix, m.prefix, m.bytes, m.ignoreRank, m.fuse = f.Suffix, f.Prefix, f.Fallback, f.Ignore, f.FuseUnknown
	if f.Unknown != nil {
		if id, ok := vocabulary[*f.Unknown]; ok {
			m.unknown = id
		}
	}
	return m, m.learn(merges)
}

func newBPE(vocabulary map[string]int32) *bpe {
	m := &bpe{ids: vocabulary, texts: make(map[int32]string, len(vocabulary)), unknown: -1}
	for s, id := range vocabulary {
		m.texts[id] = s
	}
	return m
}

// pieces are the two of a merge.
type pieces struct {
	pair   [2]string
	broken string // the item, where it is something else: an error names its place in the list
}

// UnmarshalJSON reads ["a", "b"], or "a b".
func (p *pieces) UnmarshalJSON(item []byte) error {
	text, ok := textOf(item)
	if ok {
		p.pair[0], p.pair[1], ok = strings.Cut(text, " ")
	} else if a, b, listed := pairOf(item); listed {
		p.pair[0] = a
		p.pair[1], ok = textOf(b)
	}
	if !ok {
		p.broken = shortened(item)
	}
	return nil
}

// scored is a piece with its log-probability.
type scored struct {
	text   string
	score  float64
	broken string // as of pieces
}

// UnmarshalJSON reads ["a", -1.5].
func (s *scored) UnmarshalJSON(item []byte) error {
	text, score, ok := pairOf(item)
	if ok {
		var err error
		s.text = text
		s.score, err = strconv.ParseFloat(string(score), 64)
		ok = err == nil
	}
	if !ok {
		s.broken = shortened(item)
	}
	return nil
}

// shortened is an item for an error's text.
func shortened(item []byte) string {
	if len(item) <= 40 {
		return string(item)
	}
	return strings.ToValidUTF8(string(item[:40]), "") + "..."
}

// pairOf reads ["a", b] of valid JSON. A file has 150,000 merges, or 250,000 pieces with scores: json.Unmarshal of each
// takes as long as all else.
func pairOf(item []byte) (a string, b []byte, ok bool) {
	if item[0] != '[' {
		return "", nil, false
	}
	rest := bytes.TrimSpace(item[1 : len(item)-1])
	if len(rest) == 0 || rest[0] != '"' {
		return "", nil, false
	}
	end := 1
	for ; rest[end] != '"'; end++ {
		if rest[end] == '\\' {
			end++
		}
	}
	a, ok = textOf(rest[:end+1])
	_, b, more := bytes.Cut(rest[end+1:], []byte(","))
	return a, bytes.TrimSpace(b), ok && more
}

// textOf reads "a".
func textOf(item []byte) (text string, ok bool) {
	if item[0] != '"' {
		return "", false
	}
	in := item[1 : len(item)-1]
	if bytes.IndexByte(in, '\\') >= 0 || !utf8.Valid(in) {
		return text, json.Unmarshal(item, &text) == nil
	}
	return string(in), bytes.IndexByte(in, '"') < 0
}

func (f *modelFile) unigram() (model, error) {
	var rows []scored
	if err := json.Unmarshal(f.Vocab, &rows); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	texts, scores := make([]string, len(rows)), make([]float64, len(rows))
	for i, r := range rows {
		if r.broken != "" {
			return nil, fmt.Errorf("model.vocab[%d]: %s is not a piece and its score", i, r.broken)
		}
		texts[i], scores[i] = r.text, r.score
	}
	if f.UnknownID == nil || *f.UnknownID < 0 || int(*f.UnknownID) >= len(rows) {
		return nil, errors.New(`model: "unk_id" must name a piece`)
	}
	return newUnigram(texts, scores, *f.UnknownID, f.Fallback), nil
}
