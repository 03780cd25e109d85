package torchfile

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/outside/regular"
)

// The archive around the pickle (pickle.go): data.pkl, and a file of data/ for each storage,
// as torch.save lays them out.

// mostNumbers of a storage are more than any published model has.
const mostNumbers = 1 << 40

// maxPickle bounds the names and shapes; those of published checkpoints take less than a MiB.
const maxPickle = 64 << 20

// File is an open state dict. Tensors are read when they are asked for.
type File struct {
	Path  string
	file  *os.File
	size  int64
	parts map[string]*zip.File // by their names below the archive's folder
	dict  *dict
}

// Open opens a file and reads its names.
func Open(path string) (*File, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path, file: file}
	if err := f.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w\nhint: in Python: safetensors.torch.save_file(torch.load(FILE, weights_only=True), OUT)", path, err), file.Close())
	}
	return f, nil
}

func (f *File) read() error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(f.file, info.Size())
	if err != nil {
		return fmt.Errorf("this is no archive that torch.save wrote: %w", err)
	}
	f.size, f.parts = info.Size(), map[string]*zip.File{}
	for _, p := range archive.File {
		if _, below, ok := strings.Cut(p.Name, "/"); ok {
			f.parts[below] = p
		}
	}
	if order, err := f.bytes("byteorder", 16); err == nil && string(order) != "little" {
		return fmt.Errorf("its numbers are %s endian; little is known", order)
	}
	text, err := f.bytes("data.pkl", maxPickle)
	if err != nil {
		return err
	}
	v, err := parse(text)
	if err != nil {
		return err
	}
	d, ok := v.(*dict)
	if !ok {
		return fmt.Errorf("it holds a %T, and no state dict", v)
	}
	if inner, ok := d.values["state_dict"].(*dict); ok { // of a trainer's checkpoint
		d = inner
	}
	f.dict = d
	return nil
}

// bytes are a part of the archive.
func (f *File) bytes(name string, most int64) ([]byte, error) {
	p := f.parts[name]
	if p == nil {
		return nil, fmt.Errorf("the archive has no %s", name)
	}
	if p.Method != zip.Store {
		return nil, fmt.Errorf("%s is compressed, and torch.save compresses nothing", name)
	}
	if p.UncompressedSize64 > uint64(most) {
		return nil, fmt.Errorf("%s has %d bytes, and at most %d are possible", name, p.UncompressedSize64, most)
	}
	r, err := p.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err = errors.Join(err, r.Close()); err == nil && int64(len(b)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// Size is that of the file, in bytes.
func (f *File) Size() int64 { return f.size }

// Names are those of the tensors, in order.
func (f *File) Names() (all []string) {
	for _, key := range f.dict.keys {
		if _, ok := f.dict.values[key].(view); ok {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

// kinds are the storages that are read.
var kinds = map[string]safetensors.DType{"FloatStorage": safetensors.F32, "HalfStorage": safetensors.F16, "BFloat16Storage": safetensors.BF16, "LongStorage": safetensors.I64}

// Shape is a tensor without its numbers.
func (f *File) Shape(name string) (t safetensors.Tensor, err error) {
	v, ok := f.dict.values[name].(view)
	if !ok {
		return t, fmt.Errorf("%s: %s: there is no such tensor", f.Path, name)
	}
	kind, _, err := f.place(v)
	if err != nil {
		return t, fmt.Errorf("%s: %s: %w", f.Path, name, err)
	}
	return safetensors.Tensor{Name: name, DType: kind, Shape: v.shape}, nil
}

// Tensor reads one.
func (f *File) Tensor(name string) (t safetensors.Tensor, err error) {
	if t, err = f.Shape(name); err != nil {
		return t, err
	}
	v := f.dict.values[name].(view)
	if t.Data, err = f.numbers(v); err != nil {
		err = fmt.Errorf("%s: %s: %w", f.Path, name, err)
	}
	return t, err
}

// place checks that a view lies in its storage, and returns the storage's type and the view's numbers.
func (f *File) place(v view) (kind safetensors.DType, n int, err error) {
	kind, ok := kinds[v.of.kind]
	if !ok {
		return kind, 0, fmt.Errorf("its numbers are a %s; fp32, fp16, bf16 and int64 are read", v.of.kind)
	}
	size := kind.Bits() / 8
	if v.of.n > mostNumbers {
		return kind, 0, fmt.Errorf("a storage of %d numbers", v.of.n)
	}
	n, last := 1, v.first
	for i, d := range v.shape {
		if d < 0 || d > 0 && n > v.of.n/d || v.strides[i] < 0 || d > 1 && v.strides[i] > v.of.n/(d-1) {
			return kind, 0, fmt.Errorf("a shape of %v in %d numbers", v.shape, v.of.n)
		}
		n *= d
		last += max(d-1, 0) * v.strides[i]
	}
	if v.first < 0 || n > v.of.n || n > 0 && (last < v.first || last >= v.of.n) {
		return kind, 0, fmt.Errorf("a shape of %v by strides %v from %d on, in %d numbers", v.shape, v.strides, v.first, v.of.n)
	}
	p := f.parts["data/"+v.of.key]
	if p == nil || p.UncompressedSize64 != uint64(v.of.n*size) {
		return kind, 0, fmt.Errorf("its storage %q is not %d bytes long", v.of.key, v.of.n*size)
	}
	return kind, n, nil
}

// numbers are a view's, row by row.
func (f *File) numbers(v view) (data []byte, err error) {
	kind, n, err := f.place(v)
	if err != nil {
		return nil, err
	}
	size := kind.Bits() / 8
	all, err := f.bytes("data/"+v.of.key, int64(v.of.n*size))
	if err != nil {
		return nil, err
	}
	if v.rowByRow() {
		return all[v.first*size : (v.first+n)*size], nil
	}
	for i := range n {
		at, rest := v.first, i
		for k := len(v.shape) - 1; k >= 0; k-- {
			at, rest = at+rest%v.shape[k]*v.strides[k], rest/v.shape[k]
		}
		data = append(data, all[at*size:(at+1)*size]...)
	}
	return data, nil
}

// rowByRow says whether a tensor's numbers follow one another in their storage.
func (v view) rowByRow() bool {
	each := 1
	for i := len(v.shape) - 1; i >= 0; i-- {
		if v.shape[i] > 1 && v.strides[i] != each {
			return false
		}
		each *= v.shape[i]
	}
	return each > 0
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
