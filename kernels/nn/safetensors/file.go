package safetensors

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is one open .safetensors file. Its methods may be called from several
// goroutines at once, except Close.
type File struct {
	Header
	index map[string]int // into Tensors
	src   source
}

// A source gives spans of a file's bytes.
type source interface {
	span(off, n int64) ([]byte, error)
	drop(off, n int64)
	close() error
}

// Tensor is a tensor with its data: little endian, rows first.
type Tensor struct {
	Name  string
	DType DType
	Shape []int
	Data  []byte // of a mapped file: read only, and gone after Close
	// Fill writes the data of a tensor in place of Data, when its turn comes: of many large ones a piece lies in memory.
	Fill func(to *Sink) error
}

// Open opens a file and checks its header. The data is mapped, not read.
func Open(path string) (*File, error) {
	f, h, err := open(path)
	if err != nil {
		return nil, err
	}
	file := &File{Header: *h, index: map[string]int{}, src: openSource(f, h.Bytes)}
	for i, t := range h.Tensors {
		file.index[t.Name] = i
	}
	return file, nil
}

// Names lists the tensors, sorted.
func (f *File) Names() []string {
	names := make([]string, len(f.Tensors))
	for i, t := range f.Tensors {
		names[i] = t.Name
	}
	slices.Sort(names)
	return names
}

// Info describes a tensor.
func (f *File) Info(name string) (Info, bool) {
	i, ok := f.index[name]
	if !ok {
		return Info{}, false
	}
	return f.Tensors[i], true
}

// Tensor returns a tensor with its data.
func (f *File) Tensor(name string) (Tensor, error) {
	info, ok := f.Info(name)
	if !ok {
		return Tensor{}, &Error{Path: f.Path, Tensor: name, Problem: "not in this file", Hint: hintInspect}
	}
	data, err := f.src.span(info.Offset, info.Bytes)
	if err != nil {
		return Tensor{}, fmt.Errorf("%s: reading tensor %q: %w", f.Path, shorten(name), err)
	}
	return Tensor{name, info.DType, info.Shape, data, nil}, nil
}

// Where says where a tensor lies, for messages.
func (f *File) Where(name string) string {
	info, ok := f.Info(name)
	if !ok {
		return f.Path
	}
	return fmt.Sprintf("%s, %d bytes from %d on", f.Path, info.Bytes, info.Offset)
}

// Drop tells the system that a tensor's pages are not needed soon. Its data stays
// valid: touched again, it is read from the disk again.
func (f *File) Drop(name string) {
	if info, ok := f.Info(name); ok {
		f.src.drop(info.Offset, info.Bytes)
	}
}

// Close unmaps the file. Data of its tensors must not be touched afterwards.
func (f *File) Close() error { return f.src.close() }

// readAt is the source where files cannot be mapped: each span is read anew.
type readAt struct{ f *os.File }

func (r readAt) span(off, n int64) ([]byte, error) {
	if int64(int(n)) != n {
		return nil, fmt.Errorf("%d bytes need a 64-bit machine", n)
	}
	data := make([]byte, n) // the header was checked against the file's size
	_, err := r.f.ReadAt(data, off)
	return data, err
}

func (r readAt) drop(off, n int64) {}
func (r readAt) close() error      { return r.f.Close() }

// Bytes is the output of Write.
func Bytes(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	header, order, err := encode(tensors, metadata)
	if err != nil {
		return nil, err
	}
	size := len(header)
	for _, t := range order {
		n, err := sizeOf(t.DType, t.Shape)
		if err != nil {
			return nil, err
		}
		size += int(n)
	}
	all := bytes.NewBuffer(append(make([]byte, 0, size), header...))
	to := &Sink{w: all}
	for _, t := range order {
		if err := t.fill(to); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// Read checks the header of a file that is in memory. Its tensors are views of data. name is for messages.
func Read(name string, data []byte) (*File, error) {
	h, err := readHeader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, in(name, err)
	}
	h.Path = name
	file := &File{Header: *h, index: map[string]int{}, src: &memory{data}}
	for i, t := range h.Tensors {
		file.index[t.Name] = i
	}
	return file, nil
}

// memory is a source in memory.
type memory struct{ data []byte }

func (m *memory) span(off, n int64) ([]byte, error) {
	if m.data == nil {
		return nil, os.ErrClosed
	}
	return m.data[off : off+n : off+n], nil
}

func (m *memory) drop(off, n int64) {}

func (m *memory) close() error {
	m.data = nil
	return nil
}

// Locate finds a file or folder that a stranger's file names, and refuses one that does not lie in folder after
// symbolic links are followed. One exception: the hub's cache keeps snapshots/REVISION/name as a link to blobs/HASH
// beside snapshots.
// name has forward slashes.
func Locate(folder, name string) (string, error) {
	outside := &Error{Path: folder, Problem: fmt.Sprintf("it names %q, outside itself", shorten(name)),
		Hint: "a model may name only what lies in its folder; do not trust this download"}
	if strings.ContainsAny(name, "\\:\x00") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", outside
	}
	root, err := realPath(folder)
	if err != nil {
		return "", err
	}
	real, err := realPath(filepath.Join(folder, filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	if within(root, real) {
		return real, nil
	}
	if blobs := hubBlobs(root); blobs != "" && within(blobs, real) {
		return real, nil
	}
	return "", &Error{Path: folder, Problem: fmt.Sprintf("%q is a link to a place outside this folder", shorten(name)),
		Hint: "put the file itself into the folder, or name the file instead of the folder"}
}

func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// hubBlobs is X/blobs for a folder in X/snapshots/REVISION. It is compared with
// paths whose links were followed, so a link in its place leads nowhere.
func hubBlobs(folder string) string {
	for dir := folder; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if up := filepath.Dir(dir); filepath.Base(up) == "snapshots" {
			return filepath.Join(filepath.Dir(up), "blobs")
		}
	}
	return ""
}
