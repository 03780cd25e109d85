package pretrain

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
)

const (
	startToken = "<|startoftext|>"
	endToken   = "<|endoftext|>"
)

// captionWords are the words that get a token of their own. Words that are to be drawn stay
// single letters, so that spelling can be learnt.
func captionWords() []string {
	words := strings.Fields("a of on in the word left right above below two three four")
	words = slices.Concat(words, scenes.Colors, scenes.Backgrounds, scenes.Shapes)
	for _, s := range scenes.Shapes {
		words = append(words, s+"s")
	}
	return words
}

// writeTokenizer writes a CLIP tokenizer of byte pairs whose merges spell just some words.
func writeTokenizer(dir string, length int, words []string) error {
	var vocabulary []string
	var merges [][2]string
	for c := 33; c < 127; c++ {
		vocabulary = append(vocabulary, string(rune(c)))
	}
	for c := 33; c < 127; c++ {
		vocabulary = append(vocabulary, string(rune(c))+"</w>")
	}
	for _, w := range words {
		parts := strings.Split(w, "")
		parts[len(parts)-1] += "</w>"
		for {
			parts = pieces(parts, merges)
			if len(parts) == 1 {
				break
			}
			i := joint(parts)
			merges = append(merges, [2]string{parts[i], parts[i+1]})
			vocabulary = append(vocabulary, parts[i]+parts[i+1])
		}
	}
	vocabulary = append(vocabulary, startToken, endToken)
	ids := map[string]int{}
	for i, v := range vocabulary {
		ids[v] = i
	}
	lines := strings.Builder{}
	lines.WriteString("#version: 0.2\n")
	for _, m := range merges {
		lines.WriteString(m[0] + " " + m[1] + "\n")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "merges.txt"), []byte(lines.String()), 0o644); err != nil {
		return fmt.Errorf("writing a tokenizer: %w", err)
	}
	if err := writeJSON(filepath.Join(dir, "vocab.json"), ids); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "tokenizer_config.json"), map[string]any{"tokenizer_class": "CLIPTokenizer", "model_max_length": length,
		"do_lower_case": true, "bos_token": startToken, "eos_token": endToken, "unk_token": endToken, "pad_token": endToken})
}

// pieces applies merges as a tokenizer does: the earliest that fits, until none does.
func pieces(parts []string, merges [][2]string) []string {
	for {
		best, at := len(merges), 0
		for i := range len(parts) - 1 {
			if k := slices.Index(merges, [2]string{parts[i], parts[i+1]}); k >= 0 && k < best {
				best, at = k, i
			}
		}
		if best == len(merges) {
			return parts
		}
		parts = slices.Concat(parts[:at], []string{parts[at] + parts[at+1]}, parts[at+2:])
	}
}

// joint is the pair that a new merge takes: the first with a letter that words to be drawn do not have, so that those
// stay single letters; without one, the last.
func joint(parts []string) int {
	for i := range len(parts) - 1 {
		if strings.Trim(strings.TrimSuffix(parts[i]+parts[i+1], "</w>"), strings.ToLower(scenes.Letters)) != "" {
			return i
		}
	}
	return len(parts) - 2
}

// writeJSON writes settings as the hub's libraries do.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing settings: %w", err)
	}
	return nil
}

// The special tokens of Qwen's vocabularies, in their order; those behind vision's are plain.
var specialTokens = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"}

// plainTokens are texts that have one token of their own: a call is a few numbers then.
var plainTokens = []string{"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<answer>", "</answer>", callOpen, callClose}

const (
	callOpen  = `{"name": "zoom", "arguments": {"bbox_2d": [`
	callClose = `]}}`
)

// talkWords are the words of conversations about cards, with the space before them where one is.
func talkWords() []string {
	words := strings.Fields("system user assistant You Which Where Picture error message What")
	for _, w := range strings.Fields("are a helpful assistant digit is on the card pixels of picture x box cards") {
		words = append(words, " "+w)
	}
	for _, c := range cards.Colours {
		words = append(words, c, " "+c)
	}
	for n := range 100 {
		for _, s := range []string{"", " "} {
			words = append(words, s+string(rune('0'+n/10))+string(rune('0'+n%10)))
		}
	}
	for n := range 10 {
		words = append(words, " "+string(rune('0'+n)))
	}
	return words
}

// writeBytePairs writes a byte-level tokenizer.json whose merges spell just talkWords, and
// returns how many tokens there are.
func writeBytePairs(dir string) (int, error) {
	var vocabulary []string
	for b := range 256 {
		vocabulary = append(vocabulary, byteLetter(byte(b)))
	}
	var merges [][2]string
	for _, w := range talkWords() {
		var parts []string
		for _, b := range []byte(w) {
			parts = append(parts, byteLetter(b))
		}
		for parts = pieces(parts, merges); len(parts) > 1; parts = pieces(parts, merges) {
			merges = append(merges, [2]string{parts[0], parts[1]})
			vocabulary = append(vocabulary, parts[0]+parts[1])
		}
	}
	ids := map[string]int{}
	for i, v := range vocabulary {
		ids[v] = i
	}
	type added struct {
		ID         int    `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		Left       bool   `json:"lstrip"`
		Right      bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}
	var more []added
	for i, t := range slices.Concat(specialTokens, plainTokens) {
		more = append(more, added{ID: len(vocabulary) + i, Content: t, Special: i < len(specialTokens)})
	}
	split := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	err := writeJSON(filepath.Join(dir, "tokenizer.json"), map[string]any{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": more,
		"normalizer": nil, "pre_tokenizer": split, "post_processor": nil, "decoder": split,
		"model": map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": ids, "merges": merges}})
	if err != nil {
		return 0, err
	}
	return len(vocabulary) + len(more), writeJSON(filepath.Join(dir, "tokenizer_config.json"), map[string]any{
		"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "model_max_length": 4096})
}

// byteLetter is the character that byte-level vocabularies write a byte with (GPT-2).
func byteLetter(b byte) string {
	if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
		return string(rune(b))
	}
	moved := 0
	for c := range int(b) {
		if x := byte(c); !(x >= '!' && x <= '~' || x >= 0xa1 && x <= 0xac || x >= 0xae) {
			moved++
		}
	}
	return string(rune(256 + moved))
}
