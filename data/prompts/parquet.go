package prompts

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// A Parquet file is a table whose columns lie one after another, so that texts are read without the pictures beside
// them. A column of pictures, as the hub's data sets have them (a group of bytes and path), becomes meta.picture: the
// names of pictures that are read on demand. Every other column becomes a key of
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

// meanings are the logical types of the file's leaves, in order: the reader's types keep fewer.
func meanings(f *parquet.File) (all []any) {
	for _, e := range f.Metadata().Schema {
		if e.NumChildren.Valid && e.NumChildren.V > 0 {
			continue
		}
		var meaning any
		if e.LogicalType.Value != nil {
			meaning = e.LogicalType.Value
		}
		all = append(all, meaning)
	}
	return all
}

// cell returns a value of a leaf, by its logical type in the file.
func (a assembly) cell(leaf *parquet.Column, v parquet.Value) (any, error) {
	if v.IsNull() {
		return nil, nil
	}
	var meaning any
	if i := leaf.Index(); i < len(a.meanings) {
		meaning = a.meanings[i]
	}
	if l := leaf.Type().LogicalType(); meaning == nil && l != nil { // of an older writer
		meaning = l.Value
	}
	switch m := meaning.(type) {
	case *format.DecimalType:
		return decimal(unscaled(v), int(m.Scale)), nil
	case *format.DateType:
		return time.Unix(int64(v.Int32())*24*3600, 0).UTC().Format(time.DateOnly), nil
	case *format.TimestampType:
		return stamp(v.Int64(), m), nil
	case *format.TimeType:
		n := v.Int64()
		if v.Kind() == parquet.Int32 {
			n = int64(v.Int32())
		}
		return clock(time.Unix(0, n*int64(m.Unit.Value.Duration())).UTC()), nil
	case *format.Float16Type:
		return pytext.NewFloat(half(binary.LittleEndian.Uint16(v.ByteArray()))), nil
	case *format.IntType:
		if !m.IsSigned {
			return unsigned(v), nil
		}
	case *format.NullType:
		return nil, nil
	}
	return physical(v, isText(meaning))
}

// physical returns a value of a leaf without a logical type.
func physical(v parquet.Value, text bool) (any, error) {
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean(), nil
	case parquet.Int32:
		return pytext.NewInt(int(v.Int32())), nil
	case parquet.Int64:
		return pytext.NewInt(int(v.Int64())), nil
	case parquet.Float:
		return pytext.NewFloat(float64(v.Float())), nil
	case parquet.Double:
		return pytext.NewFloat(v.Double()), nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		if !text {
			return v.ByteArray(), nil
		}
		if !utf8.Valid(v.ByteArray()) {
			return nil, fmt.Errorf("a text is not UTF-8")
		}
		return string(v.ByteArray()), nil
	}
	return nil, fmt.Errorf("a value of kind %v is not read", v.Kind())
}

func isText(meaning any) bool {
	switch meaning.(type) {
	case *format.StringType, *format.EnumType, *format.JsonType:
		return true
	}
	return false
}

func unsigned(v parquet.Value) pytext.Number {
	if v.Kind() == parquet.Int32 {
		return pytext.NewUint(uint64(v.Uint32()))
	}
	return pytext.NewUint(v.Uint64())
}

// unscaled is a decimal's whole number.
func unscaled(v parquet.Value) *big.Int {
	switch v.Kind() {
	case parquet.Int32:
		return big.NewInt(int64(v.Int32()))
	case parquet.Int64:
		return big.NewInt(v.Int64())
	}
	raw := v.ByteArray()
	n := new(big.Int).SetBytes(raw)
	if len(raw) > 0 && raw[0] >= 0x80 { // two's complement
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	return n
}

// decimal writes a number with scale digits behind the point.
func decimal(n *big.Int, scale int) string {
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
	}
	digits := new(big.Int).Abs(n).String()
	if scale <= 0 {
		return sign + digits
	}
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale+1-len(digits)) + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

