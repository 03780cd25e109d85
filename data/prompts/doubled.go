package prompts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckRecord refuses a line of JSON of which two readers could understand different things: bytes that
// are not UTF-8, which become other characters, and keys that are there twice.
func CheckRecord(line []byte) error {
	if !utf8.Valid(line) {
		return errors.New("the line is not UTF-8")
	}
	if key := doubled(line); key != "" {
		return fmt.Errorf("%q is there twice in one object\nhint: which of the two is meant cannot be known; delete one", key)
	}
	return nil
}

// doubled is a key that an object of a JSON text has twice, in it or below it; "" where none has. Of two
// equal keys a decoder takes the last without a word, and of a record it reads "Prompt" as "prompt".
func doubled(text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type level struct {
		keys map[string]bool // of an object; nil of a list
		key  bool            // whether a key comes next
	}
	var open []level
	for {
		token, err := d.Token()
		if err != nil { // the end, or an error that the reader of the record reports
			return ""
		}
		if n := len(open) - 1; n >= 0 && open[n].keys != nil {
			if name, ok := token.(string); ok && open[n].key {
				same := name
				if n == 0 {
					same = strings.ToLower(name)
				}
				if open[n].keys[same] {
					return name
				}
				open[n].keys[same], open[n].key = true, false
				continue
			}
			open[n].key = true // after the value that begins here
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{map[string]bool{}, true})
		case json.Delim('['):
			open = append(open, level{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
	}
}
