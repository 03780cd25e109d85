package quant

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// A GGUF is an open file of llama.cpp's format, version 2 or 3, little endian:
//
//	"GGUF", version, number of tensors, number of keys
//	keys      name, type, value
//	tensors   name, sides (innermost first), type, offset
//	data      offsets count from the header's end, rounded up to general.alignment
//
// Where a key comfy.gguf.orig_shape.NAME names sides (outermost first), they are the tensor's. The file is believed
// nothing: every length is held against the bytes that are left. Its methods may be called from several goroutines at
// once, except Close.
type GGUF struct {
	Path     string
	Metadata map[string]any // bool, numbers of their own types, string, []any
	tensors  map[string]stored
	names    []string
	file     *os.File
	start    int64
}

// stored is a tensor's place.
type stored struct {
	shape  []int
	form   Form
	offset int64
	bytes  int
}

// A header is read with a bound: the bytes that the file has left.
type header struct {
	from *bufio.Reader
	left int64
	read int64
}

const (
	mostSides  = 8
	mostDepth  = 4
	deepArray  = 9
	text       = 8
	hintFetch  = "the file is damaged or was not fully downloaded: fetch it again and compare its size with the hub's"
	hintOthers = "a folder of safetensors of the same model can be read"
)

// OpenGGUF opens a file and checks its header.
func OpenGGUF(path string) (_ *GGUF, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	g := &GGUF{Path: path, Metadata: map[string]any{}, tensors: map[string]stored{}, file: f}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h := &header{from: bufio.NewReaderSize(f, 1<<20), left: info.Size()}
	if err := g.parse(h, info.Size()); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *GGUF) fail(hint, format string, args ...any) error {
	return &safetensors.Error{Path: g.Path, Problem: fmt.Sprintf(format, args...), Hint: hint}
}

func (g *GGUF) parse(h *header, size int64) error {
	var magic [4]byte
	if err := h.bytes(magic[:]); err != nil || string(magic[:]) != "GGUF" {
		return g.fail(hintOthers, "no GGUF file: it begins with %q", magic[:])
	}
	version, err := h.u32()
	if err != nil {
		return g.fail(hintFetch, "the header ends early")
	}
	if version != 2 && version != 3 {
		return g.fail(hintOthers, "version %d of GGUF; 2 and 3 are read", version)
	}
	tensors, err1 := h.u64()
	keys, err2 := h.u64()
	if err1 != nil || err2 != nil || tensors > uint64(size) || keys > uint64(size) {
		return g.fail(hintFetch, "%d tensors and %d keys in %d bytes", tensors, keys, size)
	}
	for range keys {
		name, err := h.text()
		if err == nil {
			var kind uint32
			if kind, err = h.u32(); err == nil {
				g.Metadata[name], err = h.value(kind, 0)
			}
		}
		if err != nil {
			return g.fail(hintFetch, "key %.60q: %v", name, err)
		}
	}
	for range tensors {
		if err := g.tensor(h, size); err != nil {
			return err
		}
	}
	align := int64(32)
	if a, ok := g.Metadata["general.alignment"].(uint32); ok {
		if align = int64(a); align < 1 || align > 1<<20 {
			return g.fail(hintFetch, "an alignment of %d bytes", align)
		}
	}
	g.start = (h.read + align - 1) / align * align
	for _, name := range g.names {
		if t := g.tensors[name]; t.offset%align != 0 || t.offset > size || g.start+t.offset+int64(t.bytes) > size {
			return g.fail(hintFetch, "tensor %.60q: %d bytes at %d are not in the file's %d", name, t.bytes, g.start+t.offset, size)
		}
	}
	slices.Sort(g.names)
	return nil
}

// tensor reads one tensor's line.
func (g *GGUF) tensor(h *header, size int64) error {
	name, err := h.text()
	if err != nil {
		return g.fail(hintFetch, "a tensor's name: %v", err)
	}
	fail := func(format string, args ...any) error {
		return g.fail(hintFetch, "tensor %.60q: %s", name, fmt.Sprintf(format, args...))
	}
	sides, err := h.u32()
	if err != nil || sides > mostSides {
		return fail("%d sides", sides)
	}
	shape, n := make([]int, sides), int64(1)
	for i := range shape {
		side, err := h.u64()
		if err != nil || side > uint64(size)*256 || side > 0 && n > size*256/int64(side) {
			return fail("the sides %v and %d in a file of %d bytes", shape[:i], side, size)
		}
		shape[i], n = int(side), n*int64(side)
	}
	slices.Reverse(shape)
	number, err1 := h.u32()
	offset, err2 := h.u64()
	if err1 != nil || err2 != nil || offset > math.MaxInt64/2 {
		return fail("no place")
	}
	form := Form(number)
	values, bytes := form.Block()
	switch {
	case values == 0:
		return g.fail("read are F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL and IQ4_XS", "tensor %.60q has %s, which is not read", name, form)
	case n%int64(values) != 0:
		return fail("%d values are no whole blocks of %d", n, values)
	}
	if own, ok := g.Metadata["comfy.gguf.orig_shape."+name].([]any); ok {
		m := int64(1)
		shape = shape[:0]
		for _, side := range own {
			s, ok := side.(int32)
			if !ok || s < 0 || len(own) > mostSides {
				return fail("its shape before it was flattened: %v", own)
			}
			shape, m = append(shape, int(s)), m*max(1, int64(s))
		}
		if m != n {
			return fail("%d values, and %v before they were flattened", n, shape)
		}
	}
	if _, twice := g.tensors[name]; twice {
		return fail("it is there twice")
	}
	g.tensors[name] = stored{shape: shape, form: form, offset: int64(offset), bytes: int(n / int64(values) * int64(bytes))}
	g.names = append(g.names, name)
	return nil
}

