package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// maxHeader is the reference implementation's limit; published files need less than a tenth.
const maxHeader = 100_000_000

// Header is all that a file says about its tensors.
type Header struct {
	Path     string
	Metadata map[string]string // nil if the file has none
	Tensors  []Info            // in the order of their data
	Bytes    int64             // of the file
}

// Info describes a tensor without its data.
type Info struct {
	Name   string
	DType  DType
	Shape  []int
	Offset int64 // in the file
	Bytes  int64
}

// Len is the number of elements.
func (i Info) Len() int { return int(i.Bytes * 8 / int64(i.DType.Bits())) }

// open opens a file and reads its header.
func open(path string) (*os.File, *Header, error) {
	// Asked before opening, since opening a pipe would wait for its writer.
	if st, err := os.Stat(path); err != nil {
		return nil, nil, missing(path, err)
	} else if !st.Mode().IsRegular() {
		return nil, nil, &Error{Path: path, Problem: "not a regular file", Hint: "name a .safetensors file"}
	}
	f, err := regular.Open(path)
	if err != nil {
		return nil, nil, missing(path, err)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	h, err := readHeader(f, st.Size())
	if err != nil {
		f.Close()
		return nil, nil, in(path, err)
	}
	h.Path = path
	return f, h, nil
}

func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{Path: path, Problem: "no such file", Hint: "check the path; the model may be only partly downloaded", Cause: fs.ErrNotExist}
	}
	return err
}

// readHeader reads the header of a file of the given size.
func readHeader(r io.ReaderAt, size int64) (*Header, error) {
	var first [64]byte
	got, err := r.ReadAt(first[:min(size, int64(len(first)))], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	if got < 8 {
		return nil, problem(hintAgain, "%d bytes are too few for a safetensors file", size)
	}
	n := binary.LittleEndian.Uint64(first[:8])
	switch {
	case n > maxHeader:
		return nil, notSafetensors(first[:got], n)
	case int64(n) > size-8:
		return nil, problem(hintAgain, "the header claims %d bytes, but only %d follow", n, size-8)
	case n < 2:
		return nil, problem(hintAgain, "the header claims %d bytes, too few for any JSON", n)
	}
	text := make([]byte, n)
	if _, err := r.ReadAt(text, 8); err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	h, err := parse(text)
	if err != nil {
		return nil, err
	}
	h.Bytes = size
	return h, h.layout(8+int64(n), size)
}

// notSafetensors explains a header of impossible length; it recognises what is
// most often found under a wrong name.
func notSafetensors(first []byte, n uint64) error {
	for _, k := range []struct{ prefix, what, hint string }{
		{"version https://git-lfs", "a Git LFS pointer, not the weights", "run 'git lfs pull' in its folder, or download the file"},
		{"PK\x03\x04", "a zip archive (PyTorch's .bin or .pt, most likely)", "convert it to safetensors; Darkroom does not read pickled files"},
		{"\x80\x02", "a Python pickle", "convert it to safetensors; Darkroom does not read pickled files"},
		{"\x89PNG", "a picture", "name the weights' file"}, {"\xff\xd8\xff", "a picture", "name the weights' file"},
		{"GGUF", "a GGUF file", "download the model's safetensors instead"},
		{"<", "a web page or XML, not weights", "the download failed, or needs a login at the hub: fetch the file again"},
	} {
		if bytes.HasPrefix(first, []byte(k.prefix)) {
			return problem(k.hint, "this is %s", k.what)
		}
	}
	if !bytes.ContainsFunc(first, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) && !unicode.IsSpace(r) }) {
		return problem("name the weights' file, or a model's folder", "this is text, not weights")
	}
	return problem("the file is not in the safetensors format, or damaged",
		"the header claims %d bytes; the most allowed is %d", n, maxHeader)
}
