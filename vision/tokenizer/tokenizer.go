package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/outside/spent"
)

// Tokenizer turns texts into ids.
type Tokenizer struct {
	added      []added
	normalize  normalizer
	split      splitter
	model      model
	post       post
	decode     decoder
	ids        map[string]int32 // of added tokens
	names      map[int32]string
	special    map[int32]bool
	roles      map[string]string // eos_token, pad_token, ...: the roles in the folder's settings
	vocabulary int
}

// model cuts a word into pieces.
type model interface {
	pieces(word string, out []Piece) []Piece
	id(piece string) (int32, bool)
	piece(id int32) (string, bool)
	size() int
}

// Piece is a piece of text and its id.
type Piece struct {
	Text string
	ID   int32
}

// Encoding is a text in pieces.
type Encoding struct {
	Tokens []string
	IDs    []int32
}

func (e *Encoding) add(p ...Piece) {
	for _, x := range p {
		e.Tokens = append(e.Tokens, x.Text)
		e.IDs = append(e.IDs, x.ID)
	}
}

// Encode is the text's pieces, without the special tokens that frame it. Special tokens
// inside the text are recognised. Text that is not UTF-8, or that costs too much (work), is an error.
func (t *Tokenizer) Encode(text string) (Encoding, error) {
	for try, before := 1, spent.CPU(); ; try++ {
		w := begin(text)
		e, err := t.attempt(w, text)
		if err == nil || try == mostTries || !w.starved(spent.CPU()-before) {
			return e, err
		}
	}
}

// attempt is Encode within the limits of w.
func (t *Tokenizer) attempt(w *work, text string) (Encoding, error) {
	var e Encoding
	if w.err != nil {
		return e, w.err
	}
	for i, s := range cut(text, t.added, false) {
		if s.token != nil {
			e.add(Piece{s.token.Content, s.token.ID})
			continue
		}
		t.encode(w, &e, s.text, i)
	}
	if w.err != nil {
		return Encoding{}, fmt.Errorf("encoding %.40q: %w", text, w.err)
	}
	return e, nil
}

// encode adds the pieces of a stretch without special tokens, the one of this number.
func (t *Tokenizer) encode(w *work, e *Encoding, text string, number int) {
	if t.normalize != nil {
		text = t.normalize(w, text)
	}
	if !w.holds(len(text)) {
		return
	}
	for j, s := range cut(text, t.added, true) {
		if s.token != nil {
			e.add(Piece{s.token.Content, s.token.ID})
			continue
		}
		for _, word := range t.words(w, s.text, number+j == 0) {
			e.add(t.model.pieces(word, nil)...)
		}
	}
}

func (t *Tokenizer) words(w *work, text string, first bool) []string {
	if text == "" {
		return nil
	}
	if t.split == nil {
		return []string{text}
	}
	words := t.split(w, []string{text}, first)
	if w.err != nil {
		return nil
	}
	return words
}

// Framed is Encode with the special tokens around it.
func (t *Tokenizer) Framed(text string) ([]int32, error) {
	e, err := t.Encode(text)
	if err != nil {
		return nil, err
	}
	return t.post.frame(e.IDs), nil
}

// Frame is the special tokens around an empty text.
func (t *Tokenizer) Frame() []int32 { return t.post.frame(nil) }

// Fixed is a text of exactly n ids: its end is cut so that the special tokens stay, or pad
// follows. seen is how many ids are the text's.
func (t *Tokenizer) Fixed(text string, n int, pad int32) (ids []int32, seen int, err error) {
	e, err := t.Encode(text)
	if err != nil {
		return nil, 0, err
	}
	body := e.IDs
	if room := max(0, n-t.post.extra()); len(body) > room {
		body = body[:room]
	}
	ids = t.post.frame(body)
	if len(ids) > n {
		ids = ids[:n]
	}
	seen = len(ids)
	for len(ids) < n {
		ids = append(ids, pad)
	}
	return ids, seen, nil
}

// ID is a token's id.
func (t *Tokenizer) ID(token string) (int32, bool) {
	if id, ok := t.ids[token]; ok {
		return id, true
	}
	return t.model.id(token)
}

// Token is the text of an id.
func (t *Tokenizer) Token(id int32) (string, bool) {
	if s, ok := t.names[id]; ok {
		return s, true
	}
	return t.model.piece(id)
}

// Special reports whether an id is a special token.
func (t *Tokenizer) Special(id int32) bool { return t.special[id] }

