package prompts

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// plainRecords are lines that quick takes.
var plainRecords = []string{
	`{"prompt": "a cat"}`,
	` { "prompt" : "a sign that says \"HELLO\" \u00e9\n" , "meta" : { } } `,
	`{"meta": {"boxes": [ {"x": -1.5e+3, "y": [0, 0.25, true, null]}, [] ], "answer": "7", "said": "\\"}, "prompt": "b"}`,
	`{"prompt": "c", "negative": "", "width": 512, "height": 768}`,
	`{"prompt": "d \\ \/ \b\f\n\r\t\" \" e", "image": "a.png"}`,
	`{}`,
}

// otherRecords are lines that it leaves to record.
var otherRecords = []string{
	`{"prompt": "a", "weights": {"ocr": 1}}`, `{"prompt": "a", "meta": null}`, `{"Prompt": "a"}`, `{"prompt": "a", "prompt": "b"}`,
	`{"prompt": "a", "meta": {"x": {"y": 1, "y": 2}}}`, `{"pr\u006fmpt": "a"}`, `{"prompt": "a"} {}`, `{"prompt": "a"`, `{"prompt": 3}`,
	`{"prompt": "a", "meta": {"x": 01}}`, `{"prompt": "a", "meta": {"x": 1.}}`, `{"prompt": "a", "meta": {"x": +1}}`, "{\"prompt\": \"a\x01\"}",
	`{"prompt": "a", "width": 8.5, "height": 8}`, `{"prompt": "a", "meta": {"x": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}`, "", "null", `"a"`,
	`{"prompt": "a\x"}`, `{"prompt": "a",}`, `{"prompt": "a" "meta": {}}`, "{\"prompt\": \"a\"}\x00",
}

func TestQuick(t *testing.T) {
	for _, line := range plainRecords {
		p, ok := quick(line)
		slow, err := record(1, []byte(line))
		if !ok || err != nil || !reflect.DeepEqual(p, slow) {
			t.Errorf("%s: %+v (%v), and read in full %+v, %v", line, p, ok, slow, err)
		}
	}
	for _, line := range otherRecords {
		if p, ok := quick(line); ok {
			t.Errorf("%s: %+v", line, p)
		}
	}
}

// FuzzQuick: quick and record read the same prompt from a line that quick accepts.
func FuzzQuick(f *testing.F) {
	for _, line := range append(plainRecords, otherRecords...) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if p, ok := quick(string(line)); ok && utf8.Valid(line) {
			if slow, err := record(1, line); err != nil || !reflect.DeepEqual(p, slow) {
				t.Fatalf("%q: %+v, and read in full %+v, %v", line, p, slow, err)
			}
		}
	})
}

// TestListsReadOnce: a list is read once, and a mistake whenever it is asked for.
func TestListsReadOnce(t *testing.T) {
	var l Lists
	path := write(t, "a.txt", "a cat\n")
	first, err := l.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.Open(path)
	if err != nil || &first[0] != &again[0] {
		t.Errorf("read again: %v", err)
	}
	for range 2 {
		if _, err := l.Open(path + "x"); err == nil {
			t.Error("what is not there was read")
		}
	}
}

// BenchmarkRecords reads a list of 10,000.
func BenchmarkRecords(b *testing.B) {
	var text []byte
	for i := range 10000 {
		text = fmt.Appendf(text, `{"prompt": "a photo of %d red cubes on a \"table\"", "meta": {"tag": "counting", "include": [{"class": "cube", "count": %d}], "id": %d}}`+"\n", i, i, i)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := records(string(text)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMeta: a meta is read, and written, as the map that it stands for.
func TestMeta(t *testing.T) {
	for _, text := range []string{`{"b": [1, {"x": "<&>"}], "a": "7"}`, `{"a": 1 , "b": null}`, `{"\u0061": 1, "": 2}`, `{}`, `null`} {
		var m Meta
		var all map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal([]byte(text), &m), json.Unmarshal([]byte(text), &all)); err != nil {
			t.Fatal(err)
		}
		for key := range all {
			if v, ok := m.Get(key); !ok || string(v) != string(all[key]) {
				t.Errorf("%s: %q is %s", text, key, v)
			}
		}
		if v, ok := m.Get("c"); ok || len(m.Map()) != len(all) {
			t.Errorf("%s: c is %s; %v", text, v, m.Map())
		}
		type old struct {
			Meta map[string]json.RawMessage `json:"meta,omitempty"`
		}
		got, err := json.Marshal(struct {
			Meta Meta `json:"meta,omitempty"`
		}{m})
		want, err2 := json.Marshal(old{all})
		if err != nil || err2 != nil || string(got) != string(want) {
			t.Errorf("%s is written as %s, a map as %s; %v, %v", text, got, want, err, err2)
		}
		if again := MetaOf(m.Map()); !reflect.DeepEqual(again.Map(), m.Map()) {
			t.Errorf("%s: %s", text, again)
		}
	}
}
