package folder

import (
	"bufio"
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
