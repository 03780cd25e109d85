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
// column image. They are read when they are asked for.

const embeddedIn = "parquet:"

// A place is where embedded pictures lie.
type place struct {
	file   string // from the folder in which names of pictures begin
	row    int
	column string
}

func (p place) String() string { return fmt.Sprintf("%s%s#%d/%s", embeddedIn, p.file, p.row, p.column) }

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

// picturesOfRow is the meta of a row whose pictures lie in some columns; nil where there are none.
func picturesOfRow(file string, row int, columns []string) Meta {
	var names []string
	for _, c := range columns {
		names = append(names, place{file, row, c}.String())
	}
	if len(names) == 0 {
		return nil
	}
	raw, err := json.Marshal(names)
	if err != nil {
		return nil // names are texts
	}
	return Meta{"picture": raw}
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
		all, err = s.pictures(p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	return all, nil
}

// pictures are those of a row.
func (s *sheet) pictures(p place) (all []*vision.Image, err error) {
	leaves := s.leaves()
	i := slices.IndexFunc(leaves, func(l *parquet.Column) bool {
		return isPicture(l, leaves) && l.Path()[0] == p.column && l.Path()[len(l.Path())-1] == "bytes"
	})
	if i < 0 {
		return nil, fmt.Errorf("there is no column %q of pictures", p.column)
	}
	row := int64(p.row)
	for _, group := range s.RowGroups() {
		if row >= group.NumRows() {
			row -= group.NumRows()
			continue
		}
		pages := group.ColumnChunks()[leaves[i].Index()].Pages()
		if err := pages.SeekToRow(row); err != nil {
			return nil, fmt.Errorf("finding the row: %w", err)
		}
		begun := false
		err := eachValue(pages, func(v parquet.Value) (bool, error) {
			if begun && v.RepetitionLevel() == 0 {
				return false, nil
			}
			begun = true
			if v.IsNull() {
				return true, nil
			}
			m, err := vision.Decode(slices.Clone(v.ByteArray()), vision.Limits{})
			all = append(all, m)
			return true, err
		})
		return all, err
	}
	return nil, fmt.Errorf("there is no row %d", p.row)
}
