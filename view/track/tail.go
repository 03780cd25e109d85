package track

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
)

// tail reads the whole lines of a file that grows. A run that goes on cuts its files back to its checkpoint and
// writes the same lines again: until they are there, nothing new is.
type tail struct {
	path string
	file *os.File
	from *bufio.Reader
	at   int64  // behind the last whole line
	part []byte // of the line under way
}

// next returns the next whole line with its end; nil before there is one.
func (t *tail) next() ([]byte, error) {
	if err := t.ready(); err != nil || t.file == nil {
		return nil, err
	}
	line, err := t.from.ReadBytes('\n')
	t.part = append(t.part, line...)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	line, t.part = t.part, nil
	t.at += int64(len(line))
	return line, nil
}

// ready opens the file where it is not, and goes back where it was cut.
func (t *tail) ready() error {
	if t.file == nil {
		f, err := os.Open(t.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		t.file, t.from = f, bufio.NewReaderSize(f, 1<<16)
		return t.seek()
	}
	if t.from.Buffered() > 0 {
		return nil
	}
	info, err := t.file.Stat()
	if err == nil && info.Size() < t.at+int64(len(t.part)) {
		return t.seek()
	}
	return err
}

// seek goes behind the last whole line that was read. Beyond the file's end there is nothing until it grows.
func (t *tail) seek() error {
	t.part = nil
	t.from.Reset(t.file)
	_, err := t.file.Seek(t.at, io.SeekStart)
	return err
}

func (t *tail) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
