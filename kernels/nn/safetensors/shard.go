package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// WriteFolder writes tensors into a folder as the hub's libraries do: base.safetensors
// if all fit into maxBytes, else base-00001-of-0000N.safetensors and so on with
// base.safetensors.index.json. Tensors are laid out by name; a tensor larger than
// maxBytes gets a shard of its own.
//
// Weights that the folder held under base are replaced. Each file is written
// atomically, the set is not: the old index goes first and the new one comes
// last, so a save that was stopped leaves an error, never a mixture. To replace a
// set in one step, write into a new folder and rename that.
func WriteFolder(folder, base string, tensors []Tensor, metadata map[string]string, maxBytes int64) error {
	seen := map[string]bool{}
	for _, t := range tensors { // before anything is removed
		if err := t.check(seen); err != nil {
			return in(folder, err)
		}
	}
	return WriteMade(folder, base, tensors, metadata, maxBytes, func(shard []Tensor, put Put) error {
		for i, t := range shard {
			data, err := t.made()
			if err != nil {
				return err
			}
			if err := put(i, 0, data); err != nil {
				return err
			}
		}
		return nil
	})
}

// WriteMade is WriteFolder of tensors that have no data: fill makes and puts it, a shard at a time.
func WriteMade(folder, base string, tensors []Tensor, metadata map[string]string, maxBytes int64, fill func(shard []Tensor, put Put) error) error {
	for _, t := range tensors {
		if _, err := sizeOf(t.DType, t.Shape); err != nil {
			return in(folder, tensorProblem(t.Name, "this is a mistake in the program that writes", "%v", err))
		}
	}
	shards := split(tensors, maxBytes)
	indexPath := filepath.Join(folder, base+indexSuffix)
	stale, err := staleFiles(folder, base)
	if err != nil {
		return err
	}
	if err := os.Remove(indexPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var ix struct {
		Metadata struct {
			TotalSize int64 `json:"total_size"`
		} `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	ix.WeightMap = map[string]string{}
	for i, shard := range shards {
		name := base + ".safetensors"
		if len(shards) > 1 {
			name = fmt.Sprintf("%s-%05d-of-%05d.safetensors", base, i+1, len(shards))
		}
		if err := writeMade(filepath.Join(folder, name), shard, metadata, func(put Put) error { return fill(shard, put) }); err != nil {
			return err
		}
		delete(stale, name)
		for _, t := range shard {
			ix.WeightMap[t.Name] = name
			bytes, _ := sizeOf(t.DType, t.Shape)
			ix.Metadata.TotalSize += bytes
		}
		shards[i] = nil
	}
	for name := range stale {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	if len(shards) == 1 {
		return nil
	}
	return writeAtomic(indexPath, func(w io.Writer) error {
		var text bytes.Buffer // json.dumps(index, indent=2, sort_keys=True) + "\n"
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(ix); err != nil {
			return err
		}
		_, err := w.Write(text.Bytes())
		return err
	})
}

// split cuts the tensors, sorted by name, into runs of at most maxBytes.
func split(tensors []Tensor, maxBytes int64) [][]Tensor {
	order := slices.Clone(tensors)
	slices.SortFunc(order, func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	shards := [][]Tensor{nil}
	filled := int64(0)
	for _, t := range order {
		last := len(shards) - 1
		bytes, _ := sizeOf(t.DType, t.Shape) // WriteMade asked before
		if len(shards[last]) > 0 && filled+bytes > maxBytes {
			shards = append(shards, nil)
			last, filled = last+1, 0
		}
		shards[last] = append(shards[last], t)
		filled += bytes
	}
	return shards
}

// staleFiles are the weights that the folder holds under base.
func staleFiles(folder, base string) (map[string]bool, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	ours := regexp.MustCompile(`^` + regexp.QuoteMeta(base) + `(-\d{5}-of-\d{5})?\.safetensors$`)
	stale := map[string]bool{}
	for _, e := range entries {
		if ours.MatchString(e.Name()) {
			stale[e.Name()] = true
		}
	}
	return stale, nil
}
