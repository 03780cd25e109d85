package safetensors

import (
	"bytes"
	"os"
)

// Bytes is what Write writes.
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
	all := append(make([]byte, 0, size), header...)
	for _, t := range order {
		data, err := t.made()
		if err != nil {
			return nil, err
		}
		all = append(all, data...)
	}
	return all, nil
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
