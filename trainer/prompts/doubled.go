package prompts

import (
	"bytes"
	"encoding/json"
	"strings"
)

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
		if err != nil { // the end, or what the reader of the record will tell
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