// stamp is a time as Python's isoformat writes it.
func stamp(n int64, of *format.TimestampType) string {
	unit := int64(of.Unit.Value.Duration())
	per := int64(time.Second) / unit
	seconds, rest := n/per, n%per
	if rest < 0 {
		seconds, rest = seconds-1, rest+per
	}
	t := time.Unix(seconds, rest*unit).UTC()
	text := t.Format("2006-01-02T") + clock(t)
	if of.IsAdjustedToUTC {
		text += "+00:00"
	}
	return text
}

// clock is a time of day, with microseconds where there are some.
func clock(t time.Time) string {
	if t.Nanosecond()/1000 == 0 {
		return t.Format(time.TimeOnly)
	}
	return t.Format("15:04:05.000000")
}

// half is a number of 16 bits.
func half(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10&31), float64(bits&1023)
	if bits>>15 == 1 {
		sign = -1
	}
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// An assembly joins the leaves' values of a row by their levels (Melnik et al., 2010).
type assembly struct {
	meanings []any
	leaves   []*parquet.Column
}

// of is a column's value; values are those of its leaves. A column none of whose leaves was read is nil.
func (a assembly) of(c *parquet.Column, values [][]parquet.Value) (any, error) {
	if len(values) == 0 || len(values[0]) == 0 {
		return nil, nil
	}
	first := values[0][0]
	switch {
	case c.Repeated():
		return a.list(c, c, values)
	case c.Optional() && first.DefinitionLevel() < c.MaxDefinitionLevel():
		return nil, nil
	case c.Leaf():
		return a.cell(c, first)
	}
	if inner := c.Columns(); len(inner) == 1 && inner[0].Repeated() && isList(c) {
		return a.list(inner[0], element(inner[0]), values)
	}
	return a.object(c, values)
}

// object is a group's members; those whose leaves were not read are left out.
func (a assembly) object(c *parquet.Column, values [][]parquet.Value) (any, error) {
	o := pytext.Ordered{Values: pytext.Object{}}
	at := 0
	for _, inner := range c.Columns() {
		var some [][]parquet.Value
		below := assembly{meanings: a.meanings}
		for _, leaf := range leavesOf(inner) {
			if at < len(a.leaves) && slices.Equal(a.leaves[at].Path(), leaf.Path()) {
				some, below.leaves = append(some, values[at]), append(below.leaves, leaf)
				at++
			}
		}
		if len(some) == 0 {
			continue
		}
		v, err := below.of(inner, some)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", inner.Name(), err)
		}
		o.Keys, o.Values[inner.Name()] = append(o.Keys, inner.Name()), v
	}
	return o, nil
}

// list returns the values of a repeated column, each read by of.
func (a assembly) list(repeated, of *parquet.Column, values [][]parquet.Value) (any, error) {
	list := []any{}
	if values[0][0].DefinitionLevel() < repeated.MaxDefinitionLevel() {
		return list, nil
	}
	level := repeated.MaxRepetitionLevel()
	ends := make([]int, len(values)) // the position of each leaf
	for ends[0] < len(values[0]) {
		item := make([][]parquet.Value, len(values))
		for k, v := range values {
			from := ends[k]
			for ends[k]++; ends[k] < len(v) && v[ends[k]].RepetitionLevel() > level; ends[k]++ {
			}
			if from >= len(v) {
				return nil, errors.New("its parts have lists of different lengths")
			}
			item[k] = v[from:ends[k]]
		}
		v, err := a.item(repeated, of, item)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// item returns an element of a list: a value of the repeated column, or of its replacement.
func (a assembly) item(repeated, of *parquet.Column, values [][]parquet.Value) (any, error) {
	switch {
	case of != repeated:
		return a.of(of, values)
	case repeated.Leaf():
		return a.cell(repeated, values[0][0])
	}
	return a.object(repeated, values)
}

// isList reports whether a group is a list of its one repeated member.
func isList(c *parquet.Column) bool {
	if t := c.Type().LogicalType(); t != nil && t.Value != nil {
		name := t.Value.String()
		return name == "LIST"
	}
	name := c.Columns()[0].Name()
	return name == "list" || name == "bag" || name == "array"
}

// element returns the content of a list's repeated member: its one column, or, in files of older writers, the member
// itself.
func element(repeated *parquet.Column) *parquet.Column {
	if inner := repeated.Columns(); len(inner) == 1 && repeated.Name() != "array" {
		return inner[0]
	}
	return repeated
}
