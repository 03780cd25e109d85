package config

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// FuzzRead: no text panics, all messages can be printed, a valid text is written and read again, and go-toml's own
// decoder agrees about validity and content.
func FuzzRead(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, "heat.top=1")
	}
	f.Add("", "a")
	f.Add("", "run.name=7")
	f.Add("[[shelf]]", "shelf.0.height=3")
	f.Add("a = 1", "a.b = {c = 1}")
	f.Fuzz(func(t *testing.T, text, set string) {
		d := Parse("a.toml", []byte(text))
		compare(t, d, text)
		d.Set(set)
		var o oven
		d.Decode("", &o)
		d.Report("heat.top", "reported", "")
		if err := d.Err(); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}

// seeds hold one of everything.
var seeds = []string{
	whole,
	"a.b.c = 1\n[a.b.d]\n",
	"[a.b.c]\nz = 9\n[a]\nb.c.t = 1\n",
	"[[a]]\n[[a.b]]\n[a.b.c]\nx = 1\n[[a]]\n[a.b]\n",
	"a = [{b = 1, c = []}, {d = {e = 'x', f.g = true}}]\n[a.x]\n",
	"a = {\n b = 1, # c\n}\n",
	"x = \"\"\"\nlong \\\n  one\"\"\"\ny = '''a\n'b\n'''\n",
	"x = 1979-05-27T07:32:00Z\ny = 07:32:00\nz = 1979-05-27 07:32:00.999\n",
	"x = 0xdead_beef\ny = 0o17\nz = 0b11\nw = +1_0.5e-3\nv = -inf\nu = -nan\n",
	"\"quoted . key\" = 1\n'' = 2\n\"\\u00e9\".b = 3\r\n",
	"[a]\r\nb = 1 # c\r\n",
	"a = \nb = 1\n",
	"a = [1\n2]\nb = 1\n",
	"a = 'x\n[b]\nc = 1\n",
	"= 1", "[", "[[", "[]", "a.", "a = [", "a = {", "a = \"\\", "\ufeffa = 1",
	strings.Repeat("[", 2000), "a = " + strings.Repeat("[", 12000), "a = " + strings.Repeat("{a=", 12000),
	strings.Repeat("a.", 2000) + "b = 1",
}

// compare compares a document with go-toml's decoding of the text.
func compare(t *testing.T, d *Document, text string) {
	var want map[string]any
	err := toml.Unmarshal([]byte(strings.TrimPrefix(text, "\ufeff")), &want)
	ours := d.Err()
	switch {
	case err == nil && ours == nil:
		if got := plainTable(d.root); !same(got, want) {
			t.Errorf("%q is read as\n%v\nby go-toml as\n%v", text, got, want)
		}
	case err == nil && !ownRule(ours.(Mistakes)):
		t.Errorf("%q is TOML for go-toml, but: %v", text, ours)
	case err != nil && ours == nil && !hasDate(&value{kind: aTable, table: d.root}): // dates are not read, so not checked
		t.Errorf("%q is read, but go-toml says: %v", text, err)
	}
}

// ownRule reports whether each mistake is one against a limit that TOML has not.
func ownRule(all Mistakes) bool {
	for _, m := range all {
		own := false
		for _, words := range []string{"at most", "NUL"} {
			own = own || strings.Contains(m.Problem, words)
		}
		if !own {
			return false
		}
	}
	return true
}

func hasDate(v *value) bool {
	if v.table != nil {
		for _, e := range v.table.entries {
			if hasDate(e.value) {
				return true
			}
		}
	}
	for _, i := range v.items {
		if hasDate(i) {
			return true
		}
	}
	return v.kind == aDate
}

func plainTable(t *table) map[string]any {
	m := map[string]any{}
	for _, e := range t.entries {
		m[e.name] = plainValue(e.value)
	}
	return m
}

func plainValue(v *value) any {
	switch v.kind {
	case aString:
		return v.text
	case anInteger:
		return v.whole
	case aFloat:
		return v.real
	case aBool:
		return v.truth
	case aList:
		all := []any{}
		for _, i := range v.items {
			all = append(all, plainValue(i))
		}
		return all
	case aTable:
		return plainTable(v.table)
	}
	return nil
}

// same is reflect.DeepEqual, but NaN is itself, and dates are anything.
func same(got, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for k := range w {
			if !same(g[k], w[k]) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !same(g[i], w[i]) {
				return false
			}
		}
		return true
	case float64:
		g, ok := got.(float64)
		return ok && (g == w || math.IsNaN(g) && math.IsNaN(w))
	}
	return got == nil || reflect.DeepEqual(got, want)
}
