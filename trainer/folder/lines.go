package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Lines is a file of JSON, a line a record, that is appended to.
type Lines struct {
	file *os.File
	end  int64
}

// Lines opens a file of the folder, cut back to its first end bytes; end < 0 keeps all whole
// lines.
func (f *Folder) Lines(name string, end int64) (*Lines, error) {
	file, err := os.OpenFile(filepath.Join(f.Dir, name), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	l := &Lines{file: file}
	if l.end, err = whole(file, end); err == nil {
		err = file.Truncate(l.end)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

// whole is where a file is to end.
func whole(file *os.File, end int64) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if end >= 0 {
		if info.Size() < end {
			return 0, fmt.Errorf("it has %d bytes, and had %d when the checkpoint was written: it was cut off since", info.Size(), end)
		}
		return end, nil
	}
	text, err := io.ReadAll(io.NewSectionReader(file, 0, info.Size()))
	return int64(bytes.LastIndexByte(text, '\n') + 1), err
}

// Append writes a record. If it cannot be written whole, what was written is taken back.
func (l *Lines) Append(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := l.file.WriteAt(append(text, '\n'), l.end); err != nil {
		return errors.Join(fmt.Errorf("%w\nhint: the run stands at its last checkpoint; with room to write, --resume goes on from there", err), l.file.Truncate(l.end))
	}
	l.end += int64(len(text)) + 1
	return nil
}

// End is how long the file is, for a checkpoint to remember. It is on the disk when End returns.
func (l *Lines) End() (int64, error) { return l.end, l.file.Sync() }

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
