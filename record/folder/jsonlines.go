package folder

import (
	"bytes"
	"encoding/json"
	"fmt"
)

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
