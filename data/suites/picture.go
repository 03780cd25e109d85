package suites

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/vision"
)

// Pictures are read on demand: a suite of 8K pictures has several times as many bytes as a machine has
// memory. A picture inside its row is found there again by the row's position in the file, and compared with its sum at
// the opening of the suite.

// image is a picture that is read when it is asked for.
type image struct {
	file    string              // the suite's
	name    string              // a file beside it; "": the picture is in its row
	again   func() (row, error) // reads that row anew
	columns []string
	hash    string // SHA-256 of its bytes
}

// image is the first of some columns that has a picture: bytes, base64, or a file's name beside the suite's.
func (r row) image(folder string, names ...string) (image, error) {
	data, name, err := r.picture(names)
	switch {
	case err != nil:
		return image{}, err
	case data != nil:
		return image{file: r.file, again: r.again, columns: names, hash: hashOf(data)}, nil
	}
	return image{file: r.file, name: filepath.Join(folder, name)}, nil
}

// picture is a picture's bytes, or the name of its file.
func (r row) picture(columns []string) (data []byte, name string, err error) {
	for _, n := range columns {
		switch v := r.values[n].(type) {
		case []byte:
			return v, "", nil
		case map[string]any:
			if data, ok := v["bytes"].([]byte); ok && len(data) > 0 {
				return data, "", nil
			}
		case string:
			if len(v) > 512 || strings.HasPrefix(v, "data:") || strings.HasPrefix(v, "iVBOR") || strings.HasPrefix(v, "/9j/") {
				_, after, ok := strings.Cut(v, ";base64,")
				if !ok {
					after = v
				}
				if data, err = base64.StdEncoding.DecodeString(after); err != nil {
					err = fmt.Errorf("column %s: neither base64 nor a file's name: %w", n, err)
				}
				return data, "", err
			}
			if v != "" {
				return nil, v, nil
			}
		}
	}
	return nil, "", fmt.Errorf("no picture in column %s", strings.Join(columns, " or "))
}

// sum tells pictures apart.
func (m image) sum() string {
	if m.again == nil {
		return m.name
	}
	return m.hash
}

func (m image) open() (*vision.Image, error) {
	if m.again != nil {
		r, err := m.again()
		if err != nil {
			return nil, err
		}
		data, _, err := r.picture(m.columns)
		if err != nil || hashOf(data) != m.hash {
			return nil, errors.Join(fmt.Errorf("%s has changed since it was opened: begin again, and leave it alone meanwhile", m.file), err)
		}
		return vision.Decode(data, vision.Limits{})
	}
	all, err := prompts.OpenPictures(filepath.Dir(m.file), []string{m.name})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func hashOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// textRow reads a row of a file of texts anew.
func textRow(file string, at stretch, parse func(text []byte) (map[string]any, error)) func() (row, error) {
	return func() (r row, err error) {
		f, err := regular.Open(file)
		if err != nil {
			return r, err
		}
		defer f.Close()
		text := make([]byte, at.to-at.from)
		if _, err := io.ReadFull(io.NewSectionReader(f, at.from, at.to-at.from), text); err != nil {
			return r, fmt.Errorf("reading %s again: %w", file, err)
		}
		if r.values, err = parse(text); err != nil {
			err = fmt.Errorf("reading %s again: %w", file, err)
		}
		return r, err
	}
}

// tableRow reads a row of a Parquet file anew.
func tableRow(file string, n int) func() (row, error) {
	return func() (r row, err error) {
		t, err := prompts.OpenTable(file)
		if err != nil {
			return r, err
		}
		defer t.Close()
		_, values, err := t.Row(n, true)
		r.values = columns(values)
		return r, err
	}
}
