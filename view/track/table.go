package track

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/parquet-go/parquet-go"
)

// A table has a row an iteration and a column a number, in the order in which they first came. Numbers that an
// iteration does not have are empty. Iterations that a rollback abandoned are left out.

// table is a file of rows. It is written whole: a number that was not there before is a new column.
type table struct {
	dir, file string
	encode    func(columns []string, rows []row) ([]byte, error)
	state     state
	columns   []string
	known     map[string]bool
	rows      []row
}

// row is an iteration.
type row struct {
	iteration int
	time      float64
	values    map[string]float64
}

func openTable(dir, file string, s state, encode func(columns []string, rows []row) ([]byte, error)) (Target, error) {
	return &table{dir: dir, file: file, encode: encode, state: s, known: map[string]bool{"iteration": true, "time": true}}, os.MkdirAll(dir, 0o755)
}

func (t *table) Append(e *Entry) error {
	if e.Restart > 0 {
		t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return r.iteration >= e.Restart })
		return nil
	}
	r := row{e.Iteration, e.Time, map[string]float64{}}
	for _, s := range e.Scalars {
		if !t.known[s.Name] {
			t.known[s.Name] = true
			t.columns = append(t.columns, s.Name)
		}
		r.values[s.Name] = s.Value
	}
	t.rows = append(t.rows, r)
	return nil
}

func (t *table) Commit(m Mark) error {
	text, err := t.encode(t.columns, t.rows)
	if err != nil {
		return err
	}
	if err := folder.WriteFile(filepath.Join(t.dir, t.file), text); err != nil {
		return err
	}
	t.state.Mark = m
	return t.state.write(t.dir)
}

func (t *table) Finish(string) error { return nil }
func (t *table) Close() error        { return nil }

// openCSV opens the file metrics.csv. A missing value is an empty cell.
func openCSV(dir string, _ *Run, s state) (Target, error) {
	return openTable(dir, "metrics.csv", s, encodeCSV)
}

func encodeCSV(columns []string, rows []row) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if err := w.Write(append([]string{"iteration", "time"}, columns...)); err != nil {
		return nil, err
	}
	for _, r := range rows {
		line := []string{strconv.Itoa(r.iteration), strconv.FormatFloat(r.time, 'f', -1, 64)}
		for _, name := range columns {
			cell := ""
			if v, ok := r.values[name]; ok {
				cell = strconv.FormatFloat(v, 'g', -1, 64)
			}
			line = append(line, cell)
		}
		if err := w.Write(line); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return out.Bytes(), w.Error()
}

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
