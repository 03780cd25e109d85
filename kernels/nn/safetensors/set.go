package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// Set is the tensors of a model: one file, or shards with their index. Like a
// File it may be used by several goroutines at once, except for Close.
type Set struct {
	Folder   string
	Index    string            // path of the index; empty for a single file
	Files    []*File           // in the order of their names
	Metadata map[string]string // of the files; where two differ, the first file's
	Total    int64             // bytes that the index claims; 0 if it claims none
	Unlisted []string          // tensors that are in a shard but not in the index

	home map[string]*File
}

// OpenFolder opens the weights of a model folder. path is the folder, an index
// (*.safetensors.index.json) or a single file. In a folder the names that the
// hub's libraries write come first; any other is taken if it is the only one.
func OpenFolder(path string) (*Set, error) {
	found, err := findWeights(path)
	if err != nil {
		return nil, err
	}
	s := &Set{Folder: filepath.Dir(found), home: map[string]*File{}}
	if isIndex(found) {
		s.Index = found
		err = s.openShards()
	} else {
		err = s.add(found, found)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// add opens the file that lies at real, and is known to people as path.
func (s *Set) add(real, path string) error {
	f, err := Open(real)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Path = path
		}
		return err
	}
	f.Path = path
	s.Files = append(s.Files, f)
	for _, t := range f.Tensors {
		if other, twice := s.home[t.Name]; twice {
			return &Error{Path: path, Tensor: t.Name, Problem: "also in " + filepath.Base(other.Path),
				Hint: "files of two downloads may be mixed; fetch the folder again into an empty one"}
		}
		s.home[t.Name] = f
	}
	for k, v := range f.Metadata {
		if s.Metadata == nil {
			s.Metadata = map[string]string{}
		}
		if _, have := s.Metadata[k]; !have {
			s.Metadata[k] = v
		}
	}
	return nil
}

// openShards opens the index's files and compares the two.
func (s *Set) openShards() error {
	ix, err := readIndex(s.Index)
	if err != nil {
		return err
	}
	s.Total = ix.total
	var lost []string
	names := ix.shards()
	for _, name := range names {
		real, err := Locate(s.Folder, name)
		if errors.Is(err, os.ErrNotExist) {
			lost = append(lost, name)
			continue
		}
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			continue // the error is certain; only the names are still wanted
		}
		if err := s.add(real, filepath.Join(s.Folder, name)); err != nil {
			return err
		}
	}
	if len(lost) > 0 {
		return &Error{Path: s.Index, Problem: missingShards(lost, len(names)), Hint: "the download is not complete: fetch the folder again", Cause: os.ErrNotExist}
	}
	for _, name := range slices.Sorted(maps.Keys(ix.home)) {
		f, ok := s.home[name]
		if !ok {
			return &Error{Path: s.Index, Tensor: name, Problem: "listed for " + ix.home[name] + ", which does not hold it",
				Hint: "index and shards are of different versions; fetch the folder again"}
		}
		if f.Path != filepath.Join(s.Folder, ix.home[name]) {
			return &Error{Path: s.Index, Tensor: name, Problem: "listed for " + ix.home[name] + ", but it is in " + filepath.Base(f.Path),
				Hint: "index and shards are of different versions; fetch the folder again"}
		}
	}
	for _, name := range s.Names() {
		if _, ok := ix.home[name]; !ok {
			s.Unlisted = append(s.Unlisted, name)
		}
	}
	return nil
}

// Names lists the tensors, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.home)) }

// Info describes a tensor.
func (s *Set) Info(name string) (Info, bool) {
	f, ok := s.home[name]
	if !ok {
		return Info{}, false
	}
	return f.Info(name)
}

// Tensor returns a tensor with its data.
func (s *Set) Tensor(name string) (Tensor, error) {
	f, ok := s.home[name]
	if !ok {
		at := s.Index
		if at == "" {
			at = s.Files[0].Path
		}
		return Tensor{}, &Error{Path: at, Tensor: name, Problem: "not among the model's tensors", Hint: hintInspect}
	}
	return f.Tensor(name)
}

// Where says where a tensor lies, for messages.
func (s *Set) Where(name string) string {
	if f, ok := s.home[name]; ok {
		return f.Where(name)
	}
	return s.Folder
}

// Drop tells the system that a tensor's pages are not needed soon; see File.Drop.
func (s *Set) Drop(name string) {
	if f, ok := s.home[name]; ok {
		f.Drop(name)
	}
}

// Close closes every file.
func (s *Set) Close() error {
	var all []error
	for _, f := range s.Files {
		all = append(all, f.Close())
	}
	return errors.Join(all...)
}

// usualNames are the hub's libraries' names for a model's weights, or an adapter's.
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
		case strings.HasPrefix(n, "."): // the remains of a stopped writer or downloader
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

// shardName matches the hub's libraries' name for the i-th of n files.
var shardName = regexp.MustCompile(`-\d{5}-of-\d{5}\.safetensors$`)

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
			if err := json.Unmarshal(p.value(), &m); err != nil {
				return problem(hintAgain, "metadata before byte %d of the file: %v", p.at, err)
			}
			if m.Total > 0 && m.Total < 1<<53 {
				ix.total = int64(m.Total)
			}
			return nil
		}
		p.value()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(ix.home) == 0 {
		return nil, problem(hintAgain, "the index has no weight_map, or an empty one")
	}
	return ix, nil
}

func (p *walker) weightMap(home map[string]string) error {
	return p.object(func(name string) error {
		if _, twice := home[name]; twice {
			return tensorProblem(name, hintWriter, "listed twice in the index")
		}
		file, err := p.string("the file of " + shorten(name))
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
