package quant

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// An Expanded model has its compressed matrices as plain tensors: each is unpacked when it is read.
type Expanded struct {
	Tensors
	finder *finder
	names  []string
}

// Expand is a model whose compressed matrices read as tensors of 16 bits. One that has none stays as it is.
func Expand(t Tensors, metadata map[string]string) (Tensors, error) {
	names := t.Names()
	if !slices.ContainsFunc(names, Extra) && !slices.ContainsFunc(names, func(name string) bool { return isFloat8(t, name) }) {
		return t, nil
	}
	f, err := newFinder(t, metadata, safetensors.BF16)
	if err != nil {
		return nil, err
	}
	return &Expanded{t, f, slices.DeleteFunc(slices.Clone(names), Extra)}, nil
}

// isFloat8 reports whether a tensor is in FP8, by its header where that can be asked.
func isFloat8(t Tensors, name string) bool {
	at, ok := t.(interface {
		Info(name string) (safetensors.Info, bool)
	})
	if !ok {
		return false
	}
	info, _ := at.Info(name)
	return info.DType == safetensors.F8E4M3 || info.DType == safetensors.F8E5M2
}

// Names are the tensors, without the scales.
func (e *Expanded) Names() []string { return e.names }

// Tensor is a tensor with its values in a plain type.
func (e *Expanded) Tensor(name string) (safetensors.Tensor, error) {
	m, compressed, err := e.finder.matrix(name)
	if err != nil {
		return safetensors.Tensor{}, err
	}
	if !compressed {
		return e.Tensors.Tensor(name)
	}
	return m.Tensor(), nil
}

// Matrix is the compressed matrix of a name, if it is one.
func (e *Expanded) Matrix(name string) (Matrix, bool, error) { return e.finder.matrix(name) }

// Drop gives back the pages that were read.
func (e *Expanded) Drop(name string) {
	if d, ok := e.Tensors.(interface{ Drop(string) }); ok {
		d.Drop(name)
	}
}

// Where says where a tensor lies, for messages.
func (e *Expanded) Where(name string) string { return where(e.Tensors, name) }

func where(t Tensors, name string) string {
	if at, ok := t.(interface{ Where(string) string }); ok {
		return at.Where(name)
	}
	return ""
}

// A Folder is a set of safetensors whose compressed matrices read as tensors of 16 bits.
type Folder struct {
	Tensors
	Set *safetensors.Set
}

// OpenFolder opens a folder of safetensors.
func OpenFolder(dir string) (*Folder, error) {
	set, err := safetensors.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	plain, err := Expand(set, set.Metadata)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), set.Close())
	}
	return &Folder{plain, set}, nil
}

// Drop gives back the pages that were read.
func (f *Folder) Drop(name string) {
	if d, ok := f.Tensors.(interface{ Drop(string) }); ok {
		d.Drop(name)
	}
}

// Where says where a tensor lies, for messages.
func (f *Folder) Where(name string) string { return f.Set.Where(name) }

// Close closes the files.
func (f *Folder) Close() error { return f.Set.Close() }

// A File is a checkpoint of one file, in safetensors or in GGUF, whose compressed matrices read as tensors of 16 bits.
type File struct {
	Path  string
	Infos []safetensors.Info // in the order of names, as the tensors are read
	plain Tensors
	close func() error
}

// OpenFile opens a file by its ending.
func OpenFile(path string) (*File, error) {
	if IsGGUF(path) {
		g, err := OpenGGUF(path)
		if err != nil {
			return nil, err
		}
		f := &File{Path: path, plain: g, close: g.Close}
		for _, name := range g.Names() {
			t := g.tensors[name]
			f.Infos = append(f.Infos, safetensors.Info{Name: name, DType: precision(t.form), Shape: t.shape, Bytes: int64(t.bytes)})
		}
		return f, nil
	}
	s, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path, close: s.Close}
	if f.plain, err = Expand(s, s.Metadata); err == nil {
		err = f.list(s)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return f, nil
}

// list reads the tensors' headers. The shape of a matrix in 4 bits stands in its state.
func (f *File) list(s *safetensors.File) error {
	for _, name := range f.plain.Names() {
		info, _ := s.Info(name)
		if e, ok := f.plain.(*Expanded); ok {
			if err := e.finder.describe(&info); err != nil {
				return err
			}
		}
		f.Infos = append(f.Infos, info)
	}
	slices.SortFunc(f.Infos, func(a, b safetensors.Info) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Info is a tensor's header.
func (f *File) Info(name string) (safetensors.Info, bool) {
	i, ok := slices.BinarySearchFunc(f.Infos, name, func(info safetensors.Info, name string) int { return strings.Compare(info.Name, name) })
	if !ok {
		return safetensors.Info{}, false
	}
	return f.Infos[i], true
}

// Names are the tensors, without the scales.
func (f *File) Names() []string { return f.plain.Names() }

// Tensor is a tensor with its values in a plain type.
func (f *File) Tensor(name string) (safetensors.Tensor, error) { return f.plain.Tensor(name) }

// Drop gives back the pages that were read.
func (f *File) Drop(name string) {
	if d, ok := f.plain.(interface{ Drop(string) }); ok {
		d.Drop(name)
	}
}

// Where says where a tensor lies, for messages.
func (f *File) Where(name string) string { return cmp.Or(where(f.plain, name), f.Path) }

// Close closes the file.
func (f *File) Close() error { return f.close() }
