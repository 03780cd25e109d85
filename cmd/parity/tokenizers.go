package main

import (
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// Tokenizers: a case is a folder and a table of texts.

var tokenizerOps = map[string]Op{
	"tokenizers.clip_bpe":  tokenize,
	"tokenizers.qwen2_bpe": tokenize,
	"tokenizers.unigram":   tokenize,
}

func tokenize(c *Case) {
	t := must(tokenizer.Open(c.Dir()))
	n, pad := c.Int("max_length"), int32(c.Int("pad_id"))
	var tokens, ids, framed, padded, masks, decoded []any
	for _, text := range c.Strings("text") {
		e := must(t.Encode(text))
		whole, seen := must2(t.Fixed(text, n, pad))
		around := must(t.Framed(text))
		mask := make([]int, n)
		for i := range seen {
			mask[i] = 1
		}
		tokens, ids, framed = append(tokens, e.Tokens), append(ids, to[int](e.IDs)), append(framed, to[int](around))
		padded, masks, decoded = append(padded, to[int](whole)), append(masks, mask), append(decoded, t.Decode(e.IDs))
		if len(e.Tokens) != len(e.IDs) {
			failf("%q: %d tokens and %d ids", text, len(e.Tokens), len(e.IDs))
		}
	}
	c.Put("tokens", tokens, "ids", ids, "ids_special", framed, "ids_padded", padded, "mask", masks)
	c.Put("decoded", decoded)
}
