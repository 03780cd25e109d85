package track

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/record/folder"
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
