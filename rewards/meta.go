package rewards

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Meta is what a prompts file says of a prompt beside its text: {"prompt": ..., "meta": {...}}.
type Meta map[string]json.RawMessage

// Read decodes a value. One that is not there, or of another kind, is an error that names it.
func (m Meta) Read(key string, into any) error {
	raw, ok := m[key]
	if !ok {
		return fmt.Errorf("the prompt has no meta.%s, which this reward needs: add it to the prompts file", key)
	}
	err := json.Unmarshal(raw, into)
	var other *json.UnmarshalTypeError
	if _, text := into.(*string); text && errors.As(err, &other) {
		return fmt.Errorf("meta.%s of the prompt is no text (but JSON's %s), and this reward reads one: write it in quotation marks", key, other.Value)
	}
	if err != nil {
		return fmt.Errorf("meta.%s of the prompt: %w", key, err)
	}
	return nil
}

// Text is a text.
func (m Meta) Text(key string) (string, error) {
	var s string
	err := m.Read(key, &s)
	return s, err
}

// Texts is a list of texts; a single one is a list, too.
func (m Meta) Texts(key string) ([]string, error) {
	if s, err := m.Text(key); err == nil {
		return []string{s}, nil
	}
	var list []string
	err := m.Read(key, &list)
	return list, err
}

// Has is the error of a key that is not there; it may be of any type.
func (m Meta) Has(key string) error {
	var any any
	return m.Read(key, &any)
}
