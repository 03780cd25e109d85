package folder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
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
