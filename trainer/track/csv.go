package track

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// A table has a row an iteration and a column a number, in the order in which they first came. Numbers that an
// iteration does not have are empty. Iterations that a rollback abandoned are left out.

// rows are a table.
type rows struct {
	columns []string
	known   map[string]bool
	all     []row
}

// row is an iteration.
type row struct {
	iteration int
	time      float64
	values    map[string]float64
}

func (t *rows) add(e *Entry) {
	if e.Restart > 0 {
		t.all = slices.DeleteFunc(t.all, func(r row) bool { return r.iteration >= e.Restart })
		return
	}
	r := row{e.Iteration, e.Time, map[string]float64{}}
	for _, s := range e.Scalars {
		if !t.known[s.Name] {
			t.known[s.Name] = true
			t.columns = append(t.columns, s.Name)
		}
		r.values[s.Name] = s.Value
	}
	t.all = append(t.all, r)
}

// table is the file metrics.csv.
type table struct {
	rows
	dir   string
	state state
}

func openCSV(dir string, _ *Run, s state) (Target, error) {
	return &table{rows{known: map[string]bool{}}, dir, s}, os.MkdirAll(dir, 0o755)
}

func (t *table) Append(e *Entry) error {
	t.add(e)
	return nil
}

// Commit writes the table whole: a number that was not there before is a new column.
func (t *table) Commit(m Mark) error {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	columns := slices.DeleteFunc(slices.Clone(t.columns), func(name string) bool { return name == "iteration" })
	if err := w.Write(append([]string{"iteration", "time"}, columns...)); err != nil {
		return err
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, r := range t.all {
		line := []string{strconv.Itoa(r.iteration), strconv.FormatFloat(r.time, 'f', -1, 64)}
		for _, name := range columns {
			cell := ""
			if v, ok := r.values[name]; ok {
				cell = number(v)
			}
			line = append(line, cell)
		}
		if err := w.Write(line); err != nil {
			return err
		}
	}
	w.Flush()
	if err := folder.WriteFile(filepath.Join(t.dir, "metrics.csv"), out.Bytes()); err != nil {
		return err
	}
	t.state.Mark = m
	return t.state.write(t.dir)
}

func (t *table) Finish(string) error { return nil }
func (t *table) Close() error        { return nil }
