package compare

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// reader gives the whole lines of a file. One that was torn at the end is left out.
type reader struct {
	path string
	file *os.File
	from *bufio.Reader
	n    int
}

// openLines opens a file of lines; a folder without it has none.
func openLines(path string) (*reader, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &reader{path: path, from: bufio.NewReader(strings.NewReader(""))}, nil
	}
	if err != nil {
		return nil, err
	}
	return &reader{path: path, file: f, from: bufio.NewReaderSize(f, 1<<16)}, nil
}

// next is the next line; nil at the end.
func (r *reader) next() ([]byte, error) {
	line, err := r.from.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	r.n++
	return bytes.TrimSuffix(line, []byte("\n")), err
}

func (r *reader) close() {
	if r.file != nil {
		r.file.Close() // it was only read
	}
}

// header holds the fields that identify a line.
type header struct {
	Iteration int    `json:"iteration"`
	Attempt   int    `json:"attempt"`
	Prompt    *int   `json:"prompt"`
	Sample    *int   `json:"sample"`
	Text      string `json:"text"`
	HeldOut   flag   `json:"heldout"`
	Rollback  *struct {
		From    int `json:"from"`
		Attempt int `json:"attempt"`
	} `json:"rollback"`
}

// flag is true where JSON says true, and false for all else: the ledger's heldout is an object.
type flag bool

func (f *flag) UnmarshalJSON(text []byte) error {
	*f = string(text) == "true"
	return nil
}

// when a line was written; a rollback ends the attempt before its own.
func (h header) when() moment {
	if h.Rollback != nil {
		return moment{h.Rollback.Attempt - 1, h.Rollback.From}
	}
	return moment{h.Attempt, h.Iteration}
}

// firstOf is the first difference of a file in the order of events: of the earliest iteration whose lines
// differ, the number that came to be first. nil: their common lines are equal.
func firstOf(a, b string, f file) (*Place, error) {
	ra, err := openLines(filepath.Join(a, f.name))
	if err != nil {
		return nil, err
	}
	defer ra.close()
	rb, err := openLines(filepath.Join(b, f.name))
	if err != nil {
		return nil, err
	}
	defer rb.close()
	var found []Place
	for {
		la, errA := ra.next()
		lb, errB := rb.next()
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		if la == nil || lb == nil {
			break
		}
		if bytes.Equal(la, lb) {
			continue
		}
		all, err := f.compare(la, lb, ra.n)
		if err != nil {
			return nil, fmt.Errorf("%s:%d or %s:%d: %w", ra.path, ra.n, rb.path, rb.n, err)
		}
		if len(all) == 0 {
			continue
		}
		if len(found) > 0 && found[0].when() != all[0].when() {
			break
		}
		found = append(found, all...)
	}
	if len(found) == 0 {
		return nil, nil
	}
	first := slices.MinFunc(found, before)
	return &first, nil
}

// compare lists the differences of two lines.
func (f file) compare(a, b []byte, n int) ([]Place, error) {
	var h header
	if err := json.Unmarshal(a, &h); err != nil {
		return nil, err
	}
	la, err := leaves(a)
	if err != nil {
		return nil, err
	}
	lb, err := leaves(b)
	if err != nil {
		return nil, err
	}
	all := differing(la, lb)
	for i := range all {
		p := &all[i]
		at := h.when()
		p.File, p.Line, p.Attempt, p.Iteration = f.name, n, at.attempt, at.iteration
		p.Prompt, p.Sample, p.Text, p.Token = h.Prompt, h.Sample, h.Text, token(p.Number)
		p.rank = f.rankOf(p.Number, bool(h.HeldOut))
	}
	return all, nil
}

// token is the index in a list over an episode's tokens.
func token(number string) *int {
	for _, list := range []string{"tokens", "sampled", "log_prob", "model_log_prob", "reward"} {
		if rest, ok := strings.CutPrefix(number, "episode."+list+"["); ok {
			if n, err := strconv.Atoi(strings.TrimSuffix(rest, "]")); err == nil {
				return &n
			}
		}
	}
	return nil
}

// leaf is a number, a text or a word of a JSON document, by its path.
type leaf struct {
	path, text string
	number     bool
}

// leaves are all of a document, in its order.
func leaves(text []byte) ([]leaf, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var all []leaf
	err := walk(dec, "", func(l leaf) { all = append(all, l) })
	return all, err
}

// walk reads one value.
func walk(dec *json.Decoder, path string, found func(leaf)) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		return walkInto(dec, v, path, found)
	case json.Number:
		found(leaf{path, v.String(), true})
	case nil:
		found(leaf{path, "null", false})
	case string:
		found(leaf{path, strconv.Quote(v), false})
	default:
		found(leaf{path, fmt.Sprint(v), false})
	}
	return nil
}

// walkInto reads an object or a list.
func walkInto(dec *json.Decoder, open json.Delim, path string, found func(leaf)) error {
	for n := 0; dec.More(); n++ {
		below := fmt.Sprintf("%s[%d]", path, n)
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			if below = fmt.Sprint(key); path != "" {
				below = path + "." + below
			}
		}
		if err := walk(dec, below, found); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// differing are the leaves of two documents that are not the same, in the order of the first.
func differing(a, b []leaf) []Place {
	in := map[string]leaf{}
	for _, l := range b {
		in[l.path] = l
	}
	var all []Place
	for _, l := range a {
		other, ok := in[l.path]
		delete(in, l.path)
		if ok && same(l, other) {
			continue
		}
		p := Place{Number: l.path, A: l.text, B: other.text}
		if l.number && other.number {
			p.Units = units(l.text, other.text)
		}
		all = append(all, p)
	}
	for _, l := range b {
		if _, ok := in[l.path]; ok {
			all = append(all, Place{Number: l.path, B: l.text})
		}
	}
	return all
}

// same compares numbers as numbers: versions may write them otherwise.
func same(a, b leaf) bool {
	if a.text == b.text || !a.number || !b.number {
		return a.text == b.text && a.number == b.number
	}
	n := units(a.text, b.text)
	return n != nil && *n == 0
}

// units returns the number of float64 values between two numbers; nil where one is not a float64.
func units(a, b string) *uint64 {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX != nil || errY != nil {
		return nil
	}
	n := apart(order64(x), order64(y))
	return &n
}

func apart(x, y int64) uint64 {
	if x < y {
		x, y = y, x
	}
	return uint64(x) - uint64(y)
}

// order64 numbers all float64 in their order; both zeros are 0.
func order64(x float64) int64 {
	bits := int64(math.Float64bits(x))
	if bits < 0 {
		return math.MinInt64 - bits
	}
	return bits
}

// order32 numbers all float32 in their order; both zeros are 0.
func order32(x float32) int64 {
	bits := int32(math.Float32bits(x))
	if bits < 0 {
		return int64(math.MinInt32) - int64(bits)
	}
	return int64(bits)
}
