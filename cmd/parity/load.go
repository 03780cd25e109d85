package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/internal/golden"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// The two forms of recorded cases. A family is a file
//
//	{"family": "sde_flow", "cases": [{"name", "op", "in": {...}, "out": {...}, "tol": {"abs", "rel"}, "tols": {...}}]}
//
// and a folder case is case.json with the same fields beside tensors.safetensors;
// its "in", "out" and "grad" may be lists of names of tensors. A family beside such a
// file may say {"tensor": NAME} as a case's "out". Other JSON files are of no concern
// here: a folder case holds a model's configuration too. A family may be compressed, .json.gz, and so may the tensors
// beside one, tensors.safetensors.gz. A folder may be one file, NAME.zip (package golden).

// A loader finds cases and hands them on, one at a time: a mistake in one of them must not keep the others from
// running.
type loader struct {
	each func(recorded)
	bad  func(error)
}

// load reads a file, or every file below a folder.
func (l loader) load(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return l.folder(path)
	}
	switch {
	case filepath.Base(path) == "case.json":
		l.caseFolder(filepath.Dir(path))
	case filepath.Ext(path) == golden.Ending:
		l.zipped(path)
	default:
		l.family(path)
	}
	return nil
}

func (l loader) folder(path string) error {
	if _, err := os.Stat(filepath.Join(path, "case.json")); err == nil {
		l.caseFolder(path)
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		inner := filepath.Join(path, e.Name())
		switch {
		case e.IsDir():
			if err := l.folder(inner); err != nil {
				return err
			}
		case filepath.Ext(inner) == golden.Ending:
			l.zipped(inner)
		case strings.HasSuffix(inner, ".json"), strings.HasSuffix(inner, ".json.gz"):
			l.family(inner)
		}
	}
	return nil
}

func (l loader) family(file string) {
	raw, err := read(file)
	if err != nil {
		l.bad(err)
		return
	}
	var family map[string]json.RawMessage
	err = json.Unmarshal(raw, &family)
	var other *json.UnmarshalTypeError
	if err == nil && family["nodes"] != nil && family["op"] != nil {
		l.nodes(file, raw)
		return
	}
	if errors.As(err, &other) || err == nil && family["cases"] == nil {
		return // JSON, but not ours
	}
	var cases []json.RawMessage
	if err == nil {
		err = json.Unmarshal(family["cases"], &cases)
	}
	if errors.As(err, &other) && family["family"] == nil {
		return // a vocabulary may hold the word "cases"
	}
	if err != nil {
		l.bad(fmt.Errorf("%s: %w", file, err))
		return
	}
	tensor, done, ok := l.beside(filepath.Dir(file))
	if !ok {
		return
	}
	defer done()
	for i, raw := range cases {
		c, err := parse(raw, filepath.Dir(file), tensor)
		l.hand(file, i, c, err)
	}
}

// nodes are the cases of an index of ONNX's node tests, {"op", "nodes": [{"name", "rtol", "atol"}]}. Their
// tensors lie in nodes.zip beside it. A case's output is the share of its tolerance, at most 1.
func (l loader) nodes(file string, raw []byte) {
	var index struct {
		Op    string
		Nodes []struct {
			Name       string
			Rtol, Atol float64
		}
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		l.bad(fmt.Errorf("%s: %w", file, err))
		return
	}
	for i, n := range index.Nodes {
		c := newCase(n.Name, index.Op, filepath.Dir(file), map[string]any{"rtol": json.Number(strconv.FormatFloat(n.Rtol, 'g', -1, 64)), "atol": json.Number(strconv.FormatFloat(n.Atol, 'g', -1, 64))})
		l.hand(file, i, recorded{seen: c, want: map[string]any{"share": json.Number("0")}, tols: tolerances{all: tolerance{Abs: 1}}}, nil)
	}
}

// read is a file's text.
func read(file string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if err != nil || filepath.Ext(file) != ".gz" {
		return raw, err
	}
	var text []byte
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(r, mostText+1))
	}
	if err == nil && len(text) > mostText {
		err = fmt.Errorf("more than %d MB", mostText>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: decompressing: %w", file, err)
	}
	return text, nil
}

// mostText bounds the unpacked size of a small file.
const mostText = 1 << 30

// beside opens the tensors of a folder; there need not be any, but a broken file is not ok.
func (l loader) beside(dir string) (tensor tensorSource, done func(), ok bool) {
	stored := filepath.Join(dir, "tensors.safetensors")
	open := safetensors.Open
	if _, err := os.Stat(stored); err != nil {
		stored, open = stored+".gz", unpacked
	}
	if _, err := os.Stat(stored); err != nil {
		return noTensor, func() {}, true
	}
	f, err := open(stored)
	if err != nil {
		l.bad(err)
		return nil, nil, false
	}
	return tensors{f}.array, func() { f.Close() }, true
}

// unpacked opens tensors that are compressed.
func unpacked(file string) (*safetensors.File, error) {
	data, err := read(file)
	if err != nil {
		return nil, err
	}
	return safetensors.Read(file, data)
}

// hand passes a case on, or its error.
func (l loader) hand(file string, i int, c recorded, err error) {
	if err == nil {
		c.file = file
		l.each(c)
		return
	}
	name := fmt.Sprintf("case %d", i)
	if c.seen != nil && c.seen.Name != "" {
		name = fmt.Sprintf("case %q", c.seen.Name)
	}
	l.bad(fmt.Errorf("%s: %s: %w", file, name, err))
}

// zipped reads the cases of a folder that is one file. They are named by the file.
func (l loader) zipped(file string) {
	dir, err := os.MkdirTemp("", "parity")
	if err != nil {
		l.bad(err)
		return
	}
	defer os.RemoveAll(dir)
	text, err := os.ReadFile(file)
	if err == nil {
		err = golden.UnpackCase(file, text, dir)
	}
	if err != nil {
		l.bad(err)
		return
	}
	inner := loader{
		each: func(c recorded) { c.file = file; l.each(c) },
		bad:  func(err error) { l.bad(fmt.Errorf("%s: %w", file, err)) },
	}
	if err := inner.folder(dir); err != nil {
		inner.bad(err)
	}
}

func (l loader) caseFolder(dir string) {
	file := filepath.Join(dir, "case.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		l.bad(err)
		return
	}
	tensor, done, ok := l.beside(dir)
	if !ok {
		return
	}
	defer done()
	c, err := parse(raw, dir, tensor)
	l.hand(file, 0, c, err)
}

// A tensorSource finds a tensor by its name.
type tensorSource func(name string) (Array, bool, error)

func noTensor(string) (Array, bool, error) { return Array{}, false, nil }

type tensors struct{ file *safetensors.File }

func (t tensors) array(name string) (Array, bool, error) {
	if _, ok := t.file.Info(name); !ok {
		return Array{}, false, nil
	}
	stored, err := t.file.Tensor(name)
	if err != nil {
		return Array{}, false, err
	}
	a := Array{Shape: slices.Clone(stored.Shape)}
	if whole, err := stored.Int64(nil); err == nil {
		a.Data = to[float64](whole)
		return a, true, nil
	}
	values, err := stored.Float32(nil)
	a.Data = to[float64](values)
	return a, err == nil, err
}
