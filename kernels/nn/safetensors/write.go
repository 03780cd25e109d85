package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"unicode/utf8"
)

// Write writes a file at once or not at all: aside in the same folder, synced,
// renamed. metadata may be nil. The bytes are those of the reference library:
// tensors sorted by alignment, then by name, the header padded to 8 bytes; it
// does not sort metadata, which is sorted here.
func Write(path string, tensors []Tensor, metadata map[string]string) error {
	seen := map[string]bool{}
	for _, t := range tensors {
		if err := t.check(seen); err != nil {
			return in(path, err)
		}
	}
	header, order, err := encode(tensors, metadata)
	if err != nil {
		return in(path, err)
	}
	return writeAtomic(path, func(w io.Writer) error {
		if _, err := w.Write(header); err != nil {
			return err
		}
		for _, t := range order {
			data, err := t.made()
			if err != nil {
				return in(path, err)
			}
			if _, err := w.Write(data); err != nil {
				return err
			}
		}
		return nil
	})
}

// Put writes bytes of a shard's i-th tensor at a place of its data. Several may be written side by side.
type Put func(i int, at int64, data []byte) error

// writeMade is Write of tensors whose data fill writes.
func writeMade(path string, tensors []Tensor, metadata map[string]string, fill func(put Put) error) error {
	header, order, err := encode(tensors, metadata)
	if err != nil {
		return in(path, err)
	}
	begin, at := make(map[string]int64, len(order)), int64(len(header))
	for _, t := range order {
		begin[t.Name] = at
		bytes, _ := sizeOf(t.DType, t.Shape) // encode asked before
		at += bytes
	}
	return writeAtomicFile(path, func(f *os.File) error {
		if _, err := f.Write(header); err != nil {
			return err
		}
		if err := f.Truncate(at); err != nil {
			return err
		}
		return fill(func(i int, at int64, data []byte) error {
			_, err := f.WriteAt(data, begin[tensors[i].Name]+at)
			return err
		})
	})
}

// encode returns everything before the data, and the data's order.
func encode(tensors []Tensor, metadata map[string]string) ([]byte, []Tensor, error) {
	order := slices.Clone(tensors)
	slices.SortFunc(order, func(a, b Tensor) int {
		return cmp.Or(-cmp.Compare(a.DType, b.DType), cmp.Compare(a.Name, b.Name))
	})
	var text bytes.Buffer
	text.Write(make([]byte, 8)) // the length, set last
	sep := "{"
	if len(metadata) > 0 {
		m, err := compact(metadata) // keys sorted by encoding/json
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&text, `{"__metadata__":%s`, m)
		sep = ","
	}
	seen := map[string]bool{}
	offset := int64(0)
	for _, t := range order {
		bytes, err := t.checkHeader(seen)
		if err != nil {
			return nil, nil, err
		}
		if offset > math.MaxInt64-bytes {
			return nil, nil, tensorProblem(t.Name, "write shards", "more data than a file can hold")
		}
		name, err := compact(t.Name)
		if err != nil {
			return nil, nil, err
		}
		dims := t.Shape
		if dims == nil {
			dims = []int{} // a scalar's shape is [], not null
		}
		shape, err := compact(dims)
		if err != nil {
			return nil, nil, err
		}
		end := offset + bytes
		fmt.Fprintf(&text, `%s%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, sep, name, t.DType, shape, offset, end)
		sep, offset = ",", end
	}
	if sep == "{" {
		text.WriteString(sep)
	}
	text.WriteByte('}')
	for text.Len()%8 != 0 {
		text.WriteByte(' ')
	}
	n := text.Len() - 8
	if n > maxHeader {
		return nil, nil, problem("write fewer tensors into a file", "a header of %d bytes; the most allowed is %d", n, maxHeader)
	}
	binary.LittleEndian.PutUint64(text.Bytes(), uint64(n))
	return text.Bytes(), order, nil
}

const wrong = "this is a mistake in the program that writes"

// check refuses what no reader would accept.
func (t Tensor) check(seen map[string]bool) error {
	want, err := t.checkHeader(seen)
	if err == nil && t.Make == nil {
		err = t.holds(t.Data, want)
	}
	return err
}

// holds reports data of another length than a tensor has.
func (t Tensor) holds(data []byte, want int64) error {
	if int64(len(data)) != want {
		return tensorProblem(t.Name, wrong, "%d bytes of data, but %s %v needs %d", len(data), t.DType, t.Shape, want)
	}
	return nil
}

// Made is the tensor with its data, which is made now where it is not there.
func (t Tensor) Made() (Tensor, error) {
	data, err := t.made()
	t.Data, t.Make = data, nil
	return t, err
}

// made is the data, which is made now where it is not there.
func (t Tensor) made() ([]byte, error) {
	if t.Make == nil {
		return t.Data, nil
	}
	want, err := sizeOf(t.DType, t.Shape)
	if err != nil {
		return nil, err
	}
	data := t.Make()
	return data, t.holds(data, want)
}

// checkHeader is check of what a header says, and how many bytes the data has.
func (t Tensor) checkHeader(seen map[string]bool) (bytes int64, err error) {
	const hint = wrong
	if int(t.DType) >= len(dtypes) {
		return 0, tensorProblem(t.Name, hint, "no such dtype: %d", t.DType)
	}
	bytes, err = sizeOf(t.DType, t.Shape)
	switch {
	case err != nil:
		return 0, tensorProblem(t.Name, hint, "%v", err)
	case len(t.Shape) > maxRank:
		return 0, tensorProblem(t.Name, hint, "%d dimensions; the most allowed is %d", len(t.Shape), maxRank)
	case t.Name == "__metadata__" || !utf8.ValidString(t.Name):
		return 0, tensorProblem(t.Name, hint, "not a name that a tensor can have")
	case seen[t.Name]:
		return 0, tensorProblem(t.Name, hint, "given twice")
	}
	seen[t.Name] = true
	return bytes, nil
}

// compact is JSON as the reference library writes it: '<' and '&' as they are.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
