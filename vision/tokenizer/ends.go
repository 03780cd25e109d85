package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

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
