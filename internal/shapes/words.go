package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// words is a tokenizer that knows letters: each byte, or character, is a token, and the published special tokens are
// there, with numbers inside the network's vocabulary.
type words struct {
	class string
	files map[string]any // texts as they are, the rest as JSON
}

const (
	clipVocabulary = 49408
	t5Vocabulary   = 512
	qwenSpecial    = 256 // the first special token
	qwenVocabulary = 264
)

func (w words) write(dir string) error {
	for name, content := range w.files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		var err error
		if text, ok := content.(string); ok {
			err = os.WriteFile(path, []byte(text), 0o644)
		} else {
			err = writeJSON(path, content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// byteLetters are the characters that byte-level tokenizers write bytes as, in the order of GPT-2's table.
func byteLetters() (letters []string) {
	plain := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	for b := range 256 {
		if plain(b) {
			letters = append(letters, string(rune(b)))
		}
	}
	for i := 0; len(letters) < 256; i++ {
		letters = append(letters, string(rune(256+i)))
	}
	return letters
}

// special describes a special token.
func special(text string) settings {
	return settings{"content": text, "lstrip": false, "rstrip": false, "normalized": false, "single_word": false, "special": true}
}

// clipWords is CLIP's tokenizer without merges.
func clipWords(pad string) words {
	vocabulary := map[string]int{"<|startoftext|>": clipVocabulary - 2, "<|endoftext|>": clipVocabulary - 1}
	for i, letter := range byteLetters() {
		vocabulary[letter], vocabulary[letter+"</w>"] = i, 256+i
	}
	added := settings{}
	for _, text := range []string{"<|startoftext|>", "<|endoftext|>", pad} {
		added[fmt.Sprint(vocabulary[text])] = special(text)
	}
	return words{"CLIPTokenizer", map[string]any{"vocab.json": vocabulary, "merges.txt": "#version: 0.2\n",
		"tokenizer_config.json": settings{"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>",
			"unk_token": "<|endoftext|>", "pad_token": pad, "added_tokens_decoder": added, "do_lower_case": true},
		"special_tokens_map.json": settings{"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "pad_token": pad}}}
}

// qwenWords is Qwen2's tokenizer without merges.
func qwenWords() words {
	vocabulary, added := map[string]int{}, settings{}
	for i, letter := range byteLetters() {
		vocabulary[letter] = i
	}
	for i, text := range []string{"<|endoftext|>", "<|im_end|>", "<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"} {
		added[fmt.Sprint(qwenSpecial+i)] = special(text)
	}
	return words{"Qwen2Tokenizer", map[string]any{"vocab.json": vocabulary, "merges.txt": "#version: 0.2\n",
		"tokenizer_config.json": settings{"tokenizer_class": "Qwen2Tokenizer", "model_max_length": 131072, "pad_token": "<|endoftext|>", "eos_token": "<|im_end|>",
			"unk_token": "<|endoftext|>", "added_tokens_decoder": added, "add_prefix_space": false},
		"special_tokens_map.json": settings{"pad_token": "<|endoftext|>", "eos_token": "<|im_end|>", "unk_token": "<|endoftext|>"}}}
}

// seeing is words beside the settings that pictures are read with.
func (w words) seeing(processor settings) words {
	w.files["preprocessor_config.json"] = processor
	return w
}

// t5Words is a Unigram tokenizer of characters, with bytes for all others.
func t5Words() words {
	pieces := [][]any{{"<pad>", 0.0}, {"</s>", 0.0}, {"<unk>", 0.0}}
	for b := range 256 {
		pieces = append(pieces, []any{fmt.Sprintf("<0x%02X>", b), -20.0})
	}
	pieces = append(pieces, []any{"▁", -2.0})
	for c := '!'; c <= '~'; c++ {
		pieces = append(pieces, []any{string(c), -5.0})
	}
	names := []string{"<pad>", "</s>", "<unk>"}
	var list []settings
	added := settings{}
	for i, name := range names {
		list = append(list, special(name).with(settings{"id": i}))
		added[fmt.Sprint(i)] = special(name)
	}
	blanks := settings{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}
	end := settings{"SpecialToken": settings{"id": "</s>", "type_id": 0}}
	sequence := func(id string) settings { return settings{"Sequence": settings{"id": id, "type_id": 0}} }
	return words{"PreTrainedTokenizerFast", map[string]any{
		"tokenizer.json": settings{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": list,
			"normalizer": settings{"type": "Replace", "pattern": settings{"Regex": " {2,}"}, "content": " "}, "pre_tokenizer": blanks, "decoder": blanks,
			"post_processor": settings{"type": "TemplateProcessing", "single": []settings{sequence("A"), end}, "pair": []settings{sequence("A"), end, sequence("B"), end},
				"special_tokens": settings{"</s>": settings{"id": "</s>", "ids": []int{1}, "tokens": []string{"</s>"}}}},
			"model": settings{"type": "Unigram", "unk_id": 2, "vocab": pieces, "byte_fallback": true}},
		"tokenizer_config.json": settings{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>",
			"added_tokens_decoder": added, "clean_up_tokenization_spaces": false},
		"special_tokens_map.json": settings{"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}}}
}
