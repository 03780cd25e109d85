package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// raw is a file with the given header, padded as writers do, and n bytes of data.
func raw(header string, n int) string {
	for len(header)%8 != 0 {
		header += " "
	}
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + strings.Repeat("x", n)
}

// hostile files, each with a piece of the complaint that is expected.
func hostile() map[string]string {
	one := func(entry string) string { return raw(`{"a":`+entry+`}`, 4) }
	good := `{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	return map[string]string{
		"":                                   "0 bytes are too few",
		"1234567":                            "7 bytes are too few",
		"\xff\xff\xff\xff\xff\xff\xff\xff{}": "claims 18446744073709551615 bytes",
		"\x00\xe1\xf5\x05\x00\x00\x00\x00{}": "only 2 follow",
		"\x01\xe1\xf5\x05\x00\x00\x00\x00{}": "the most allowed is 100000000",
		"\x00\x00\x00\x00\x00\x00\x00\x00{}": "too few for any JSON",
		"version https://git-lfs.github.com/spec/v1\noid sha256:00\n":              "git lfs pull",
		"PK\x03\x04 archive/data.pkl":                                              "pickled",
		"GGUF\x03\x00\x00\x00\x01\x01":                                             "a name that ends in .gguf; other parts need safetensors",
		"a red circle on white\n":                                                  "this is text, not weights",
		"<!DOCTYPE html><html>":                                                    "web page",
		raw("[]", 0):                                                               "starts with byte 0x5b",
		raw("  {}", 0):                                                             "starts with byte 0x20",
		raw(`{"a":`, 0):                                                            "invalid JSON at byte",
		raw(`{"a" 1}`, 0):                                                          "invalid JSON at byte",
		raw("{\"\xff\":1}", 0):                                                     "not UTF-8",
		raw("{} x", 0):                                                             "invalid JSON at byte 12 of the file: invalid character 'x' after top-level value",
		raw("{} {}", 0):                                                            "invalid JSON at byte",
		raw(`{"a":`+good+`}`, 3):                                                   "only 3 bytes are there",
		raw(`{"a":`+good+`}`, 5):                                                   "1 bytes after the last tensor",
		raw("{}", 1):                                                               "1 bytes after the last tensor",
		raw(`{"a":`+good+`,"a":`+good+`}`, 4):                                      `"a": listed twice`,
		raw(`{"a":`+good+`,"\u0061":`+good+`}`, 4):                                 `"a": listed twice`,
		raw(`{"__metadata__":{},"__metadata__":{}}`, 0):                            "listed twice",
		raw(`{"__metadata__":{"k":"1","k":"2"}}`, 0):                               `"k" is listed twice`,
		raw(`{"__metadata__":{"k":1}}`, 0):                                         `want metadata "k" as a string, got 1`,
		raw(`{"__metadata__":[]}`, 0):                                              `want an object, got "["`,
		raw(`{"a":`+good+`,"b":`+good+`}`, 4):                                      `overlaps that of "a"`,
		raw(`{"a":`+good+`,"b":`+good+`}`, 8):                                      `overlaps that of "a"`,
		one(`{"dtype":"F32","shape":[1],"data_offsets":[1,5]}`):                    "only 4 bytes are there",
		raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}`, 5):           "bytes [0, 1) before its data belong to no tensor",
		one(`{"dtype":"F32","shape":[1],"data_offsets":[4,0]}`):                    "not a begin and an end",
		one(`{"dtype":"F32","shape":[1],"data_offsets":[0]}`):                      "not a begin and an end",
		one(`{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}`):                  "more than 2 numbers",
		one(`{"dtype":"F32","shape":[1],"data_offsets":[0,-4]}`):                   "want no negative number in data_offsets, got -4",
		one(`{"dtype":"F32","shape":[1],"data_offsets":[0,4.0]}`):                  "want a whole number below 2^63 in data_offsets, got 4.0",
		one(`{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}`): "want a whole number",
		one(`{"dtype":"F32","shape":[2305843009213693951],"data_offsets":[9223372036854775804,9223372036854775807]}`): "more elements than any file",
		one(`{"dtype":"U8","shape":[3],"data_offsets":[9223372036854775804,9223372036854775807]}`):                    "only 4 bytes are there",
		one(`{"dtype":"F32","shape":[2],"data_offsets":[0,4]}`):                                                       "span 4 bytes, but F32 [2] needs 8",
		one(`{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}`):                                                      "want no negative number in shape, got -1",
		one(`{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}`):                                   "more elements than any file",
		one(`{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,16]}`):                                  "more elements than any file",
		one(`{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}`):                                     "want a whole number below 2^63 in shape",
		one(`{"dtype":"F32","shape":[` + strings.Repeat("1,", 64) + `1],"data_offsets":[0,4]}`):                       "shape has more than 64 numbers",
		one(`{"dtype":"F32","shape":1,"data_offsets":[0,4]}`):                                                         "want shape as a list, got 1",
		one(`{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}`):                                                     `want a number in shape, got "["`,
		one(`{"dtype":"F4","shape":[1],"data_offsets":[0,0]}`):                                                        "do not end at a byte",
		one(`{"dtype":"F31","shape":[1],"data_offsets":[0,4]}`):                                                       `unknown dtype "F31"`,
		one(`{"dtype":null,"shape":[1],"data_offsets":[0,4]}`):                                                        "want dtype as a string, got null",
		one(`{"shape":[1],"data_offsets":[0,4]}`):                                                                     "gives no dtype",
		one(`{"dtype":"F32","data_offsets":[0,4]}`):                                                                   "gives no shape",
		one(`{"dtype":"F32","shape":[1]}`):                                                                            "gives no data_offsets",
		one(`{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}`):                                           `"shape" is listed twice`,
		one(`{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`):                                  "invalid JSON",
		one(`7`): "want an object, got 7",
	}
}

func TestHostileHeaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	for text, want := range hostile() {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err == nil {
			f.Close()
			t.Errorf("%.80q was opened", text)
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Hint == "" || e.Path != path || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q:\n%v\nwant %q", text, err, want)
		}
	}
}

func TestUnusualButValid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	for _, text := range []string{
		raw("{}", 0),
		raw(`{"__metadata__":{}}`, 0),
		raw(`{"a":{"data_offsets":[0,4],"shape":[],"dtype":"F32","new":{"x":[1,{}]}}}`, 4),
		raw(`{"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 4),
		raw(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[0,7],"data_offsets":[0,0]}}`, 0),
		raw(`{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, 1),
		raw(`{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for _, name := range f.Names() {
			if _, err := f.Tensor(name); err != nil {
				t.Error(err)
			}
		}
		f.Close()
	}
}

func TestNotAFile(t *testing.T) {
	folder := t.TempDir()
	if _, err := Open(folder); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Open(filepath.Join(folder, "no")); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "hint: check the path") {
		t.Errorf("nothing: %v", err)
	}
	if runtime.GOOS == "linux" {
		if _, err := Open("/dev/zero"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("/dev/zero: %v", err)
		}
	}
}

// A mistake in one of many long names must not fill the terminal.
func TestErrorsAreShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	name := strings.Repeat("n", 1<<20)
	text := raw(fmt.Sprintf(`{%q:{"dtype":%q}}`, name, name), 0)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	if err == nil || len(err.Error()) > 2000 {
		t.Errorf("%d bytes of error", len(err.Error()))
	}
}

// TestManyMetadata: metadata has a limit of keys, at which reading ends.
func TestManyMetadata(t *testing.T) {
	of := func(n int) []byte {
		var b strings.Builder
		b.WriteString(`{"__metadata__": {"a": "b"`)
		for i := range n - 1 {
			b.WriteString(`, "` + strconv.Itoa(i) + `": ""`)
		}
		return []byte(b.String() + "}}")
	}
	if h, err := parse(of(mostMetadata)); err != nil || len(h.Metadata) != mostMetadata {
		t.Error(err)
	}
	if _, err := parse(of(mostMetadata + 1)); err == nil || !strings.Contains(err.Error(), "more than 65536 keys") {
		t.Error(err)
	}
}
