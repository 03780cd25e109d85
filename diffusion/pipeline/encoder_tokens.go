package pipeline

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// From a text to the tokens that an encoder reads.

// tokenizerSettings is what tokenizer_config.json and special_tokens_map.json say.
type tokenizerSettings struct {
	Length float64   `json:"model_max_length"` // some have 1e30: none
	Pad    tokenText `json:"pad_token"`
}

// tokenText is a token's text, or an object that has it.
type tokenText string

// UnmarshalJSON reads both forms.
func (t *tokenText) UnmarshalJSON(b []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if len(b) > 0 && b[0] == '{' {
		err := hub.Decode("pad_token", b, &object)
		*t = tokenText(object.Content)
		return err
	}
	return hub.Decode("pad_token", b, (*string)(t))
}

func readTokenizerSettings(dir string) (tokenizerSettings, error) {
	var s tokenizerSettings
	for _, name := range []string{"special_tokens_map.json", "tokenizer_config.json"} {
		if err := hub.JSON(filepath.Join(dir, name), &s); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	return s, nil
}

// tokenizerSettings are those of a part.
func (f *folder) tokenizerSettings(part string) (s tokenizerSettings, err error) {
	dir, err := f.part(part)
	if f.bare && err != nil {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	return readTokenizerSettings(dir)
}

func (s tokenizerSettings) padID(dir string, t *tokenizer.Tokenizer) (int32, error) {
	for _, token := range []string{string(s.Pad), "<|endoftext|>", "<pad>"} {
		if id, ok := t.ID(token); ok && token != "" {
			return id, nil
		}
		if token != "" && token == string(s.Pad) {
			return 0, fmt.Errorf("%s: the pad_token %q is not in the vocabulary", dir, token)
		}
	}
	return 0, fmt.Errorf("%s: no pad_token is named in tokenizer_config.json or special_tokens_map.json", dir)
}

// cleaned is a prompt as Wan's pipelines read it: entities of HTML are letters, twice, and blanks are
// single spaces.
func cleaned(text string) string {
	return strings.Join(strings.Fields(html.UnescapeString(html.UnescapeString(text))), " ")
}

// tokens is a text's ids, how many of them are no padding, and the end that does not fit.
func (e *encoder) tokens(text string) (ids []int32, seen int, cut string, err error) {
	if e.words == nil {
		return make([]int32, e.length), e.length, "", nil
	}
	if e.kind == umt5States {
		text = cleaned(text)
	}
	if ids, seen, err = e.words.Fixed(text, e.length, e.pad); err != nil {
		return nil, 0, "", fmt.Errorf("%s: %w", e.tokenizer, err)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= e.vocabulary {
			return nil, 0, "", fmt.Errorf("%s makes the token %d, but %s has only %d: the two are of different models", e.tokenizer, id, e.part, e.vocabulary)
		}
	}
	body, err := e.words.Encode(text)
	if err != nil {
		return nil, 0, "", fmt.Errorf("%s: %w", e.tokenizer, err)
	}
	if extra := len(body.IDs) + len(e.words.Frame()) - e.length; extra > 0 {
		cut = e.words.Decode(body.IDs[max(0, len(body.IDs)-extra):])
		if !e.ofT5() { // CLIP's pieces mark the ends of words
			cut = strings.TrimSpace(strings.ReplaceAll(cut, "</w>", " "))
		}
	}
	return ids, seen, cut, nil
}
