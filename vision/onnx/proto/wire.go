package proto

import (
	"errors"
	"fmt"
	"math"
)

// Wire types of protocol buffers.
const (
	varint  = 0
	fixed64 = 1
	bytes   = 2
	fixed32 = 5
)

var errCut = errors.New("the file ends within a field")

// A field is one number, or one run of bytes, of a message.
type field struct {
	number int
	wire   int
	value  uint64 // of varint, fixed64 and fixed32
	data   []byte // of bytes: a view
}

// fields calls f for every field of a message, in its order.
func fields(data []byte, f func(field) error) error {
	for len(data) > 0 {
		tag, rest, err := uvarint(data)
		if err != nil {
			return err
		}
		x := field{number: int(tag >> 3), wire: int(tag & 7)}
		if tag>>3 == 0 || tag>>3 > 1<<29-1 {
			return fmt.Errorf("a field of number %d: protocol buffers number them from 1", tag>>3)
		}
		switch x.wire {
		case varint:
			x.value, rest, err = uvarint(rest)
		case fixed64:
			x.value, rest, err = fixed(rest, 8)
		case fixed32:
			x.value, rest, err = fixed(rest, 4)
		case bytes:
			var n uint64
			if n, rest, err = uvarint(rest); err == nil && n > uint64(len(rest)) {
				err = errCut
			}
			if err == nil {
				x.data, rest = rest[:n:n], rest[n:]
			}
		default:
			err = fmt.Errorf("field %d has wire type %d: known are 0, 1, 2 and 5", x.number, x.wire)
		}
		if err != nil {
			return err
		}
		if err := f(x); err != nil {
			return err
		}
		data = rest
	}
	return nil
}

func uvarint(data []byte) (value uint64, rest []byte, err error) {
	for i := 0; i < len(data) && i < 10; i++ {
		value |= uint64(data[i]&0x7f) << (7 * i)
		if data[i] < 0x80 {
			return value, data[i+1:], nil
		}
	}
	return 0, nil, errCut
}

func fixed(data []byte, n int) (value uint64, rest []byte, err error) {
	if len(data) < n {
		return 0, nil, errCut
	}
	for i := range n {
		value |= uint64(data[i]) << (8 * i)
	}
	return value, data[n:], nil
}

// integers appends the numbers of a repeated integer field, packed or not.
func (x field) integers(to []int64) ([]int64, error) {
	if x.wire != bytes {
		return append(to, int64(x.value)), nil
	}
	for data := x.data; len(data) > 0; {
		v, rest, err := uvarint(data)
		if err != nil {
			return nil, err
		}
		to, data = append(to, int64(v)), rest
	}
	return to, nil
}

// floats appends the numbers of a repeated float field, packed or not.
func (x field) floats(to []float32) ([]float32, error) {
	if x.wire == fixed32 {
		return append(to, math.Float32frombits(uint32(x.value))), nil
	}
	for data := x.data; len(data) > 0; {
		v, rest, err := fixed(data, 4)
		if err != nil {
			return nil, err
		}
		to, data = append(to, math.Float32frombits(uint32(v))), rest
	}
	return to, nil
}

// doubles is floats of float64.
func (x field) doubles(to []float64) ([]float64, error) {
	if x.wire == fixed64 {
		return append(to, math.Float64frombits(x.value)), nil
	}
	for data := x.data; len(data) > 0; {
		v, rest, err := fixed(data, 8)
		if err != nil {
			return nil, err
		}
		to, data = append(to, math.Float64frombits(v)), rest
	}
	return to, nil
}
