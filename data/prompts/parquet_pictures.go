package prompts

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/darkroom-rl/darkroom/vision"
)

// Pictures that lie in a Parquet file: "parquet:train-00000.parquet#12/image" are those of row 12, counted from 0, in
// column image, and "parquet:train-00000.parquet#12/image/1" the second of them. They are read when they are asked for.
// A picture without bytes is the file that its path names.

const embeddedIn = "parquet:"

// A place is where embedded pictures lie.
type place struct {
	file   string // from the folder in which names of pictures begin
	row    int
	column string
	one    int // of several in the row, from 1; 0: all
}

func (p place) String() string {
	name := fmt.Sprintf("%s%s#%d/%s", embeddedIn, p.file, p.row, p.column)
	if p.one > 0 {
		name += fmt.Sprintf("/%d", p.one-1)
	}
	return name
}

// placeOf reads a place; ok says whether the name is one.
func placeOf(name string) (p place, ok bool, err error) {
	rest, ok := strings.CutPrefix(name, embeddedIn)
	if !ok {
		return p, false, nil
	}
	i := strings.LastIndexByte(rest, '#')
	row, column, whole := strings.Cut(rest[i+1:], "/")
	if p.row, err = strconv.Atoi(row); i < 1 || !whole || err != nil || p.row < 0 {
		return p, true, fmt.Errorf("picture %q: embedded pictures are named parquet:FILE#ROW/COLUMN", name)
	}
	p.file, p.column = rest[:i], column
	if column, number, several := strings.Cut(column, "/"); several {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return p, true, fmt.Errorf("picture %q: a row's pictures are numbered from 0", name)
		}
		p.column, p.one = column, n+1
	}
	return p, true, nil
}

// isPicture reports whether a column is a part of pictures: bytes or path, beside the other.
func isPicture(leaf *parquet.Column, leaves []*parquet.Column) bool {
	path := leaf.Path()
	if len(path) < 2 || !slices.Contains([]string{"bytes", "path"}, path[len(path)-1]) {
		return false
	}
	for _, part := range []string{"bytes", "path"} {
		other := append(slices.Clone(path[:len(path)-1]), part)
		if !slices.ContainsFunc(leaves, func(l *parquet.Column) bool { return slices.Equal(l.Path(), other) }) {
			return false
		}
	}
	return true
}

// pictureColumns are the names of the columns with pictures, image first.
func pictureColumns(leaves []*parquet.Column) (names []string) {
	for _, leaf := range leaves {
		if path := leaf.Path(); isPicture(leaf, leaves) && path[len(path)-1] == "bytes" {
			names = append(names, path[0])
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return map[bool]int{true: 0, false: 1}[a == "image"] - map[bool]int{true: 0, false: 1}[b == "image"]
	})
	return names
}

// picturesOfRow returns the meta of a row with columns of pictures; empty without any.
func picturesOfRow(file string, row int, columns []string) map[string]json.RawMessage {
	meta := map[string]json.RawMessage{}
	var names []string
	for _, c := range columns {
		names = append(names, place{file, row, c, 0}.String())
	}
	if raw, err := json.Marshal(names); err == nil && len(names) > 0 { // names are texts
		meta["picture"] = raw
	}
	return meta
}

// openEmbedded opens the pictures of a place below a folder.
func openEmbedded(dir string, p place) (all []*vision.Image, err error) {
	if !filepath.IsLocal(filepath.FromSlash(p.file)) {
		return nil, outside(p.file)
	}
	path, err := below(dir, p.file)
	if err != nil {
		return nil, err
	}
	err = withSheet(path, func(s *sheet) error {
		all, err = s.pictures(dir, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	return all, nil
}

// pictures are those of a row.
func (s *sheet) pictures(dir string, p place) (all []*vision.Image, err error) {
	data, err := s.ofRow(p, "bytes")
	if err != nil {
		return nil, err
	}
	if p.one > len(data) {
		return nil, fmt.Errorf("the row has %d pictures", len(data))
	}
	var paths [][]byte
	for i, d := range data {
		if p.one > 0 && i != p.one-1 {
			continue
		}
		if d == nil && paths == nil {
			if paths, err = s.ofRow(p, "path"); err != nil {
				return nil, err
			}
		}
		m, err := opened(dir, d, paths, i)
		if err != nil {
			return nil, err
		}
		if m != nil {
			all = append(all, m)
		}
	}
	return all, nil
}

// opened is a picture of its bytes, or of the file that its path names; nil where it has neither.
func opened(dir string, data []byte, paths [][]byte, i int) (*vision.Image, error) {
	switch {
	case data != nil:
		return vision.Decode(data, vision.Limits{})
	case i < len(paths) && paths[i] != nil:
		return picture(dir, string(paths[i]))
	}
	return nil, nil
}

// ofRow returns one part of a row's pictures, one value per picture; nil: nothing.
func (s *sheet) ofRow(p place, part string) (all [][]byte, err error) {
	leaves := s.leaves()
	i := slices.IndexFunc(leaves, func(l *parquet.Column) bool {
		return isPicture(l, leaves) && l.Path()[0] == p.column && l.Path()[len(l.Path())-1] == part
	})
	if i < 0 {
		return nil, fmt.Errorf("there is no column %q of pictures", p.column)
	}
	row := int64(p.row)
	for g, group := range s.RowGroups() {
		if row >= group.NumRows() {
			row -= group.NumRows()
			continue
		}
		pages, err := s.pages(g, leaves[i])
		if err != nil {
			return nil, err
		}
		rows, err := valuesOf(pages, int(row), 1)
		if err != nil {
			return nil, err
		}
		for _, v := range rows[0] {
			if all = append(all, nil); !v.IsNull() && v.Kind() == parquet.ByteArray {
				all[len(all)-1] = slices.Clone(v.ByteArray())
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("there is no row %d", p.row)
}
