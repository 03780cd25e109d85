package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
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
