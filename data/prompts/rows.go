package prompts

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// A Table is the rows of a Parquet file, or of a data set's split, read by their number: only requested columns are in
// memory. A row is an object of all columns in their order. A value is nil, a bool, a pytext.Number, a string, []byte,
// a list or an object: null and [] differ, times and decimals are texts, as Python writes them.
//
// Invariant (parity, data.parquet): the rows are pyarrow's, whatever the file's encodings.
type Table struct {
	files []*tableFile
}

// tableFile is one of a table's files.
type tableFile struct {
	*sheet
	path, shown string
	whole       []*parquet.Column // below the root
	meanings    []any             // of its leaves
}

// OpenTable opens FILE.parquet, or FOLDER or FOLDER@SPLIT of a data set.
func OpenTable(name string) (t *Table, err error) {
	s := sourceOf(name)
	names, dir := []string{filepath.Base(s.path)}, filepath.Dir(s.path)
	if !isParquet(s.path) {
		if names, err = s.files(); err != nil {
			return nil, err
		}
		dir = s.path
	}
	t = &Table{}
	for _, n := range names {
		f, err := openTableFile(filepath.Join(dir, filepath.FromSlash(n)))
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		if f.shown = n; !isParquet(s.path) {
			f.shown = filepath.ToSlash(filepath.Join(filepath.Base(s.path), n))
		}
		t.files = append(t.files, f)
	}
	return t, nil
}

func openTableFile(path string) (t *tableFile, err error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, errors.Join(err, file.Close()))
		}
	}()
	t = &tableFile{path: path}
	return t, unbroken(func() error {
		s, err := openSheet(file)
		if err != nil {
			return err
		}
		t.sheet, t.whole, t.meanings = s, s.Root().Columns(), meanings(s.File)
		return nil
	})
}

// unbroken calls f; a file that is broken is an error, whatever the reader makes of it.
func unbroken(f func() error) (err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("the file is broken: %v", broken)
		}
	}()
	return f()
}

// Close closes the files.
func (t *Table) Close() error {
	var errs []error
	for _, f := range t.files {
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}

// Rows is how many there are.
func (t *Table) Rows() (n int) {
	for _, f := range t.files {
		n += int(f.NumRows())
	}
	return n
}

// Each reads all rows in their order. Columns of pictures are read where pictures says so; otherwise a picture has
// its path alone.
func (t *Table) Each(pictures bool, f func(place Place, row pytext.Ordered) error) error {
	for _, file := range t.files {
		if err := unbroken(func() error { return file.each(pictures, f) }); err != nil {
			return fmt.Errorf("%s:%w", file.path, err)
		}
	}
	return nil
}

// Row reads one of them.
func (t *Table) Row(i int, pictures bool) (place Place, row pytext.Ordered, err error) {
	for _, file := range t.files {
		if n := int(file.NumRows()); i >= n {
			i -= n
			continue
		}
		err := unbroken(func() error {
			row, err = file.row(i, pictures)
			return err
		})
		if err != nil {
			err = fmt.Errorf("%s:%d: %w", file.path, i+1, err)
		}
		return Place{file.shown, i}, row, err
	}
	return place, row, errors.New("there is no such row")
}

// A Place is a row's position: a file, from the folder in which names of pictures begin, and the number in it, from 0.
type Place struct {
	File string
	Row  int
}

// batch is how many rows are read together.
const batch = 64

func (t *tableFile) each(pictures bool, f func(place Place, row pytext.Ordered) error) error {
	first := 0
	for g, group := range t.RowGroups() {
		for from := 0; from < int(group.NumRows()); from += batch {
			n := min(batch, int(group.NumRows())-from)
			rows, err := t.read(g, from, n, pictures)
			if err != nil {
				return fmt.Errorf("%d: %w", first+from+1, err)
			}
			for i, row := range rows {
				if err := f(Place{t.shown, first + from + i}, row); err != nil {
					return fmt.Errorf("%d: %w", first+from+i+1, err)
				}
			}
		}
		first += int(group.NumRows())
	}
	return nil
}

func (t *tableFile) row(i int, pictures bool) (row pytext.Ordered, err error) {
	for g, group := range t.RowGroups() {
		if n := int(group.NumRows()); i >= n {
			i -= n
			continue
		}
		rows, err := t.read(g, i, 1, pictures)
		if err != nil {
			return row, err
		}
		return rows[0], nil
	}
	return row, errors.New("there is no such row")
}

// read reads n rows of a group.
func (t *tableFile) read(group, from, n int, pictures bool) ([]pytext.Ordered, error) {
	rows := make([]pytext.Ordered, n)
	for i := range rows {
		rows[i].Values = pytext.Object{}
	}
	all := t.leaves()
	for _, c := range t.whole {
		var values [][][]parquet.Value // of each leaf, of each row
		var leaves []*parquet.Column
		for _, leaf := range leavesOf(c) {
			if !pictures && isPicture(leaf, all) && leaf.Name() == "bytes" {
				continue
			}
			pages, err := t.pages(group, leaf)
			if err != nil {
				return nil, fmt.Errorf("column %q: %w", nameOf(leaf), err)
			}
			v, err := valuesOf(pages, from, n)
			if err != nil {
				return nil, fmt.Errorf("column %q: %w", nameOf(leaf), err)
			}
			leaves, values = append(leaves, leaf), append(values, v)
		}
		for i := range rows {
			v, err := assembly{t.meanings, leaves}.of(c, column(values, i))
			if err != nil {
				return nil, fmt.Errorf("column %q: %w", c.Name(), err)
			}
			rows[i].Keys, rows[i].Values[c.Name()] = append(rows[i].Keys, c.Name()), v
		}
	}
	return rows, nil
}

// column holds each leaf's values of a row.
func column(values [][][]parquet.Value, row int) (all [][]parquet.Value) {
	for _, v := range values {
		all = append(all, v[row])
	}
	return all
}

// valuesOf are a leaf's values of n rows, copied.
func valuesOf(pages parquet.Pages, from, n int) ([][]parquet.Value, error) {
	rows := make([][]parquet.Value, 0, n)
	if err := pages.SeekToRow(int64(from)); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("finding the row: %w", err), pages.Close())
	}
	err := eachValue(pages, func(v parquet.Value) (bool, error) {
		if v.RepetitionLevel() == 0 {
			if len(rows) == n {
				return false, nil
			}
			rows = append(rows, nil)
		}
		if len(rows) == 0 {
			return false, errors.New("its values begin in the middle of a row")
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], v.Clone())
		return true, nil
	})
	if err == nil && len(rows) < n {
		err = errors.New("it has fewer rows than the file says")
	}
	return rows, err
}

// leavesOf are the columns below one that have values.
func leavesOf(c *parquet.Column) (all []*parquet.Column) {
	if c.Leaf() {
		return []*parquet.Column{c}
	}
	for _, inner := range c.Columns() {
		all = append(all, leavesOf(inner)...)
	}
	return all
}

func isParquet(path string) bool { return filepath.Ext(path) == ".parquet" }

// Stamp changes when one of the files does, as far as its size and its time tell.
func (t *Table) Stamp() string {
	var b strings.Builder
	for _, f := range t.files {
		fmt.Fprintf(&b, "%s %d", f.path, f.NumRows())
		if info, err := f.file.Stat(); err == nil {
			fmt.Fprintf(&b, " %d %d", info.Size(), info.ModTime().UnixNano())
		}
		b.WriteByte('\n')
	}
	return b.String()
}
