package prompts

import (
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// LessonRow returns a table's row as a line of a .jsonl would have it: without null, with a picture's name in its
// place, and with a list where a list was stored as JSON.
func (t *Table) LessonRow(at Place, row pytext.Ordered) string {
	out := pytext.Ordered{Values: pytext.Object{}}
	for _, key := range row.Keys {
		v := row.Values[key]
		if v = t.named(at, key, v); v == nil {
			continue
		}
		if text, ok := v.(string); ok && listed[key] && strings.HasPrefix(strings.TrimSpace(text), "[") {
			if list, err := pytext.OrderedJSON(text); err == nil {
				v = list
			}
		}
		out.Keys, out.Values[key] = append(out.Keys, key), v
	}
	return pytext.Dumps(out)
}

// listed are columns that some data sets store as JSON.
var listed = map[string]bool{"messages": true, "conversations": true, "prompt": true, "completion": true}

// named returns a column without null, and with names in the place of pictures.
func (t *Table) named(at Place, key string, v any) any {
	if !t.pictured(key) {
		return present(v)
	}
	p := place{file: at.File, row: at.Row, column: key}
	list, several := v.([]any)
	switch {
	case v == nil:
		return nil
	case !several:
		return p.String()
	}
	names := []any{}
	for i, e := range list {
		if p.one = i + 1; e != nil {
			names = append(names, p.String())
		}
	}
	return names
}

// pictured reports whether a column holds pictures.
func (t *Table) pictured(key string) bool {
	for _, f := range t.files {
		all := f.leaves()
		for _, leaf := range all {
			if leaf.Path()[0] == key && isPicture(leaf, all) {
				return true
			}
		}
	}
	return false
}

// present is a value without members that are null; nil where it is, or where it has bytes, which JSON has not.
func present(v any) any {
	switch v := v.(type) {
	case []byte:
		return nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = present(e)
		}
		return out
	case pytext.Ordered:
		out := pytext.Ordered{Values: pytext.Object{}}
		for _, key := range v.Keys {
			if e := present(v.Values[key]); e != nil {
				out.Keys, out.Values[key] = append(out.Keys, key), e
			}
		}
		return out
	}
	return v
}
