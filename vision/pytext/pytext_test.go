package pytext

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for _, c := range [][3]string{
		{"strip", Strip(" \u00a0\x1c a b\u2003\n"), "a b"},
		{"fields", strings.Join(Fields(" a\u00a0b\x1dc "), "|"), "a|b|c"},
		{"a last sigma", Lower("ΟΔΟΣ ΣΑ"), "οδος σα"},
		{"a dotted I", Lower("İ"), "i\u0307"},
		{"a sharp s", Upper("straße"), "STRASSE"},
		{"last", Last("a=b=c", "="), "c"},
		{"last without", Last("abc", "="), "abc"},
		{"first", First("a$b$c", "$"), "a"},
		{"tail", Tail("日本語", 2), "本語"},
		{"a short tail", Tail("日", 2), "日"},
	} {
		if c[1] != c[2] {
			t.Errorf("%s: %q, want %q", c[0], c[1], c[2])
		}
	}
}

func TestFloat(t *testing.T) {
	for text, want := range map[string]float64{
		"12": 12, " 1.5\n": 1.5, ".5": 0.5, "5.": 5, "-1e3": -1000, "1_000": 1000, "+7": 7, "٣": 3, "１２": 12, "𝟗": 9,
		"inf": math.Inf(1), "-Infinity": math.Inf(-1), "1e999": math.Inf(1), "1E5": 1e5,
	} {
		if got, ok := Float(text); !ok || got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"nan", "-NaN", "+nan"} {
		if got, ok := Float(text); !ok || !math.IsNaN(got) {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", " ", "1 2", "0x10", "1_", "_1", "1__0", "e3", ".", "--1", "+-inf", "1,000", "²", "infinit", "1e", "in f"} {
		if got, ok := Float(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestIsDigit(t *testing.T) {
	for text, want := range map[string]bool{"12": true, "": false, "²": true, "①": true, "٣": true, "½": false, "1.5": false, "-1": false} {
		if IsDigit(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestJSON(t *testing.T) {
	v, err := JSON(` {"a": [1, 2.0, "x\u00e9\ud83d\ude00\n", null, true], "a ": {}, "a": [false, -0.5e1]} `)
	want := Object{"a": []any{false, Number{-5, true, "-0.5e1"}}, "a ": Object{}}
	if err != nil || !reflect.DeepEqual(v, want) {
		t.Errorf("%v, %v", v, err)
	}
	for text, want := range map[string]any{`"\ud83d\ude00"`: "😀", `"\ud800x"`: "\ufffdx", `"\ud800\u0041"`: "\ufffdA", `"a\/b"`: "a/b", "1": Number{1, false, "1"}} {
		if got, err := JSON(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"NaN", "[-Infinity]", "[NaN, 1]"} {
		if _, err := JSON(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "{", "[1,]", "{'a': 1}", "[1 2]", `{"a"}`, "01", "1.", "tru", "\"a\nb\"", `"\x"`, `"\u12g4"`, "\ufeff1", "+1", "[1]]", `"a`, "\u00a01", strings.Repeat("[", 5000)} {
		if v, err := JSON(text); err == nil {
			t.Errorf("%q: %v", text, v)
		}
	}
}

// TestDumps: the output of Python 3.11.
func TestDumps(t *testing.T) {
	for text, want := range map[string]string{
		` {"b":[1,2.0,-0,-0.0],"a":{"c":null,"b":[]},"b2":true , "b":{}} `:        `{"b": {}, "a": {"c": null, "b": []}, "b2": true}`,
		`[1e15, 1e16, 1.5e-5, 0.0001, 123456789012345678901234567890, 1e22, 0.1]`: `[1000000000000000.0, 1e+16, 1.5e-05, 0.0001, 123456789012345678901234567890, 1e+22, 0.1]`,
		`["é<>&'\u007f\"\\\/\u0001\u001f\b\f\n\r\t"]`:                             `["é<>&'` + "\x7f" + `\"\\/\u0001\u001f\b\f\n\r\t"]`,
		`[NaN, 1e999, -Infinity, -0, -0.0, -0e0]`:                                 `[NaN, Infinity, -Infinity, 0, -0.0, -0.0]`,
	} {
		v, err := OrderedJSON(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := Dumps(v); got != want {
			t.Errorf("%s\n     %s\nwant %s", text, got, want)
		}
	}
}

// FuzzJSON: it accepts each text that encoding/json accepts; nothing panics.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, "x"]}`, "[NaN]", `"\ud800"`, "[[", "1e5", "{}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := JSON(text)
		if err != nil && json.Valid([]byte(text)) && strings.Count(text, "[")+strings.Count(text, "{") < deepest {
			t.Errorf("%q: %v", text, err)
		}
		if v, err := OrderedJSON(text); err == nil {
			once := Dumps(v)
			again, err := OrderedJSON(once)
			if err != nil || Dumps(again) != once {
				t.Errorf("%q became %q, and that another, or %v", text, once, err)
			}
		}
		Lower(text)
		Float(text)
	})
}

// TestValues: the results of json.dumps(json.loads(text), ensure_ascii=False) and repr(json.loads(text)) in Python
// 3.11.
func TestValues(t *testing.T) {
	for _, c := range [][3]string{
		{`{"z": 1, "a": {"y": 2.0, "b": [true, null]}, "z": "é"}`, `{"z": "é", "a": {"y": 2.0, "b": [true, null]}}`, `{'z': 'é', 'a': {'y': 2.0, 'b': [True, None]}}`},
		{`[1E+2, -0.0, -0, 12345678901234567890, 0.1, 1e16, 1e-5, 123456789012345.0]`, `[100.0, -0.0, 0, 12345678901234567890, 0.1, 1e+16, 1e-05, 123456789012345.0]`, `[100.0, -0.0, 0, 12345678901234567890, 0.1, 1e+16, 1e-05, 123456789012345.0]`},
		{`[NaN, Infinity, -Infinity]`, `[NaN, Infinity, -Infinity]`, `[nan, inf, -inf]`},
		{`["it's", "a\"b'", "\t\u0001\u2028\\", "\ud83d\ude00/"]`, `["it's", "a\"b'", "\t\u0001` + "\u2028" + `\\", "😀/"]`, `["it's", 'a"b\'', '\t\x01\u2028\\', '😀/']`},
		{`{}`, `{}`, `{}`}, {`[]`, `[]`, `[]`}, {`"x"`, `"x"`, `'x'`},
	} {
		v, err := OrderedJSON(c[0])
		if err != nil {
			t.Fatal(c[0], err)
		}
		if got := Dumps(v); got != c[1] {
			t.Errorf("dump of %s: %s", c[0], got)
		}
		if got := ReprOf(v); got != c[2] {
			t.Errorf("repr of %s: %s, want %s", c[0], got, c[2])
		}
	}
	if Str("x") != "x" || TypeName(Ordered{}) != "dict" || TypeName(NewInt(3)) != "int" || !Truth(NewFloat(math.NaN())) || Truth(NewInt(0)) {
		t.Error("Str, TypeName or Truth")
	}
	if _, err := JSON(strings.Repeat("9", longestInt+1)); err == nil {
		t.Error("a whole number of 4301 digits was read")
	}
}
