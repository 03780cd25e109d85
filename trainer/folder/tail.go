package folder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
)

// Tail reads a file of lines while another process appends to it: every call of Next brings the whole lines that are
// new. A run that goes on from a checkpoint cuts its files back; Next then begins anew, and says so.
type Tail struct {
	Path string
	end  int64  // of what was read
	n    int    // lines that were read
	last []byte // what stands before end, to find out whether the file was cut back and has grown since
}

// mostCompared bounds last.
const mostCompared = 256

// Next calls f for every whole line that was not read yet. Before it calls f with lines that were read already, since
// the file is not what it was, it calls anew. A file that is not there has no lines. The error is f's first; lines
// behind it are read all the same.
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
	text, err := behind(file, t.end)
	if err != nil {
		return changed, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	if len(text) == 0 {
		return changed, nil
	}
	t.end += int64(len(text))
	t.last = append(t.last, text[max(0, len(text)-mostCompared):]...)
	t.last = bytes.Clone(t.last[max(0, len(t.last)-mostCompared):])
	for line := range bytes.Lines(text) {
		t.n++
		if failed := f(bytes.TrimSuffix(line, []byte("\n"))); failed != nil && err == nil {
			err = fmt.Errorf("%s:%d: %w", t.Path, t.n, failed)
		}
	}
	return true, err
}

// behind is all that a file has from a place on.
func behind(file *os.File, at int64) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(make([]byte, 0, max(0, info.Size()-at)+bytes.MinRead)) // it may have grown since
	_, err = text.ReadFrom(io.NewSectionReader(file, at, math.MaxInt64-at))
	return text.Bytes(), err
}

// begin forgets what was read, if anything was.
func (t *Tail) begin(anew func()) bool {
	if t.end == 0 {
		return false
	}
	t.end, t.n, t.last = 0, 0, nil
	anew()
	return true
}

// continues reports whether what was read last still stands where it stood.
func (t *Tail) continues(file *os.File) bool {
	now := make([]byte, len(t.last))
	_, err := file.ReadAt(now, t.end-int64(len(now)))
	return err == nil && bytes.Equal(now, t.last)
}
