package hub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigErrorsNameTheirPlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"_class_name": "Other", "n": 1}`, "it describes Other, and Wanted was expected"},
		{"{\n\"n\": 1,\n}", ":3: not JSON"},
		{"{\n\"n\": \"two\"}", `:2: "n" is string, and int was expected`},
		{`[1]`, "the whole is array"},
		{`{"architectures": ["A", "Wanted"], "n": 2}`, ""},
		{`{"n": 2}`, ""},
		{strings.Repeat(" ", maxBytes+1), "at most 16777216 are read"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		var got struct {
			N int `json:"n"`
		}
		err := Config(dir, &got, "Wanted")
		switch {
		case c.want == "" && (err != nil || got.N != 2):
			t.Errorf("%.40s: n = %d, %v", c.text, got.N, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "config.json")):
			t.Errorf("%.40s: %v, want %q", c.text, err, c.want)
		}
	}
	if err := Config(t.TempDir(), &struct{}{}); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("no file: %v", err)
	}
}

func TestLimits(t *testing.T) {
	var l Limits
	l.Int("layers", 3, 1, 4)
	l.Must(true, "fine")
	if l.Err() != nil {
		t.Error(l.Err())
	}
	l.Int("layers", 5, 1, 4)
	l.Must(false, "heads do not divide %d", 7)
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), `"layers" is 5`) || !strings.Contains(err.Error(), "divide 7") {
		t.Error(err)
	}
}
