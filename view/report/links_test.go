package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinks: a page shows nothing that lies beside the run's folder, and writes over nothing there.
func TestLinks(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.html.part", "images/heldout_before.png", "ledger.jsonl", "heldout.jsonl"} {
		dir := run(t)
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.RemoveAll(path), os.Symlink(secret, path)); err != nil {
			t.Skipf("links cannot be made here: %v", err)
		}
		if err := Write(dir); err == nil || !strings.Contains(err.Error(), filepath.Base(name)+" is a link") {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(secret); err != nil || string(text) != "a secret" {
			t.Fatalf("%s: %q, %v", name, text, err)
		}
	}
	dir := run(t)
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(dir, "images", "below")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"images/below/secret", "../" + filepath.Base(filepath.Dir(secret)) + "/secret", secret} {
		if text, err := inside(dir, name); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}
