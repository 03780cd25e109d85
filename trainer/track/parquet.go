package track

import (
	"encoding/binary"
	"math"
)

// A Parquet file of one row group (format version 1; parquet.thrift): iteration is an int64, all else are doubles, and
// what is missing is null. Each column is one page, plain and not compressed:
//
//	PAR1 | pages | footer | its length, uint32 | PAR1
//
// It was written before trainer/prompts read Parquet by parquet-go, whose writer could take its place.

// Numbers of parquet.thrift's enumerations.
const (
	parquetInt64    = 2
	parquetDouble   = 5
	parquetRequired = 0
	parquetOptional = 1
	parquetPlain    = 0
	parquetRLE      = 3
)

// openParquet opens the file metrics.parquet.
func openParquet(dir string, _ *Run, s state) (Target, error) {
	return openTable(dir, "metrics.parquet", s, func(columns []string, rows []row) ([]byte, error) { return encodeParquet(columns, rows), nil })
}

// chunk is a column with where its page lies.
type chunk struct {
	name     string
	kind     int
	optional int
	at, size int
}

func encodeParquet(columns []string, rows []row) []byte {
	out := []byte("PAR1")
	chunks := []chunk{{name: "iteration", kind: parquetInt64}, {name: "time", kind: parquetDouble}}
	for _, name := range columns {
		chunks = append(chunks, chunk{name: name, kind: parquetDouble, optional: parquetOptional})
	}
	for i := range chunks {
		c := &chunks[i]
		c.at = len(out)
		out = append(out, c.page(rows)...)
		c.size = len(out) - c.at
	}
	footer := whole(func(m *thrift) { footerOf(m, chunks, len(rows)) })
	out = append(out, footer...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(footer)))
	return append(out, "PAR1"...)
}

// page is a column's values with their header.
func (c *chunk) page(rows []row) []byte {
	data := []byte{}
	if c.optional == parquetOptional {
		levels := levelsOf(rows, c.name)
		data = append(binary.LittleEndian.AppendUint32(data, uint32(len(levels))), levels...)
	}
	for _, r := range rows {
		switch v, there := r.values[c.name]; {
		case c.kind == parquetInt64:
			data = binary.LittleEndian.AppendUint64(data, uint64(r.iteration))
		case c.optional == parquetRequired:
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(r.time))
		case there:
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
		}
	}
	header := whole(func(h *thrift) {
		h.i32(1, 0) // a data page
		h.i32(2, len(data))
		h.i32(3, len(data))
		h.within(5, func(of *thrift) {
			of.i32(1, len(rows))
			of.i32(2, parquetPlain)
			of.i32(3, parquetRLE)
			of.i32(4, parquetRLE)
		})
	})
	return append(header, data...)
}

// levelsOf says of each row whether it has a value, 1, or none, 0: runs, each with its length and its level.
func levelsOf(rows []row, name string) []byte {
	var out []byte
	for i := 0; i < len(rows); {
		_, there := rows[i].values[name]
		n := 1
		for ; i+n < len(rows); n++ {
			if _, same := rows[i+n].values[name]; same != there {
				break
			}
		}
		level := byte(0)
		if there {
			level = 1
		}
		out = append(binary.AppendUvarint(out, uint64(n)<<1), level)
		i += n
	}
	return out
}

// footerOf is the FileMetaData.
func footerOf(m *thrift, chunks []chunk, rows int) {
	m.i32(1, 1)
	m.list(2, thriftStruct, len(chunks)+1, func(i int) []byte {
		return whole(func(e *thrift) {
			if i == 0 {
				e.text(4, "iterations")
				e.i32(5, len(chunks))
				return
			}
			c := chunks[i-1]
			e.i32(1, c.kind)
			e.i32(3, c.optional)
			e.text(4, c.name)
		})
	})
	m.i64(3, rows)
	m.list(4, thriftStruct, 1, func(int) []byte {
		return whole(func(group *thrift) {
			size := 0
			group.list(1, thriftStruct, len(chunks), func(i int) []byte {
				size += chunks[i].size
				return whole(func(of *thrift) { chunks[i].meta(of, rows) })
			})
			group.i64(2, size)
			group.i64(3, rows)
		})
	})
	m.text(6, "darkroom")
}

// meta is a ColumnChunk.
func (c *chunk) meta(of *thrift, rows int) {
	of.i64(2, c.at)
	of.within(3, func(m *thrift) {
		m.i32(1, c.kind)
		encodings := []int64{parquetPlain, parquetRLE}
		m.list(2, thriftI32, len(encodings), func(i int) []byte { return binary.AppendVarint(nil, encodings[i]) })
		m.list(3, thriftText, 1, func(int) []byte { return appendText(nil, c.name) })
		m.i32(4, 0) // not compressed
		m.i64(5, rows)
		m.i64(6, c.size)
		m.i64(7, c.size)
		m.i64(9, c.at)
	})
}