// Names lists the tensors.
func (g *GGUF) Names() []string { return slices.Clone(g.names) }

// Stored is how a tensor lies in the file.
func (g *GGUF) Stored(name string) (shape []int, form Form, bytes int64) {
	t := g.tensors[name]
	return slices.Clone(t.shape), t.form, int64(t.bytes)
}

// Where says where a tensor lies, for messages.
func (g *GGUF) Where(name string) string {
	t, ok := g.tensors[name]
	if !ok {
		return g.Path
	}
	return fmt.Sprintf("%s, %d bytes from %d on", g.Path, t.bytes, g.start+t.offset)
}

// Matrix reads a tensor. Its values are rounded to the precision d.
func (g *GGUF) Matrix(name string, d safetensors.DType) (Matrix, error) {
	t, ok := g.tensors[name]
	if !ok {
		return Matrix{}, g.fail("darkroom inspect PATH lists what the file holds", "no tensor %.60q", name)
	}
	data := make([]byte, t.bytes)
	if _, err := g.file.ReadAt(data, g.start+t.offset); err != nil {
		return Matrix{}, g.fail("", "tensor %.60q: %v", name, err)
	}
	return Matrix{Weight: Blocks{Form: t.form, Data: data}, Name: name, Shape: t.shape, DType: d, Format: t.form.String()}, nil
}

// Tensor is a tensor with its values in a plain type.
func (g *GGUF) Tensor(name string) (safetensors.Tensor, error) {
	m, err := g.Matrix(name, precision(g.tensors[name].form))
	if err != nil {
		return safetensors.Tensor{}, err
	}
	return m.Tensor(), nil
}

// precision is that of the values of a type: its own, or bf16 of what is compressed.
func precision(f Form) safetensors.DType {
	switch f {
	case F32:
		return safetensors.F32
	case F16:
		return safetensors.F16
	}
	return safetensors.BF16
}

// IsGGUF reports whether a path has the format's ending.
func IsGGUF(path string) bool { return strings.EqualFold(filepath.Ext(path), ".gguf") }

// Close closes the file.
func (g *GGUF) Close() error { return g.file.Close() }

func (h *header) bytes(b []byte) error {
	if int64(len(b)) > h.left {
		return io.ErrUnexpectedEOF
	}
	n, err := io.ReadFull(h.from, b)
	h.left, h.read = h.left-int64(n), h.read+int64(n)
	return err
}

func (h *header) u32() (uint32, error) {
	var b [4]byte
	err := h.bytes(b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

func (h *header) u64() (uint64, error) {
	var b [8]byte
	err := h.bytes(b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

func (h *header) text() (string, error) {
	n, err := h.u64()
	if err != nil || n > uint64(h.left) || n > 1<<24 {
		return "", fmt.Errorf("a text of %d bytes where %d are left", n, h.left)
	}
	b := make([]byte, n)
	err = h.bytes(b)
	return string(b), err
}

// value is a key's, of a type.
func (h *header) value(kind uint32, depth int) (any, error) {
	var b [8]byte
	size := map[uint32]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}[kind]
	switch {
	case kind == text:
		return h.text()
	case kind == deepArray:
		of, err1 := h.u32()
		n, err2 := h.u64()
		if err1 != nil || err2 != nil || n > uint64(h.left) || depth == mostDepth {
			return nil, fmt.Errorf("a list of %d values, %d deep, where %d bytes are left", n, depth, h.left)
		}
		all := []any{}
		for range n {
			v, err := h.value(of, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	case size == 0:
		return nil, fmt.Errorf("a value of type %d", kind)
	}
	if err := h.bytes(b[:size]); err != nil {
		return nil, err
	}
	u := binary.LittleEndian.Uint64(b[:])
	return map[uint32]func() any{
		0: func() any { return uint8(u) }, 1: func() any { return int8(u) },
		2: func() any { return uint16(u) }, 3: func() any { return int16(u) },
		4: func() any { return uint32(u) }, 5: func() any { return int32(u) },
		6: func() any { return math.Float32frombits(uint32(u)) }, 7: func() any { return u != 0 },
		10: func() any { return u }, 11: func() any { return int64(u) }, 12: func() any { return math.Float64frombits(u) },
	}[kind](), nil
}
