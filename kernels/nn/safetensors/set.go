package safetensors

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// openShards opens what the index names and holds the two against each other.
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
