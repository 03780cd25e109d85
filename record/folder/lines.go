package folder

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// Lines is a file of JSON, a line a record, that is appended to.
type Lines struct {
	folder  *Folder
	name    string
	file    *os.File
	end     int64
	sum     hash.Hash // of all bytes before end
	changed error
}

// A Mark is a file's length and the checksum of its content.
type Mark struct {
	End    int64
	SHA256 string // "": not known
}

// everything is the mark of a file that keeps all its whole lines.
var everything = Mark{End: -1}

// Lines opens a file of the folder, cut back to a mark.
func (f *Folder) Lines(name string, m Mark) (*Lines, error) {
	file, err := os.OpenFile(filepath.Join(f.Dir, name), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	l := &Lines{folder: f, name: name, file: file, sum: sha256.New()}
	if err = l.cut(m); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", f.Path(name), err)
	}
	return l, nil
}

// AllLines opens a file of the folder with all its whole lines.
func (f *Folder) AllLines(name string) (*Lines, error) { return f.Lines(name, everything) }

// cut cuts the file back to a mark, and notices a change before it.
func (l *Lines) cut(m Mark) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if m.End < 0 {
		if m.End, err = whole(l.file, info.Size()); err != nil {
			return err
		}
	}
	if info.Size() < m.End {
		return fmt.Errorf("it has %d bytes, and had %d when the checkpoint was written: it was cut off since\n"+
			"hint: put it back from a copy; or --restart begins anew and keeps this folder beside", info.Size(), m.End)
	}
	look := &jsonLines{}
	if _, err := io.Copy(io.MultiWriter(l.sum, look), io.NewSectionReader(l.file, 0, m.End)); err != nil {
		return err
	}
	if look.rest != 0 {
		return errors.New("the checkpoint ends it inside a line: it is another run's checkpoint, or the file was changed\n" +
			"hint: put it back from a copy; or --restart begins anew and keeps this folder beside")
	}
	if got := l.Mark().SHA256; m.SHA256 != "" && got != m.SHA256 {
		l.changed = fmt.Errorf("%s has changed since the checkpoint was written: %s", l.folder.Path(l.name), look.says())
	}
	l.end = m.End
	return l.file.Truncate(m.End)
}

// whole is where the last whole line ends.
func whole(file *os.File, size int64) (int64, error) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, size))
	return int64(bytes.LastIndexByte(text, '\n') + 1), err
}

// Mark returns the file's length and the checksum of its content.
func (l *Lines) Mark() Mark { return Mark{l.end, hex.EncodeToString(l.sum.Sum(nil))} }

// Changed describes a change of the file before the mark that it was opened with.
func (l *Lines) Changed() error { return l.changed }

// Append writes a record. If it cannot be written whole, the part is cut off.
func (l *Lines) Append(v any) error {
	if err := l.folder.Here(); err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("a line of %s: %w", l.name, err)
	}
	text = append(text, '\n')
	if _, err := l.file.WriteAt(text, l.end); err != nil {
		return errors.Join(fmt.Errorf("%w\nhint: the last checkpoint is whole; with room to write, --resume goes on from there", err), l.file.Truncate(l.end))
	}
	l.sum.Write(text)
	l.end += int64(len(text))
	return nil
}

// End returns the file's mark, for a checkpoint to remember. The bytes before it are on the disk when End returns.
func (l *Lines) End() (Mark, error) { return l.Mark(), l.file.Sync() }

// Close closes the file.
func (l *Lines) Close() error { return l.file.Close() }

// ReadLines calls f for every whole line of a file; one that was torn at the end is left out.
func ReadLines(path string, f func(line []byte) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		line, rest, ok := bytes.Cut(text, []byte("\n"))
		if !ok {
			return nil
		}
		if err := f(line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		text = rest
	}
}

// A jsonLines reads lines of JSON as they pass, and keeps the number of the first invalid one.
type jsonLines struct {
	line []byte // read so far of the line under way
	n    int    // whole lines
	bad  int    // the first invalid line, counted from 1; 0: all are JSON
	rest int    // bytes behind the last whole line
}

func (l *jsonLines) Write(text []byte) (int, error) {
	n := len(text)
	for {
		line, after, ok := bytes.Cut(text, []byte("\n"))
		l.line = append(l.line, line...)
		if !ok {
			l.rest = len(l.line)
			return n, nil
		}
		if l.n++; l.bad == 0 && !json.Valid(l.line) {
			l.bad = l.n
		}
		l.line, text = l.line[:0], after
	}
}

// says where a file was changed, if it can be found.
func (l *jsonLines) says() string {
	if l.bad > 0 {
		return fmt.Sprintf("line %d is no longer JSON", l.bad)
	}
	return "every line is JSON, but the content of some has changed"
}

// Tail reads a file of lines while another process appends to it: every call of Next brings the whole lines that are
// new. A run that goes on from a checkpoint cuts its files back; Next then begins anew, and says so.
type Tail struct {
	Path string
	end  int64  // of the bytes read
	n    int    // lines that were read
	last []byte // the bytes before end, to notice a file that was cut back and has grown since
}

const (
	mostCompared = 256      // bytes of last
	mostLine     = 64 << 20 // bytes of a line
)

// Next calls f for every whole line that was not read yet; the line is f's until it returns. Before it calls f with
// lines that were read already, because the file has changed, it calls anew. A file that is not there has no
// lines. The error is f's first; lines behind it are read all the same.
func (t *Tail) Next(anew func(), f func(line []byte) error) (changed bool, err error) {
	file, err := os.Open(t.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return t.begin(anew), nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	if t.end > 0 && !t.continues(file) {
		changed = t.begin(anew)
	}
	from := bufio.NewReaderSize(io.NewSectionReader(file, t.end, math.MaxInt64-t.end), 1<<16)
	var line []byte // as much of it as may be read
	length, last := int64(0), t.last
	for {
		piece, failed := from.ReadSlice('\n')
		line = append(line, piece[:min(len(piece), mostLine+2-len(line))]...)
		length, last = length+int64(len(piece)), lastOf(last, piece)
		switch {
		case errors.Is(failed, bufio.ErrBufferFull):
			continue
		case errors.Is(failed, io.EOF): // a line under way is read when it is whole
			return changed, err
		case failed != nil:
			return changed, failed
		}
		t.end, t.last, t.n, changed = t.end+length, last, t.n+1, true
		if line = bytes.TrimSuffix(line, []byte("\n")); len(line) > mostLine {
			failed = fmt.Errorf("a line of more than %d bytes, which no run writes", mostLine)
		} else {
			failed = f(line)
		}
		if failed != nil && err == nil {
			err = fmt.Errorf("%s:%d: %w", t.Path, t.n, failed)
		}
		line, length = line[:0], 0
	}
}

// lastOf is the end of one text behind another, copied.
func lastOf(text, more []byte) []byte {
	more = more[max(0, len(more)-mostCompared):]
	return append(bytes.Clone(text[max(0, len(text)+len(more)-mostCompared):]), more...)
}

// begin forgets the lines that were read, if any.
func (t *Tail) begin(anew func()) bool {
	if t.end == 0 {
		return false
	}
	t.end, t.n, t.last = 0, 0, nil
	anew()
	return true
}

// continues reports whether the bytes read last are still in place.
func (t *Tail) continues(file *os.File) bool {
	now := make([]byte, len(t.last))
	_, err := file.ReadAt(now, t.end-int64(len(now)))
	return err == nil && bytes.Equal(now, t.last)
}
