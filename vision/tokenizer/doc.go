// Package tokenizer reads the hub's tokenizers and turns texts into ids as they do:
// byte-level BPE (CLIP, Qwen), unigram models with a table of characters (T5, UMT5), WordPiece
// (BERT).
//
//	t, err := tokenizer.Open(dir)             // tokenizer.json, vocab.json + merges.txt, or spiece.model
//	ids := t.Encode(text).IDs                 // without special tokens
//	padded, mask := t.Fixed(text, 77, pad)    // with them, cut and padded
//	text = t.Decode(ids)
//
// Start with Tokenizer in tokenizer.go: a text is cut at special tokens, and each piece
// between them is normalised (normalize.go), split into words (split.go),
// and each word is cut into the model's pieces (bpe.go, unigram.go, wordpiece.go). post.go adds special
// tokens, decode.go goes back.
//
// The stages are those of Hugging Face's tokenizers, whose file says which of them there
// are; recorded strings decide on their corners.
package tokenizer
