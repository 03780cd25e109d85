package safetensors

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

const indexSuffix = ".safetensors.index.json"

func isIndex(path string) bool {
	// Variants are named model.safetensors.index.fp16.json.
	return strings.Contains(filepath.Base(path), ".safetensors.index.") && strings.HasSuffix(path, ".json")
}

// An index says which shard holds each tensor.
type index struct {
	home  map[string]string // tensor to file name
	total int64             // metadata.total_size, 0 if absent or not a whole number
}

func readIndex(path string) (*index, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, missing(path, err)
	}
	if !st.Mode().IsRegular() {
		return nil, &Error{Path: path, Problem: "not a regular file", Hint: "name an index, a folder or a .safetensors file"}
	}
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHeader+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxHeader {
		return nil, &Error{Path: path, Problem: fmt.Sprintf("an index of more than %d bytes", maxHeader), Hint: hintAgain}
	}
	ix, err := parseIndex(text)
	return ix, in(path, err)
}

// parseIndex reads {"metadata": {"total_size": 123}, "weight_map": {"name": "file", ...}}.
func parseIndex(text []byte) (*index, error) {
	p, err := newWalker(text, 0)
	if err != nil {
		return nil, err
	}
	ix := &index{}
	seen := map[string]bool{}
	err = p.object(func(key string) error {
		if seen[key] {
			return problem(hintWriter, "%q is listed twice", shorten(key))
		}
		seen[key] = true
		switch key {
		case "weight_map":
			ix.home = map[string]string{}
			return p.weightMap(ix.home)
		case "metadata":
			var m struct {
				Total float64 `json:"total_size"` // some writers put 1234.0
			}
			err := p.value(&m)
			if m.Total > 0 && m.Total < 1<<53 {
				ix.total = int64(m.Total)
			}
			return err
		}
		var skipped json.RawMessage
		return p.value(&skipped)
	})
	if err != nil {
		return nil, err
	}
	if len(ix.home) == 0 {
		return nil, problem(hintAgain, "the index has no weight_map, or an empty one")
	}
	return ix, p.end()
}

func (p *walker) weightMap(home map[string]string) error {
	return p.object(func(name string) error {
		if _, twice := home[name]; twice {
			return tensorProblem(name, hintWriter, "listed twice in the index")
		}
		file, err := p.text("the file of " + shorten(name))
		if err != nil {
			return err
		}
		if !strings.HasSuffix(file, ".safetensors") {
			return tensorProblem(name, "only safetensors are read", "listed for %q, which is no .safetensors file", shorten(file))
		}
		if strings.ContainsFunc(file, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return tensorProblem(name, hintAgain, "listed for %q, which is no name of a file", shorten(file))
		}
		home[name] = file
		return nil
	})
}

// shards lists the files, sorted.
func (ix *index) shards() []string {
	files := map[string]bool{}
	for _, f := range ix.home {
		files[f] = true
	}
	return slices.Sorted(maps.Keys(files))
}

func missingShards(lost []string, of int) string {
	s := strings.Join(lost[:min(len(lost), 3)], ", ")
	if len(lost) > 3 {
		s += fmt.Sprintf(" and %d more", len(lost)-3)
	}
	return fmt.Sprintf("%d of %d shards are missing: %s", len(lost), of, s)
}