// SpecialTokens are the texts that become special tokens, in the order of their ids.
func (t *Tokenizer) SpecialTokens() []string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(t.special)) {
		if t.special[id] {
			all = append(all, t.names[id])
		}
	}
	return all
}

// Role is the token that the folder's tokenizer_config.json names so: eos_token, pad_token.
func (t *Tokenizer) Role(name string) (int32, bool) {
	token, ok := t.roles[name]
	if !ok {
		return 0, false
	}
	return t.ID(token)
}

// Size is one more than the largest id.
func (t *Tokenizer) Size() int { return t.vocabulary }

// Decode is the text of ids; ids that do not exist are left out.
func (t *Tokenizer) Decode(ids []int32) string { return t.text(ids, false) }

// DecodePlain is Decode without special tokens.
func (t *Tokenizer) DecodePlain(ids []int32) string { return t.text(ids, true) }

func (t *Tokenizer) text(ids []int32, plain bool) string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		if plain && t.special[id] {
			continue
		}
		if s, ok := t.Token(id); ok {
			tokens = append(tokens, s)
		}
	}
	return t.decode.text(tokens)
}

// Ends is Encode, and where each token ends, in bytes of the text as Normalized gives it. It is
// for byte-level tokenizers alone, whose tokens are the text's bytes.
func (t *Tokenizer) Ends(text string) (ids []int32, ends []int, err error) {
	e, err := t.Encode(text)
	if err != nil {
		return nil, nil, err
	}
	at := 0
	for i, id := range e.IDs {
		if _, added := t.names[id]; added {
			at += len(e.Tokens[i])
		} else {
			at += utf8.RuneCountInString(e.Tokens[i])
		}
		ends = append(ends, at)
	}
	if n := len(t.Normalized(text)); at != n {
		return nil, nil, fmt.Errorf("the tokens of a text of %d bytes have %d: only those of byte-level tokenizers have places in a text", n, at)
	}
	return e.IDs, ends, nil
}

// Normalized is a text as its tokens have it.
func (t *Tokenizer) Normalized(text string) string {
	if t.normalize == nil {
		return text
	}
	return t.normalize(begin(text), text)
}

// Card: the cost of a text. A tokenizer's file is a stranger's: its expressions may take time that grows
// exponentially, and its replacements may make a text a million times as long. A text that costs more than the limits
// below is an error, and never other tokens: ids must not depend on how busy a machine is. So where time ran out, and
// the process had less of a CPU than that (it was stopped, or others took its turns), the text is encoded again. Text
// that is not UTF-8 is an error, too: byte offsets of matches are those of characters.
//
// Invariants (tests): no file of 64 KB makes an encoding take more than about twice workTime of a CPU that it has to
// itself, or more memory than a few times mostText.

const (
	workTime  = 5 * time.Second // of all matching in one text
	mostTries = 60              // encodings of one text
	mostText  = 4 << 20         // bytes of a text, before and after it is rewritten
	mostWord  = 1 << 10         // bytes that a file puts around words or in their place
)

// work is the cost of one text until now. The first limit that is met ends it: later work does nothing.
type work struct {
	begun time.Time
	late  bool // time ran out
	err   error
}

func begin(text string) *work {
	w := &work{begun: time.Now()}
	if !utf8.ValidString(text) {
		at := 0
		for r, n := utf8.DecodeRuneInString(text); r != utf8.RuneError || n != 1; r, n = utf8.DecodeRuneInString(text[at:]) {
			at += n
		}
		w.fail("the text is not UTF-8: its byte %d is %#x", at, text[at])
	}
	w.holds(len(text))
	return w
}

func (w *work) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// holds reports whether a text of n bytes is within the limits.
func (w *work) holds(n int) bool {
	if n > mostText {
		w.fail("the tokenizer makes a text of %d bytes; at most %d are encoded", n, mostText)
	}
	return w.err == nil
}

// goesOn reports whether there is time left.
func (w *work) goesOn() bool {
	if w.err == nil && time.Since(w.begun) > workTime {
		w.late = true
		w.fail("the tokenizer's expressions take more than %v for one text: they are broken, or made to be slow", workTime)
	}
	return w.err == nil
}

// starved reports whether time ran out although all tries together had too little of a CPU.
func (w *work) starved(had time.Duration) bool {
	return spent.Known && w.late && had < workTime*3/4
}

// short refuses text that a file would put around words, or in their place, if it is too long.
func short(what, text string) error {
	if len(text) > mostWord {
		return fmt.Errorf("%s of %d bytes: at most %d are usual", what, len(text), mostWord)
	}
	return nil
}
