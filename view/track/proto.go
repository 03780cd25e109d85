package track

import (
	"encoding/binary"
	"math"
)

// message is a protocol buffer under way: fields by their numbers, in the order in which they are added.
type message []byte

func (m *message) tag(field int, wire uint64) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|wire)
}

func (m *message) int(field int, v int64) {
	m.tag(field, 0)
	*m = binary.AppendUvarint(*m, uint64(v))
}

func (m *message) double(field int, v float64) {
	m.tag(field, 1)
	*m = binary.LittleEndian.AppendUint64(*m, math.Float64bits(v))
}

func (m *message) float(field int, v float32) {
	m.tag(field, 5)
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(v))
}

func (m *message) bytes(field int, v []byte) {
	m.tag(field, 2)
	*m = binary.AppendUvarint(*m, uint64(len(v)))
	*m = append(*m, v...)
}

func (m *message) text(field int, v string) { m.bytes(field, []byte(v)) }

// within adds a message that fill makes.
func (m *message) within(field int, fill func(in *message)) {
	var in message
	fill(&in)
	m.bytes(field, in)
}
