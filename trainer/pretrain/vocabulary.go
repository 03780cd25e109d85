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

// joint is the pair that a new merge takes: the first with a letter that words to be drawn do
// not have, so that those stay single letters; where there is none, the last.
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
