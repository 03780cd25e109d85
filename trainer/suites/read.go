package suites

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// row is one of a file's, by its columns. Values are texts, lists, objects, or bytes of pictures.
type row struct {
	dir    string // of the file
	values map[string]any
}

// eachRow reads a file's rows: .json (a list, or an object of rows), .jsonl, .tsv, .parquet.
func eachRow(file string, f func(row) error) error {
	dir := filepath.Dir(file)
	if filepath.Ext(file) == ".parquet" {
		t, err := prompts.OpenTable(file)
		if err != nil {
			return err
		}
		return errors.Join(t.Each(true, func(_ prompts.Place, r pytext.Ordered) error {
			values := map[string]any{}
			for k, v := range r.Values {
				values[k] = plain(v)
			}
			return f(row{dir, values})
		}), t.Close())
	}
	open, err := regular.Open(file)
	if err != nil {
		return err
	}
	defer open.Close()
	switch filepath.Ext(file) {
	case ".json":
		return jsonRows(file, open, func(v map[string]any) error { return f(row{dir, v}) })
	case ".jsonl":
		return lineRows(file, open, func(v map[string]any) error { return f(row{dir, v}) })
	case ".tsv":
		return tabRows(file, open, func(v map[string]any) error { return f(row{dir, v}) })
	}
	return fmt.Errorf("%s: a suite is a .json, .jsonl, .tsv or .parquet file", file)
}

// plain is a Parquet value as JSON would have it, bytes apart.
func plain(v any) any {
	switch v := v.(type) {
	case pytext.Ordered:
		out := map[string]any{}
		for k, x := range v.Values {
			out[k] = plain(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plain(x)
		}
		return out
	case nil, bool, string, []byte:
		return v
	}
	return pytext.Dumps(v)
}

// jsonRows reads a list of rows, or an object of them by their names, in the order of the file.
func jsonRows(file string, r io.Reader, f func(map[string]any) error) error {
	d := json.NewDecoder(r)
	d.UseNumber()
	open, err := d.Token()
	if err != nil || open != json.Delim('[') && open != json.Delim('{') {
		return fmt.Errorf("%s: neither a list of rows nor an object of them", file)
	}
	for n := 1; d.More(); n++ {
		name := ""
		if open == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return fmt.Errorf("%s: row %d: %w", file, n, err)
			}
			name = fmt.Sprint(key)
		}
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("%s: row %d: %w", file, n, err)
		}
		if _, ok := v["pid"]; !ok && name != "" && v != nil {
			v["pid"] = name
		}
		if err := f(v); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("%s: it breaks off: %w", file, err)
	}
	return nil
}

// mostLine is a row's bytes at most: pictures of 8K are in them.
const mostLine = 256 << 20

func lineRows(file string, r io.Reader, f func(map[string]any) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, mostLine)
	for n := 1; s.Scan(); n++ {
		if strings.TrimSpace(s.Text()) == "" {
			continue
		}
		d := json.NewDecoder(strings.NewReader(s.Text()))
		d.UseNumber()
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if err := f(v); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func tabRows(file string, r io.Reader, f func(map[string]any) error) error {
	c := csv.NewReader(r)
	c.Comma, c.LazyQuotes = '\t', true
	names, err := c.Read()
	if err != nil {
		return fmt.Errorf("%s: its first line names no columns: %w", file, err)
	}
	for {
		fields, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		v := map[string]any{}
		for i, name := range names {
			if fields[i] != "" { // pandas' missing value
				v[name] = fields[i]
			}
		}
		if err := f(v); err != nil {
			return err
		}
	}
}

// text is the first of some columns that is there, as a text.
func (r row) text(names ...string) string {
	for _, n := range names {
		switch v := r.values[n].(type) {
		case nil:
		case string:
			return v
		default:
			return fmt.Sprint(v)
		}
	}
	return ""
}

// list is the first of some columns that is there: a list of texts, or a text with a line each.
func (r row) list(names ...string) (out []string) {
	for _, n := range names {
		switch v := r.values[n].(type) {
		case []any:
			for _, x := range v {
				out = append(out, fmt.Sprint(x))
			}
			return out
		case string:
			return strings.Split(v, "\n")
		}
	}
	return nil
}

// need is text, which must be there.
func (r row) need(names ...string) (string, error) {
	if v := r.text(names...); v != "" {
		return v, nil
	}
	return "", fmt.Errorf("no column %s: it has %s", strings.Join(names, " or "), strings.Join(slices.Sorted(maps.Keys(r.values)), ", "))
}

// image is a picture that is read when it is asked for.
type image struct {
	dir, name string
	data      []byte
}

// image is the first of some columns that has a picture: bytes, base64, or a file's name beside the suite's.
func (r row) image(folder string, names ...string) (m image, err error) {
	for _, n := range names {
		switch v := r.values[n].(type) {
		case []byte:
			return image{data: v}, nil
		case map[string]any:
			if data, ok := v["bytes"].([]byte); ok && len(data) > 0 {
				return image{data: data}, nil
			}
		case string:
			if len(v) > 512 || strings.HasPrefix(v, "data:") || strings.HasPrefix(v, "iVBOR") || strings.HasPrefix(v, "/9j/") {
				_, after, ok := strings.Cut(v, ";base64,")
				if !ok {
					after = v
				}
				if m.data, err = base64.StdEncoding.DecodeString(after); err != nil {
					return m, fmt.Errorf("column %s: neither base64 nor a file's name: %w", n, err)
				}
				return m, nil
			}
			if v != "" {
				return image{dir: r.dir, name: filepath.Join(folder, v)}, nil
			}
		}
	}
	return m, fmt.Errorf("no picture in column %s", strings.Join(names, " or "))
}

// sum tells pictures apart.
func (m image) sum() string {
	if m.data == nil {
		return m.name
	}
	return fmt.Sprintf("%x", sha256.Sum256(m.data))
}

func (m image) open() (*vision.Image, error) {
	if m.data != nil {
		return vision.Decode(m.data, vision.Limits{})
	}
	all, err := prompts.OpenPictures(m.dir, []string{m.name})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}
