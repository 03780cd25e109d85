package pytext

import (
	"math"
	"strings"
	"testing"
)

// TestValues: what json.dumps(json.loads(text), ensure_ascii=False) and repr(json.loads(text))
// give in Python 3.11.
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
