package prompts

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Meta holds the other fields of a prompt's line, for rewards: an object of JSON as it was written, "" without any. A
// list of 200,000 prompts holds no tables for it, which would take ten times the memory of the texts.
type Meta string

// MetaOf is a meta with these values.
func MetaOf(all map[string]json.RawMessage) Meta {
	if len(all) == 0 {
		return ""
	}
	var b bytes.Buffer
	sep := byte('{')
	for _, key := range slices.Sorted(maps.Keys(all)) {
		name, err := json.Marshal(key)
		if err != nil {
			panic(err) // texts have JSON
		}
		b.WriteByte(sep)
		b.Write(name)
		b.WriteByte(':')
		b.Write(all[key])
		sep = ','
	}
	b.WriteByte('}')
	return Meta(b.String())
}

// Map returns the values by their keys; nil without any.
func (m Meta) Map() map[string]json.RawMessage {
	if m == "" {
		return nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(m), &all) != nil {
		return nil // it was read as JSON, or written by MetaOf
	}
	return all
}

// Get is a key's value as it was written, and whether there is one.
func (m Meta) Get(key string) (value json.RawMessage, ok bool) {
	s := scan{text: string(m)}
	plain := m == "" || s.object(func(name string) bool {
		s.next()
		from := s.at
		if !s.value(1) {
			return false
		}
		if name == key {
			value, ok = json.RawMessage(s.text[from:s.at]), true
		}
		return true
	})
	if !plain {
		value, ok = m.Map()[key]
	}
	return value, ok
}

// MarshalJSON writes the keys in their order, as of a map.
func (m Meta) MarshalJSON() ([]byte, error) {
	type pair struct{ name, value string }
	var room [mostKeys]pair
	all, s := room[:0], scan{text: string(m)}
	plain := s.object(func(name string) bool {
		s.next()
		from := s.at
		ok := s.value(1)
		all = append(all, pair{name, s.text[from:s.at]})
		return ok
	})
	if !plain {
		return json.Marshal(m.Map())
	}
	slices.SortFunc(all, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	out := append(make([]byte, 0, len(m)+2), '{')
	for i, p := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(append(append(out, p.name...), '"', ':'), p.value...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads an object, or null.
func (m *Meta) UnmarshalJSON(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	if *m = ""; len(all) > 0 {
		*m = Meta(text)
	}
	return nil
}
