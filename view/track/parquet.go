package track

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// A Parquet file of one row group: iteration is an int64, all else are doubles, and a missing value is null. Columns
// are plain and not compressed, which every reader knows.

// openParquet opens the file metrics.parquet.
func openParquet(dir string, _ *Run, s state) (Target, error) {
	return openTable(dir, "metrics.parquet", s, encodeParquet)
}

func encodeParquet(columns []string, rows []row) ([]byte, error) {
	double := parquet.Encoded(parquet.Leaf(parquet.DoubleType), &parquet.Plain)
	table := group{columns: []column{{parquet.Encoded(parquet.Leaf(parquet.Int64Type), &parquet.Plain), "iteration"}, {double, "time"}}}
	for _, name := range columns {
		table.columns = append(table.columns, column{parquet.Optional(double), name})
	}
	var all []parquet.Row
	for _, r := range rows {
		all = append(all, r.cells(columns))
	}
	var out bytes.Buffer
	w := parquet.NewWriter(&out, parquet.NewSchema("iterations", table), parquet.CreatedBy("darkroom", "", ""), parquet.DataPageVersion(1))
	_, err := w.WriteRows(all)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("writing %d iterations as Parquet: %w", len(rows), err)
	}
	return out.Bytes(), nil
}

// cells are a row's values in the columns' order, each with the place of its column.
func (r row) cells(columns []string) parquet.Row {
	all := parquet.Row{parquet.Int64Value(int64(r.iteration)).Level(0, 0, 0), parquet.DoubleValue(r.time).Level(0, 0, 1)}
	for _, name := range columns {
		v, there := r.values[name]
		if there {
			all = append(all, parquet.DoubleValue(v).Level(0, 1, len(all)))
		} else {
			all = append(all, parquet.NullValue().Level(0, 0, len(all)))
		}
	}
	return all
}

// A group is a table whose columns stay in order: those of parquet.Group are sorted by name.
type group struct {
	parquet.Group
	columns []column
}

// A column is a node with its name.
type column struct {
	parquet.Node
	name string
}

func (c column) Name() string { return c.name }

// Value is for rows that are Go structs, which these are not.
func (c column) Value(reflect.Value) reflect.Value { return reflect.Value{} }

func (g group) Fields() []parquet.Field {
	all := make([]parquet.Field, len(g.columns))
	for i, c := range g.columns {
		all[i] = c
	}
	return all
}
