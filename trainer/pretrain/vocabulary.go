package pretrain

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/scenes"
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

// writeTokenizer writes a CLIP tokenizer of byte pairs whose merges spell just captionWords.
func writeTokenizer(dir string, length int) error {
	var vocabulary, merges []string
	for c := 33; c < 127; c++ {
		vocabulary = append(vocabulary, string(rune(c)))
	}
	for c := 33; c < 127; c++ {
		vocabulary = append(vocabulary, string(rune(c))+"</w>")
	}
	for _, w := range captionWords() {
		parts := strings.Split(w, "")
		parts[len(parts)-1] += "</w>"
		for len(parts) > 1 {
			if m := parts[0] + " " + parts[1]; !slices.Contains(merges, m) {
				merges = append(merges, m)
			}
			parts = append([]string{parts[0] + parts[1]}, parts[2:]...)
			if !slices.Contains(vocabulary, parts[0]) {
				vocabulary = append(vocabulary, parts[0])
			}
		}
	}
	vocabulary = append(vocabulary, startToken, endToken)
	ids := map[string]int{}
	for i, v := range vocabulary {
		ids[v] = i
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "merges.txt"), []byte("#version: 0.2\n"+strings.Join(merges, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing a tokenizer: %w", err)
	}
	if err := writeJSON(filepath.Join(dir, "vocab.json"), ids); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "tokenizer_config.json"), map[string]any{"tokenizer_class": "CLIPTokenizer", "model_max_length": length,
		"do_lower_case": true, "bos_token": startToken, "eos_token": endToken, "unk_token": endToken, "pad_token": endToken})
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
