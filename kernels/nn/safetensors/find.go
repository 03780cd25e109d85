package safetensors

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// usualNames are what the hub's libraries call a model's weights, or an adapter's.
func usualNames() []string {
	return []string{"diffusion_pytorch_model", "model", "adapter_model", "pytorch_lora_weights"}
}

// findWeights returns the index or the single file of a folder.
func findWeights(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", missing(path, err)
	}
	if !st.IsDir() {
		return path, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", err
	}
	var singles, indexes, pickled []string
	for _, e := range entries {
		switch n := e.Name(); {
		case strings.HasPrefix(n, "."): // what a stopped writer or downloader left
		case isIndex(n):
			indexes = append(indexes, n)
		case strings.HasSuffix(n, ".safetensors"):
			singles = append(singles, n)
		case slices.Contains([]string{".bin", ".pt", ".pth", ".ckpt", ".msgpack", ".gguf"}, filepath.Ext(n)):
			pickled = append(pickled, n)
		}
	}
	found := append(choose(indexes, indexSuffix), choose(singles, ".safetensors")...)
	if len(found) == 0 {
		found = indexes
	}
	if len(found) == 0 {
		found = singles
	}
	switch {
	case len(found) == 1 && shardName.MatchString(found[0]), len(found) > 1 && shardName.MatchString(found[0]) && shardName.MatchString(found[1]):
		return "", &Error{Path: path, Problem: found[0] + " is one of several shards, but their index is missing",
			Hint: "fetch the file that ends in " + indexSuffix + " as well; a save that was stopped leaves none", Cause: os.ErrNotExist}
	case len(found) == 1:
		if _, err := Locate(path, found[0]); err != nil {
			return "", err
		}
		return filepath.Join(path, found[0]), nil
	case len(found) > 1:
		return "", &Error{Path: path, Problem: "several weights could be meant: " + strings.Join(found[:min(len(found), 6)], ", "),
			Hint: "name one of these files, or remove what is stale"}
	case len(pickled) > 0:
		return "", &Error{Path: path, Problem: "no .safetensors file, only " + pickled[0],
			Hint: "convert it to safetensors (save_pretrained does); Darkroom does not read pickled files"}
	}
	return "", &Error{Path: path, Problem: "no .safetensors file in this folder",
		Hint: "name a folder that holds the weights; the download may be incomplete", Cause: os.ErrNotExist}
}

// choose returns the first usual name that is among files.
func choose(files []string, suffix string) []string {
	for _, base := range usualNames() {
		if slices.Contains(files, base+suffix) {
			return []string{base + suffix}
		}
	}
	return nil
}

// shardName matches what the hub's libraries call the i-th of n files.
var shardName = regexp.MustCompile(`-\d{5}-of-\d{5}\.safetensors$`)
