package prompts

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// A Parquet file declares lengths: of its footer, of lists within, of page indexes, of pages and of their values. The
// library makes room for them before it reads, so that four changed bytes of a small file would take gigabytes. Here
// every declared length is held against the bytes that the file has. The structures are Thrift's compact protocol
// (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md), walked without being decoded.
//
// Invariant (TestDeclaredLengths): a file of some kilobytes takes some megabytes, whatever it declares.

const (
	mostFooter = 64 << 20 // bytes of a footer or of a page index
	mostRows   = 1 << 24  // rows of a file's prompts
	mostPage   = 64 << 20 // bytes of a page that is compressed to next to nothing
	mostRatio  = 1024     // of a larger page's bytes to its compressed bytes
	mostValues = 1 << 28  // values of a page
	mostLevels = 16       // structures within one another
)

// openSheet opens a file whose footer and page indexes declare no more than the file has.
func openSheet(file *os.File) (*sheet, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	opened, err := openParquet(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("this is no Parquet file: %w", err)
	}
	return &sheet{File: opened, file: file, left: mostBytes, checked: map[[2]int]bool{}}, nil
}

func openParquet(file io.ReaderAt, size int64) (*parquet.File, error) {
	if err := footer(file, size); err != nil {
		return nil, err
	}
	opened, err := parquet.OpenFile(file, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, err
	}
	rows, indexed := int64(0), false
	for g, group := range opened.Metadata().RowGroups {
		if group.NumRows < 0 {
			return nil, fmt.Errorf("row group %d declares %d rows", g, group.NumRows)
		}
		rows += min(group.NumRows, 2*mostRows)
		for c := range group.Columns {
			column := &group.Columns[c]
			for _, index := range [][2]int64{
				{column.ColumnIndexOffset, int64(column.ColumnIndexLength)},
				{column.OffsetIndexOffset, int64(column.OffsetIndexLength)},
			} {
				if index == [2]int64{} {
					continue
				}
				if err := walkAll(file, size, index[0], index[1]); err != nil {
					return nil, fmt.Errorf("the page index of column %d of row group %d: %w", c, g, err)
				}
				indexed = true
			}
		}
	}
	if rows > mostRows {
		return nil, fmt.Errorf("it declares more than %d rows\nhint: cut the file into several", mostRows)
	}
	if !indexed {
		return opened, nil
	}
	return parquet.OpenFile(file, size, parquet.SkipBloomFilters(true))
}

// footer walks the footer, whose length is before the file's last four bytes.
func footer(file io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < 12 {
		return fmt.Errorf("its %d bytes are fewer than a footer takes", size)
	}
	if _, err := file.ReadAt(tail[:], size-8); err != nil {
		return err
	}
	if string(tail[4:]) != "PAR1" {
		return fmt.Errorf("it ends with %q, not with PAR1", tail[4:])
	}
	n := int64(binary.LittleEndian.Uint32(tail[:4]))
	if err := walkAll(file, size-8, size-8-n, n); err != nil {
		return fmt.Errorf("its footer: %w", err)
	}
	return nil
}

// walkAll walks a structure of n bytes.
func walkAll(file io.ReaderAt, size, at, n int64) error {
	switch {
	case at < 4 || n < 0 || at > size-n:
		return fmt.Errorf("%d bytes from %d on are declared, and the file has %d", n, at, size)
	case n > mostFooter:
		return fmt.Errorf("%d bytes are declared; at most %d are read", n, mostFooter)
	}
	return newWalker(io.NewSectionReader(file, at, n), n).structure(nil)
}

// pages are a column's pages in a row group, after all their headers were held against the file.
func (s *sheet) pages(group int, leaf *parquet.Column) (parquet.Pages, error) {
	key := [2]int{group, leaf.Index()}
	if !s.checked[key] {
		if err := s.chunk(&s.Metadata().RowGroups[group].Columns[leaf.Index()].MetaData); err != nil {
			return nil, err
		}
		s.checked[key] = true
	}
	return s.RowGroups()[group].ColumnChunks()[leaf.Index()].Pages(), nil
}

// chunk walks the headers of a column chunk's pages.
func (s *sheet) chunk(c *format.ColumnMetaData) error {
	at := c.DataPageOffset
	if c.DictionaryPageOffset > 0 {
		at = min(at, c.DictionaryPageOffset)
	}
	if at < 4 || c.TotalCompressedSize < 0 || at > s.Size()-c.TotalCompressedSize {
		return fmt.Errorf("pages of %d bytes from %d on are declared, and the file has %d bytes", c.TotalCompressedSize, at, s.Size())
	}
	for end := at + c.TotalCompressedSize; at < end; {
		w := newWalker(io.NewSectionReader(s.file, at, end-at), end-at)
		var p page
		if err := w.structure(p.field); err != nil {
			return fmt.Errorf("the header of the page at byte %d: %w", at, err)
		}
		if err := p.check(w.left); err != nil {
			return fmt.Errorf("the page at byte %d: %w", at, err)
		}
		at = end - w.left + p.compressed
	}
	return nil
}

