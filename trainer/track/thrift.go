package track

import "encoding/binary"

// thrift is a struct under way in Thrift's compact protocol: fields by their numbers, in ascending order.
type thrift struct {
	data []byte
	last int
}

// Kinds of the protocol that Parquet's footer needs.
const (
	thriftI32    = 5
	thriftI64    = 6
	thriftText   = 8
	thriftList   = 9
	thriftStruct = 12
)

func (t *thrift) field(number int, kind byte) {
	t.data = append(t.data, byte(number-t.last)<<4|kind) // no two numbers here are 16 apart
	t.last = number
}

// number adds an integer; the protocol writes it as zigzag.
func (t *thrift) number(field int, kind byte, v int64) {
	t.field(field, kind)
	t.data = binary.AppendVarint(t.data, v)
}

func (t *thrift) i32(field, v int) { t.number(field, thriftI32, int64(v)) }
func (t *thrift) i64(field, v int) { t.number(field, thriftI64, int64(v)) }

func (t *thrift) text(field int, v string) {
	t.field(field, thriftText)
	t.data = appendText(t.data, v)
}

func appendText(data []byte, v string) []byte {
	return append(binary.AppendUvarint(data, uint64(len(v))), v...)
}

// within adds a struct that fill makes.
func (t *thrift) within(field int, fill func(in *thrift)) {
	t.field(field, thriftStruct)
	t.data = append(t.data, whole(fill)...)
}

// whole is a struct with its end.
func whole(fill func(*thrift)) []byte {
	var in thrift
	fill(&in)
	return append(in.data, 0)
}

// list adds a list of n elements of a kind.
func (t *thrift) list(field int, kind byte, n int, element func(i int) []byte) {
	t.field(field, thriftList)
	if n < 15 {
		t.data = append(t.data, byte(n)<<4|kind)
	} else {
		t.data = binary.AppendUvarint(append(t.data, 0xf0|kind), uint64(n))
	}
	for i := range n {
		t.data = append(t.data, element(i)...)
	}
}
