package assets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSnapshot(t *testing.T) {
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		files []string
		want  string // below the folder, or "error: " and a part of it
	}{
		{"a plain folder", []string{"model_index.json"}, "."},
		{"the main branch", []string{"refs/main=abc\n", "snapshots/abc/config.json", "snapshots/def/config.json"}, "snapshots/abc"},
		{"the only snapshot", []string{"refs/v1=abc", "snapshots/abc/config.json"}, "snapshots/abc"},
		{"two, none of them main", []string{"refs/main=xyz", "snapshots/abc/config.json", "snapshots/def/config.json"}, "error: holds 2 snapshots"},
		{"outside", []string{"refs/main=../../x", "snapshots/abc/config.json", "snapshots/def/config.json"}, "error: holds 2 snapshots"},
		{"none", []string{"snapshots/file"}, "error: holds no snapshot"},
	} {
		dir := filepath.Join(t.TempDir(), "models--a--b")
		for _, f := range c.files {
			name, text, _ := strings.Cut(f, "=")
			write(filepath.Join(dir, filepath.FromSlash(name)), text)
		}
		got, err := Resolve(dir)
		if text, bad := strings.CutPrefix(c.want, "error: "); bad {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q, %v", c.name, got, err)
			}
			continue
		}
		if err != nil || got != filepath.Join(dir, filepath.FromSlash(c.want)) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}
