package prompts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// A Parquet file is a table whose columns lie one after another, so that texts are read without the pictures beside
// them. A column of pictures, as the hub's data sets have them (a group of bytes and path), becomes meta.picture: the
// names of pictures that are read on demand (parquet_pictures.go). Every other column becomes a key of
// meta, a group's with dots in its name; null values are left out.

// textColumns are where prompts are looked for, where no column is named.
var textColumns = []string{"prompt", "caption", "text"}

// A sheet is an open Parquet file.
type sheet struct {
	*parquet.File
	file *os.File
	left int64 // bytes of texts that may still be read

	checked map[[2]int]bool // row groups and columns whose pages' headers were held against the file
}

// withSheet opens a file and calls f. A file that is broken is an error, whatever the reader makes of it.
func withSheet(path string, f func(s *sheet) error) (err error) {
	file, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("the file is broken: %v", broken)
		}
		err = errors.Join(err, file.Close())
	}()
	s, err := openSheet(file)
	if err != nil {
		return err
	}
	return f(s)
}

// parquetPrompts are the rows of a file. shown is the file's name from the folder in which names of pictures begin.
func parquetPrompts(path, shown, column string) (list []Prompt, err error) {
	if column == "" || column == messagesColumn {
		if list, ok, err := messagesPrompts(path, shown); ok || err != nil {
			return list, err
		}
	}
	err = withSheet(path, func(s *sheet) error {
		list, err = s.prompts(shown, column)
		return err
	})
	return list, err
}

// prompts reads every column but those of pictures.
func (s *sheet) prompts(shown, column string) ([]Prompt, error) {
	leaves := s.leaves()
	text, err := textColumn(leaves, column)
	if err != nil {
		return nil, err
	}
	var list []Prompt
	pictured := pictureColumns(leaves)
	for g, group := range s.RowGroups() {
		rows := make([]row, 0, group.NumRows())
		for i := range group.NumRows() {
			rows = append(rows, row{meta: picturesOfRow(shown, len(list)+int(i), pictured)})
		}
		for _, leaf := range leaves {
			if isPicture(leaf, leaves) {
				continue
			}
			if err := s.fill(rows, g, leaf, leaf == text); err != nil {
				return nil, fmt.Errorf("column %q: %w", nameOf(leaf), err)
			}
		}
		for _, r := range rows {
			list = append(list, Prompt{Text: r.text, Meta: MetaOf(r.meta)})
		}
	}
	for i := range list {
		if err := check(i+1, list[i].Text); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// leaves are the columns that have values.
func (s *sheet) leaves() (all []*parquet.Column) {
	var below func(c *parquet.Column)
	below = func(c *parquet.Column) {
		if c.Leaf() {
			all = append(all, c)
		}
		for _, inner := range c.Columns() {
			below(inner)
		}
	}
	below(s.Root())
	return all
}

// textColumn is the one that prompts stand in.
func textColumn(leaves []*parquet.Column, column string) (*parquet.Column, error) {
	wanted := textColumns
	if column != "" {
		wanted = []string{column}
	}
	var names []string
	for _, leaf := range leaves {
		names = append(names, nameOf(leaf))
	}
	for _, w := range wanted {
		if i := slices.Index(names, w); i >= 0 && leaves[i].Type().Kind() == parquet.ByteArray && leaves[i].MaxRepetitionLevel() == 0 {
			return leaves[i], nil
		}
	}
	return nil, fmt.Errorf("no column of texts is named %s\nhint: there are %s; FILE#COLUMN names the one with the prompts", strings.Join(quotes(wanted), " or "), strings.Join(names, ", "))
}

func quotes(names []string) []string {
	var all []string
	for _, n := range names {
		all = append(all, fmt.Sprintf("%q", n))
	}
	return all
}

// nameOf is a column's name without the steps that a list takes.
func nameOf(leaf *parquet.Column) string {
	path := slices.DeleteFunc(slices.Clone(leaf.Path()), func(step string) bool { return slices.Contains([]string{"list", "element", "item", "array"}, step) })
	return strings.Join(path, ".")
}

// row is a row under way.
type row struct {
	text string
	meta map[string]json.RawMessage
}

// fill puts a column's values into the rows of a group.
func (s *sheet) fill(rows []row, group int, leaf *parquet.Column, text bool) error {
	pages, err := s.pages(group, leaf)
	if err != nil {
		return err
	}
	lists := leaf.MaxRepetitionLevel() > 0
	at := -1
	var items []json.RawMessage
	put := func(raw json.RawMessage) {
		rows[at].meta[nameOf(leaf)] = raw
	}
	end := func() error {
		if !lists || at < 0 || len(items) == 0 {
			return nil
		}
		raw, err := json.Marshal(items)
		put(raw)
		items = nil
		return err
	}
	err = eachValue(pages, func(v parquet.Value) (bool, error) {
		if v.RepetitionLevel() == 0 {
			if err := end(); err != nil {
				return false, err
			}
			at++
		}
		if at >= len(rows) || at < 0 {
			return false, errors.New("it has more rows than the file says")
		}
		raw, err := s.literal(v)
		switch {
		case err != nil:
			return false, fmt.Errorf("row %d: %w", at+1, err)
		case raw == nil:
		case text:
			rows[at].text = string(v.ByteArray())
		case lists:
			items = append(items, raw)
		default:
			put(raw)
		}
		return true, nil
	})
	return errors.Join(err, end())
}

// eachValue reads values until f has enough.
func eachValue(pages parquet.Pages, f func(v parquet.Value) (more bool, err error)) (err error) {
	defer func() { err = errors.Join(err, pages.Close()) }()
	some := make([]parquet.Value, 256)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for values := page.Values(); ; {
			n, err := values.ReadValues(some)
			for _, v := range some[:n] {
				if more, err := f(v); !more || err != nil {
					parquet.Release(page)
					return err
				}
			}
			if errors.Is(err, io.EOF) || err == nil && n == 0 {
				break
			}
			if err != nil {
				return err
			}
		}
		parquet.Release(page)
	}
}

// literal returns a value as JSON; nil: no value, or a kind that JSON does not have.
func (s *sheet) literal(v parquet.Value) (json.RawMessage, error) {
	var x any
	switch {
	case v.IsNull():
		return nil, nil
	case v.Kind() == parquet.Boolean:
		x = v.Boolean()
	case v.Kind() == parquet.Int32:
		x = v.Int32()
	case v.Kind() == parquet.Int64:
		x = v.Int64()
	case v.Kind() == parquet.Float && !math.IsNaN(float64(v.Float())) && !math.IsInf(float64(v.Float()), 0):
		x = v.Float()
	case v.Kind() == parquet.Double && !math.IsNaN(v.Double()) && !math.IsInf(v.Double(), 0):
		x = v.Double()
	case v.Kind() == parquet.ByteArray && utf8.Valid(v.ByteArray()):
		x = string(v.ByteArray())
		if s.left -= int64(len(v.ByteArray())); s.left < 0 {
			return nil, fmt.Errorf("its texts have more than %d bytes", mostBytes)
		}
	default:
		return nil, nil
	}
	return json.Marshal(x)
}
