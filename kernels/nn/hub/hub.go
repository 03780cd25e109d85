// Package hub reads the settings of model folders in the Hugging Face layout: config.json
// and its like, which strangers write.
//
//	var c mmdit.Config
//	err := hub.Config(dir, &c, "SD3Transformer2DModel")
//
// Keys that are not known are let pass, since libraries add some with every version; a network's own package checks
// its settings, with Limits, before anything is allocated.
package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// maxBytes is more than any settings file has.
const maxBytes = 16 << 20

// Config reads dir/config.json, which must say that it is one of classes (by _class_name,
// architectures or model_type), where it says anything.
func Config(dir string, into any, classes ...string) error {
	path := filepath.Join(dir, "config.json")
	data, err := ReadFile(path)
	if err != nil {
		return err
	}
	var said struct {
		Class         string   `json:"_class_name"`
		Architectures []string `json:"architectures"`
		ModelType     string   `json:"model_type"`
	}
	if err := Decode(path, data, &said); err != nil {
		return err
	}
	names := slices.DeleteFunc(append(said.Architectures, said.Class, said.ModelType), func(s string) bool { return s == "" })
	known := func(s string) bool { return slices.Contains(classes, s) }
	if len(classes) > 0 && len(names) > 0 && !slices.ContainsFunc(names, known) {
		return fmt.Errorf("%s: it describes %s, and %s was expected", path, strings.Join(names, ", "), strings.Join(classes, " or "))
	}
	return Decode(path, data, into)
}

// JSON reads a file of settings.
func JSON(path string, into any) error {
	data, err := ReadFile(path)
	if err != nil {
		return err
	}
	return Decode(path, data, into)
}

// Only reads a file of settings once more, for those that change a network's result and are not supported here: where
// they are set, they must have one of the values, as JSON writes them, or be null. A list must hold such values
// alone.
func Only(path string, values map[string][]string) error {
	var all map[string]json.RawMessage
	if err := JSON(path, &all); err != nil {
		return err
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if raw, ok := all[key]; ok && !among(raw, values[key]) {
			known := append([]string{"null"}, values[key]...)
			errs = append(errs, fmt.Errorf("%s: %q is %.80s; only %s is known", path, key, raw, strings.Join(known, " or ")))
		}
	}
	return errors.Join(errs...)
}

func among(raw json.RawMessage, values []string) bool {
	var list []json.RawMessage
	if len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &list) == nil {
		return !slices.ContainsFunc(list, func(r json.RawMessage) bool { return !among(r, values) })
	}
	text := string(raw)
	if x, err := strconv.ParseFloat(text, 64); err == nil { // 1 and 1.0
		text = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return text == "null" || slices.Contains(values, text)
}

// ReadFile reads a file of bounded size.
func ReadFile(path string) ([]byte, error) {
	data, err := regular.Read(path, maxBytes)
	if errors.Is(err, regular.ErrLarge) {
		err = fmt.Errorf("%w: no settings are so long; fetch the folder again", err)
	}
	return data, err
}

// Decode is json.Unmarshal whose errors name the file, the line and the key.
func Decode(path string, data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return fmt.Errorf("%s:%d: not JSON: %v", path, line(data, syntax.Offset), err)
	case errors.As(err, &wrong):
		return fmt.Errorf("%s:%d: %s is %s, and %s was expected", path, line(data, wrong.Offset), orTop(wrong.Field), wrong.Value, wrong.Type)
	}
	return fmt.Errorf("%s: %w", path, err)
}

func line(data []byte, offset int64) int {
	return 1 + strings.Count(string(data[:min(int(offset), len(data))]), "\n")
}

func orTop(field string) string {
	if field == "" {
		return "the whole"
	}
	return fmt.Sprintf("%q", field)
}

// Limits collects values out of range in one file of settings.
type Limits struct{ errs []error }

// Int wants lo <= v <= hi.
func (l *Limits) Int(key string, v, lo, hi int) {
	if v < lo || v > hi {
		l.errs = append(l.errs, fmt.Errorf("config.json: %q is %d; it must lie between %d and %d", key, v, lo, hi))
	}
}

// Float wants lo <= v <= hi.
func (l *Limits) Float(key string, v, lo, hi float64) {
	l.Must(v >= lo && v <= hi, "%q is %v; it must lie between %v and %v", key, v, lo, hi)
}

// Must wants ok.
func (l *Limits) Must(ok bool, format string, args ...any) {
	if !ok {
		l.errs = append(l.errs, fmt.Errorf("config.json: "+format, args...))
	}
}

// Err is all that was wrong.
func (l *Limits) Err() error { return errors.Join(l.errs...) }
