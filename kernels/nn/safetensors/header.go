package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
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

// notSafetensors explains a header of impossible length; it recognises the most frequent kinds of files under a wrong
// name.
func notSafetensors(first []byte, n uint64) error {
	for _, k := range []struct{ prefix, what, hint string }{
		{"version https://git-lfs", "a Git LFS pointer, not the weights", "run 'git lfs pull' in its folder, or download the file"},
		{"PK\x03\x04", "a zip archive (PyTorch's .bin or .pt, most likely)", "convert it to safetensors; Darkroom does not read pickled files"},
		{"\x80\x02", "a Python pickle", "convert it to safetensors; Darkroom does not read pickled files"},
		{"\x89PNG", "a picture", "name the weights' file"}, {"\xff\xd8\xff", "a picture", "name the weights' file"},
		{"GGUF", "a GGUF file", "a transformer or T5 in GGUF is read under a name that ends in .gguf; other parts need safetensors"},
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

// maxRank bounds the dimensions of a tensor; NumPy stops here too.
const maxRank = 64

// parse reads the JSON of a header. Offsets are checked for order only; layout
// does the rest. The tokens are walked by hand, since decoding into a map would
// let a later duplicate replace an earlier tensor silently, and json.Decoder takes five times as long.
func parse(text []byte) (*Header, error) {
	if text[0] != '{' {
		return nil, problem(hintAgain, "the header is not JSON: it starts with byte %#x, not '{'", text[0])
	}
	p, err := newWalker(text, 8)
	if err != nil {
		return nil, err
	}
	h := &Header{}
	seen := map[string]bool{}
	err = p.object(func(name string) error {
		if seen[name] {
			return tensorProblem(name, hintWriter, "listed twice in the header")
		}
		seen[name] = true
		if name == "__metadata__" {
			h.Metadata = map[string]string{}
			return p.metadata(h.Metadata)
		}
		info, err := p.tensor(name)
		h.Tensors = append(h.Tensors, info)
		return err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// A walker reads valid JSON token by token and knows where in the file it is.
type walker struct {
	text []byte
	at   int
	base int // of the text in the file
}

// newWalker refuses text that is not JSON, so that the walker can take its grammar for granted.
func newWalker(text []byte, base int) (*walker, error) {
	if !utf8.Valid(text) {
		return nil, problem(hintAgain, "the JSON is not UTF-8 text")
	}
	if !json.Valid(text) {
		var syntax *json.SyntaxError
		err := json.Unmarshal(text, new(json.RawMessage))
		errors.As(err, &syntax)
		return nil, problem(hintAgain, "invalid JSON at byte %d of the file: %v", int64(base)+syntax.Offset, err)
	}
	return &walker{text: text, base: base}, nil
}

// more skips blanks, commas and colons, and reports whether the object or list has a further element.
func (p *walker) more() bool {
	for strings.IndexByte(" \t\r\n,:", p.text[p.at]) >= 0 {
		p.at++
	}
	return p.text[p.at] != '}' && p.text[p.at] != ']'
}

// next is a bracket, a string with its quotation marks, or another scalar.
func (p *walker) next() []byte {
	p.more()
	from := p.at
	p.at++
	switch p.text[from] {
	case '{', '}', '[', ']':
	case '"':
		for ; p.text[p.at] != '"'; p.at++ {
			if p.text[p.at] == '\\' {
				p.at++
			}
		}
		p.at++
	default:
		for p.at < len(p.text) && strings.IndexByte(" \t\r\n,]}", p.text[p.at]) < 0 {
			p.at++
		}
	}
	return p.text[from:p.at]
}

// unquoted is the text of a token that is a string.
func unquoted(tok []byte) (s string) {
	if bytes.IndexByte(tok, '\\') < 0 {
		return string(tok[1 : len(tok)-1])
	}
	_ = json.Unmarshal(tok, &s) // of valid JSON
	return s
}

func (p *walker) wrong(want string, got []byte) error {
	s := shorten(string(got))
	switch got[0] {
	case '{', '[':
		s = strconv.Quote(s)
	case '"':
		s = strconv.Quote(shorten(unquoted(got)))
	}
	return problem(hintWriter, "byte %d of the file: want %s, got %s", p.base+p.at, want, s)
}

// object reads { key: value, ... }; each must consume the value.
func (p *walker) object(each func(key string) error) error {
	if tok := p.next(); tok[0] != '{' {
		return p.wrong("an object", tok)
	}
	for p.more() {
		if err := each(unquoted(p.next())); err != nil {
			return err
		}
	}
	p.next()
	return nil
}

// list reads [ number, ... ] of at most most numbers.
func (p *walker) list(what string, most int) ([]int64, error) {
	if tok := p.next(); tok[0] != '[' {
		return nil, p.wrong(what+" as a list", tok)
	}
	all := []int64{}
	for p.more() {
		tok := p.next()
		v, err := strconv.ParseInt(string(tok), 10, 64)
		switch {
		case tok[0] == '-':
			return nil, p.wrong("no negative number in "+what, tok)
		case tok[0] < '0' || tok[0] > '9':
			return nil, p.wrong("a number in "+what, tok)
		case err != nil:
			return nil, p.wrong("a whole number below 2^63 in "+what, tok)
		case len(all) == most:
			return nil, problem(hintWriter, "byte %d of the file: %s has more than %d numbers", p.base+p.at, what, most)
		}
		all = append(all, v)
	}
	p.next()
	return all, nil
}

func (p *walker) string(what string) (string, error) {
	tok := p.next()
	if tok[0] != '"' {
		return "", p.wrong(what+" as a string", tok)
	}
	return unquoted(tok), nil
}

// value is a whole value.
func (p *walker) value() []byte {
	tok := p.next()
	from, depth := p.at-len(tok), 0
	for {
		switch tok[0] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 0 {
			return p.text[from:p.at]
		}
		tok = p.next()
	}
}

// mostMetadata is how many keys the metadata of a file has: a header of the largest size could hold ten
// million, which take twenty times their bytes.
const mostMetadata = 1 << 16

func (p *walker) metadata(into map[string]string) error {
	return p.object(func(key string) error {
		if len(into) == mostMetadata {
			return problem(hintWriter, "metadata of more than %d keys", mostMetadata)
		}
		if _, twice := into[key]; twice {
			return problem(hintWriter, "metadata key %q is listed twice", shorten(key))
		}
		s, err := p.string("metadata " + strconv.Quote(shorten(key)))
		into[key] = s
		return err
	})
}

// tensor reads {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}.
// Keys that the format does not know are skipped.
func (p *walker) tensor(name string) (Info, error) {
	t := Info{Name: name}
	seen := map[string]bool{}
	named := func(err error) error {
		var e *Error
		if errors.As(err, &e) && e.Tensor == "" {
			e.Tensor = name
		}
		return err
	}
	err := p.object(func(key string) error {
		if seen[key] {
			return problem(hintWriter, "%q is listed twice", shorten(key))
		}
		seen[key] = true
		switch key {
		case "dtype":
			s, err := p.string("dtype")
			if err != nil {
				return err
			}
			d, ok := dtypeNamed(s)
			if !ok {
				return problem("the file may be newer than this program, or damaged", "unknown dtype %q", shorten(s))
			}
			t.DType = d
		case "shape":
			dims, err := p.list("shape", maxRank)
			if err != nil {
				return err
			}
			t.Shape = make([]int, len(dims))
			for i, d := range dims {
				if d > math.MaxInt {
					return problem("the model needs a 64-bit machine", "dimension %d", d)
				}
				t.Shape[i] = int(d)
			}
		case "data_offsets":
			o, err := p.list("data_offsets", 2)
			if err != nil {
				return err
			}
			if len(o) != 2 || o[0] > o[1] {
				return problem(hintWriter, "data_offsets %v are not a begin and an end", o)
			}
			t.Offset, t.Bytes = o[0], o[1]-o[0]
		default:
			p.value()
		}
		return nil
	})
	if err != nil {
		return t, named(err)
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return t, tensorProblem(name, hintWriter, "the header gives no %s", key)
		}
	}
	return t, nil
}

// layout checks that the tensors' data is exactly the file from byte start to
// byte size, each span of the size that shape and dtype ask for, no span shared
// and none left over. It sorts the tensors and makes their offsets absolute.
//
// Invariant: afterwards Tensors[0].Offset = start, each tensor begins where the
// one before it ends, and the last ends at size.
func (h *Header) layout(start, size int64) error {
	for _, t := range h.Tensors {
		want, err := sizeOf(t.DType, t.Shape)
		if err != nil {
			return tensorProblem(t.Name, hintWriter, "%v", err)
		}
		if t.Bytes != want {
			return tensorProblem(t.Name, hintWriter, "data_offsets [%d, %d] span %d bytes, but %s %v needs %d",
				t.Offset, t.Offset+t.Bytes, t.Bytes, t.DType, t.Shape, want)
		}
	}
	slices.SortFunc(h.Tensors, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name))
	})
	end, last := int64(0), ""
	for i := range h.Tensors {
		t := &h.Tensors[i]
		switch {
		case t.Offset > size-start || t.Bytes > size-start-t.Offset:
			// Both terms are below 2^63, so this comparison does not overflow.
			return tensorProblem(t.Name, hintAgain, "its data lies at bytes [%d, %d) after the header, but only %d bytes are there",
				t.Offset, uint64(t.Offset)+uint64(t.Bytes), size-start)
		case t.Offset < end:
			return tensorProblem(t.Name, hintWriter, "its data at offset %d overlaps that of %q, which ends at %d", t.Offset, shorten(last), end)
		case t.Offset > end:
			return tensorProblem(t.Name, hintWriter, "bytes [%d, %d) before its data belong to no tensor", end, t.Offset)
		}
		end, last = t.Offset+t.Bytes, t.Name
		t.Offset += start
	}
	if start+end != size {
		return problem(hintAgain, "%d bytes after the last tensor belong to none", size-start-end)
	}
	return nil
}