// page is a page's header.
type page struct{ compressed, plain, values int64 }

// field keeps a number of a PageHeader (parquet.thrift): 2 and 3 are its sizes, 5, 7 and 8 its kinds, which begin with
// the number of values.
func (p *page) field(outer, inner int16, v int64) {
	switch {
	case outer == 0 && inner == 2:
		p.plain = v
	case outer == 0 && inner == 3:
		p.compressed = v
	case (outer == 5 || outer == 7 || outer == 8) && inner == 1:
		p.values = v
	}
}

func (p *page) check(left int64) error {
	switch {
	case p.compressed < 0 || p.compressed > left:
		return fmt.Errorf("%d bytes are declared, and %d are there", p.compressed, left)
	case p.plain < 0 || p.plain > max(mostPage, mostRatio*p.compressed):
		return fmt.Errorf("%d bytes compressed to %d are declared", p.plain, p.compressed)
	case p.values < 0 || p.values > mostValues:
		return fmt.Errorf("%d values are declared; at most %d are read", p.values, mostValues)
	}
	return nil
}

// A walker goes through a structure of Thrift's compact protocol.
type walker struct {
	r    *bufio.Reader
	left int64 // bytes
}

func newWalker(r io.Reader, n int64) *walker { return &walker{bufio.NewReaderSize(r, 512), n} }

// structure walks one to its end. number, if not nil, is called with the integers of the structure and of those one
// level below: outer is the field around them, 0 without one.
func (w *walker) structure(number func(outer, inner int16, v int64)) error {
	return w.fields(0, 0, number)
}

func (w *walker) fields(depth int, outer int16, number func(outer, inner int16, v int64)) error {
	if depth > mostLevels {
		return fmt.Errorf("structures lie more than %d deep", mostLevels)
	}
	for field := int16(0); ; {
		head, err := w.byte()
		if err != nil {
			return err
		}
		if head == 0 {
			return nil
		}
		if delta := int16(head >> 4); delta > 0 {
			field += delta
		} else {
			v, err := w.integer()
			if err != nil {
				return err
			}
			field = int16(v)
		}
		kind := head & 15
		if number != nil && (kind == 4 || kind == 5 || kind == 6) {
			v, err := w.integer()
			if err != nil {
				return err
			}
			number(outer, field, v)
			continue
		}
		if kind == 1 || kind == 2 { // a field's truth stands in its head
			continue
		}
		if number != nil && kind == 12 && outer == 0 {
			err = w.fields(depth+1, field, number)
		} else {
			err = w.value(kind, depth)
		}
		if err != nil {
			return err
		}
	}
}

// value walks one of a kind.
func (w *walker) value(kind byte, depth int) error {
	switch kind {
	case 1, 2, 3:
		return w.skip(1)
	case 4, 5, 6:
		_, err := w.varint()
		return err
	case 7:
		return w.skip(8)
	case 8:
		n, err := w.varint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case 9, 10:
		return w.list(depth)
	case 11:
		return w.mapping(depth)
	case 12:
		return w.fields(depth+1, 1, nil)
	}
	return fmt.Errorf("kind %d is none of Thrift's", kind)
}

func (w *walker) list(depth int) error {
	head, err := w.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = w.varint(); err != nil {
			return err
		}
	}
	return w.items(n, depth, head&15)
}

func (w *walker) mapping(depth int) error {
	n, err := w.varint()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := w.byte()
	if err != nil {
		return err
	}
	return w.items(n, depth, kinds>>4, kinds&15)
}

// items walks n times a value of each kind. Each takes a byte at least.
func (w *walker) items(n uint64, depth int, kinds ...byte) error {
	if n > uint64(w.left) {
		return fmt.Errorf("a list of %d is declared where %d bytes are left", n, w.left)
	}
	for range n {
		for _, kind := range kinds {
			if err := w.value(kind, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) byte() (byte, error) {
	if w.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	w.left--
	return w.r.ReadByte()
}

func (w *walker) skip(n uint64) error {
	if n > uint64(w.left) {
		return fmt.Errorf("%d bytes are declared where %d are left", n, w.left)
	}
	w.left -= int64(n)
	_, err := w.r.Discard(int(n))
	return err
}

// integer is a zigzag varint.
func (w *walker) integer() (int64, error) {
	v, err := w.varint()
	return int64(v>>1) ^ -int64(v&1), err
}

func (w *walker) varint() (v uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		b, err := w.byte()
		if err != nil {
			return 0, err
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, errors.New("a number has more than 64 bits")
}
