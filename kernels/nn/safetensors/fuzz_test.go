package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"unicode/utf8"
)

// FuzzHeader takes any bytes for a file. An accepted file must be wholly covered by its tensors, each of the size of
// its shape, and encode must make of it a file that reads back the same.
func FuzzHeader(f *testing.F) {
	for text := range hostile() {
		if len(text) < 500 { // the fuzzer would spend its time on shortening the long one
			f.Add([]byte(text))
		}
	}
	f.Add([]byte(raw("{}", 0)))
	f.Add([]byte(raw(`{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[],"data_offsets":[4,5]}}`, 5)))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := readHeader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Problem == "" || e.Hint == "" {
				t.Fatalf("an error without a remedy: %v", err)
			}
			return
		}
		var all []Tensor
		at := int64(len(file))
		for i := len(h.Tensors) - 1; i >= 0; i-- {
			x := h.Tensors[i]
			if x.Offset+x.Bytes != at || x.Offset < 8 {
				t.Fatalf("%q at [%d, %d), the next one at %d", x.Name, x.Offset, x.Offset+x.Bytes, at)
			}
			at = x.Offset
			tensor := Tensor{x.Name, x.DType, x.Shape, file[x.Offset : x.Offset+x.Bytes], nil}
			if size, err := sizeOf(x.DType, x.Shape); err != nil || size != x.Bytes || tensor.Len() != x.Len() {
				t.Fatalf("%+v: %v", x, err)
			}
			if _, err := tensor.Float32(nil); err == nil && x.Len() > 0 {
				if _, err := tensor.BF16(nil); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = tensor.Int64(nil)
			all = append(all, tensor)
		}
		head, order, err := encode(all, h.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		again := append([]byte{}, head...)
		for _, x := range order {
			again = append(again, x.Data...)
		}
		h2, err := readHeader(bytes.NewReader(again), int64(len(again)))
		if err != nil || len(h2.Tensors) != len(h.Tensors) || len(h2.Metadata) != len(h.Metadata) {
			t.Fatalf("%q read back: %+v, %v", again, h2, err)
		}
		for i, x := range h2.Tensors {
			if order[i].Name != x.Name && x.Bytes > 0 || int64(len(order[i].Data)) != x.Bytes {
				t.Fatalf("%q moved", x.Name)
			}
		}
	})
}

// FuzzIndex takes any bytes for an index: it is accepted with a home for every
// tensor, or refused with a remedy.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":2},"weight_map":{"a":"s1.safetensors","b":"../s2.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		ix, err := parseIndex(text)
		if err == nil && (len(ix.shards()) == 0 || ix.total < 0) {
			t.Fatalf("%+v", ix)
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Hint == "") {
			t.Fatalf("an error without a remedy: %v", err)
		}
	})
}

// FuzzTokens holds the walker's tokens to those of encoding/json, of any JSON.
func FuzzTokens(f *testing.F) {
	f.Add([]byte(`{"a":[1,-2.5e3,{}],"b\"\\":"é\u00e9\ud800","":null} `))
	f.Add([]byte("[ ]"))
	f.Add([]byte(`"\\"`))
	f.Add([]byte("7"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := newWalker(text, 0)
		if (err == nil) != (json.Valid(text) && utf8.Valid(text)) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		value := string(bytes.Trim(text, " \t\r\n"))
		for {
			want, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			tok := p.next()
			got := string(tok)
			if tok[0] == '"' {
				got = unquoted(tok)
			}
			if want == nil {
				want = "null"
			}
			if got != fmt.Sprint(want) || p.at != int(dec.InputOffset()) {
				t.Fatalf("%q: %s at %d, want %v at %d", text, tok, p.at, want, dec.InputOffset())
			}
		}
		if whole, _ := newWalker(text, 0); string(whole.value()) != value {
			t.Fatalf("%q is not the whole value", text)
		}
	})
}
