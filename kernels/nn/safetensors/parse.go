package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxRank bounds the dimensions of a tensor; NumPy stops here too.
const maxRank = 64

// parse reads the JSON of a header. Offsets are checked for order only; layout
// does the rest. The tokens are walked by hand, since decoding into a map would
// let a later duplicate replace an earlier tensor silently.
func parse(text []byte) (*Header, error) {
	if text[0] != '{' {
		return nil, problem(hintAgain, "the header is not JSON: it starts with byte %#x, not '{'", text[0])
	}
	p, err := newWalker(text, 8)
	if err != nil {
		return nil, err
	}
	h := &Header{}
	seen := map[string]bool{}
	err = p.object(func(name string) error {
		if seen[name] {
			return tensorProblem(name, hintWriter, "listed twice in the header")
		}
		seen[name] = true
		if name == "__metadata__" {
			h.Metadata = map[string]string{}
			return p.metadata(h.Metadata)
		}
		info, err := p.tensor(name)
		h.Tensors = append(h.Tensors, info)
		return err
	})
	if err != nil {
		return nil, err
	}
	return h, p.end()
}

// A walker reads JSON token by token and knows where in the file it is.
type walker struct {
	dec  *json.Decoder
	base int64 // of the text in the file
}

func newWalker(text []byte, base int64) (*walker, error) {
	if !utf8.Valid(text) {
		return nil, problem(hintAgain, "the JSON is not UTF-8 text")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return &walker{dec, base}, nil
}

func (p *walker) next() (json.Token, error) {
	tok, err := p.dec.Token()
	if err != nil {
		var syntax *json.SyntaxError
		at := p.dec.InputOffset()
		if errors.As(err, &syntax) {
			at = syntax.Offset
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends too early")
		}
		return nil, problem(hintAgain, "invalid JSON at byte %d of the file: %v", p.base+at, err)
	}
	return tok, nil
}

func (p *walker) wrong(want string, got json.Token) error {
	s := "something else"
	switch g := got.(type) {
	case json.Delim:
		s = strconv.Quote(g.String())
	case json.Number:
		s = shorten(g.String())
	case string:
		s = strconv.Quote(shorten(g))
	case bool:
		s = strconv.FormatBool(g)
	case nil:
		s = "null"
	}
	return problem(hintWriter, "byte %d of the file: want %s, got %s", p.base+p.dec.InputOffset(), want, s)
}

// object reads { key: value, ... }; each must consume the value.
func (p *walker) object(each func(key string) error) error {
	tok, err := p.next()
	if err != nil {
		return err
	}
	if tok != json.Delim('{') {
		return p.wrong("an object", tok)
	}
	for p.dec.More() {
		key, err := p.next()
		if err != nil {
			return err
		}
		if err := each(key.(string)); err != nil { // the decoder lets nothing but strings be keys
			return err
		}
	}
	_, err = p.next()
	return err
}

// list reads [ number, ... ] of at most most numbers.
func (p *walker) list(what string, most int) ([]int64, error) {
	tok, err := p.next()
	if err != nil {
		return nil, err
	}
	if tok != json.Delim('[') {
		return nil, p.wrong(what+" as a list", tok)
	}
	all := []int64{}
	for p.dec.More() {
		tok, err := p.next()
		if err != nil {
			return nil, err
		}
		n, ok := tok.(json.Number)
		if !ok {
			return nil, p.wrong("a number in "+what, tok)
		}
		v, err := strconv.ParseInt(n.String(), 10, 64)
		switch {
		case strings.HasPrefix(n.String(), "-"):
			return nil, p.wrong("no negative number in "+what, tok)
		case err != nil:
			return nil, p.wrong("a whole number below 2^63 in "+what, tok)
		case len(all) == most:
			return nil, problem(hintWriter, "byte %d of the file: %s has more than %d numbers", p.base+p.dec.InputOffset(), what, most)
		}
		all = append(all, v)
	}
	_, err = p.next()
	return all, err
}

func (p *walker) text(what string) (string, error) {
	tok, err := p.next()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", p.wrong(what+" as a string", tok)
	}
	return s, nil
}

// value decodes a whole value; encoding/json bounds its depth.
func (p *walker) value(into any) error {
	if err := p.dec.Decode(into); err != nil {
		return problem(hintAgain, "invalid JSON before byte %d of the file: %v", p.base+p.dec.InputOffset(), err)
	}
	return nil
}

// mostMetadata is how many keys the metadata of a file has: a header of the largest size could hold ten
// million, which take twenty times their bytes.
const mostMetadata = 1 << 16

func (p *walker) metadata(into map[string]string) error {
	return p.object(func(key string) error {
		if len(into) == mostMetadata {
			return problem(hintWriter, "metadata of more than %d keys", mostMetadata)
		}
		if _, twice := into[key]; twice {
			return problem(hintWriter, "metadata key %q is listed twice", shorten(key))
		}
		s, err := p.text("metadata " + strconv.Quote(shorten(key)))
		into[key] = s
		return err
	})
}

// tensor reads {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}.
// Keys that the format does not know are skipped.
func (p *walker) tensor(name string) (Info, error) {
	t := Info{Name: name}
	seen := map[string]bool{}
	named := func(err error) error {
		var e *Error
		if errors.As(err, &e) && e.Tensor == "" {
			e.Tensor = name
		}
		return err
	}
	err := p.object(func(key string) error {
		if seen[key] {
			return problem(hintWriter, "%q is listed twice", shorten(key))
		}
		seen[key] = true
		switch key {
		case "dtype":
			s, err := p.text("dtype")
			if err != nil {
				return err
			}
			d, ok := dtypeNamed(s)
			if !ok {
				return problem("the file may be newer than this program, or damaged", "unknown dtype %q", shorten(s))
			}
			t.DType = d
		case "shape":
			dims, err := p.list("shape", maxRank)
			if err != nil {
				return err
			}
			t.Shape = make([]int, len(dims))
			for i, d := range dims {
				if d > math.MaxInt {
					return problem("the model needs a 64-bit machine", "dimension %d", d)
				}
				t.Shape[i] = int(d)
			}
		case "data_offsets":
			o, err := p.list("data_offsets", 2)
			if err != nil {
				return err
			}
			if len(o) != 2 || o[0] > o[1] {
				return problem(hintWriter, "data_offsets %v are not a begin and an end", o)
			}
			t.Offset, t.Bytes = o[0], o[1]-o[0]
		default:
			var skipped json.RawMessage
			return p.value(&skipped)
		}
		return nil
	})
	if err != nil {
		return t, named(err)
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return t, tensorProblem(name, hintWriter, "the header gives no %s", key)
		}
	}
	return t, nil
}

// end checks that only the padding is left.
func (p *walker) end() error {
	if tok, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		if err != nil {
			return problem(hintAgain, "text after the JSON's end, at byte %d of the file", p.base+p.dec.InputOffset())
		}
		return p.wrong("the JSON's end", tok)
	}
	return nil
}
