package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"
)

// Write writes a file at once or not at all: aside in the same folder, synced,
// renamed. metadata may be nil. The bytes are those of the reference library:
// tensors sorted by alignment, then by name, the header padded to 8 bytes; it
// does not sort metadata, which is sorted here.
func Write(path string, tensors []Tensor, metadata map[string]string) error {
	header, order, err := encode(tensors, metadata)
	if err != nil {
		return in(path, err)
	}
	return writeAtomic(path, func(w io.Writer) error {
		if _, err := w.Write(header); err != nil {
			return err
		}
		for _, t := range order {
			if _, err := w.Write(t.Data); err != nil {
				return err
			}
		}
		return nil
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
		if err := t.check(seen); err != nil {
			return nil, nil, err
		}
		if offset > math.MaxInt64-int64(len(t.Data)) {
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
		end := offset + int64(len(t.Data))
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

// check refuses what no reader would accept.
func (t Tensor) check(seen map[string]bool) error {
	const hint = "this is a mistake in the program that writes"
	if int(t.DType) >= len(dtypes) {
		return tensorProblem(t.Name, hint, "no such dtype: %d", t.DType)
	}
	want, err := sizeOf(t.DType, t.Shape)
	switch {
	case err != nil:
		return tensorProblem(t.Name, hint, "%v", err)
	case int64(len(t.Data)) != want:
		return tensorProblem(t.Name, hint, "%d bytes of data, but %s %v needs %d", len(t.Data), t.DType, t.Shape, want)
	case len(t.Shape) > maxRank:
		return tensorProblem(t.Name, hint, "%d dimensions; the most allowed is %d", len(t.Shape), maxRank)
	case t.Name == "__metadata__" || !utf8.ValidString(t.Name):
		return tensorProblem(t.Name, hint, "not a name that a tensor can have")
	case seen[t.Name]:
		return tensorProblem(t.Name, hint, "given twice")
	}
	seen[t.Name] = true
	return nil
}

// compact is JSON as the reference library writes it: '<' and '&' as they are.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
