package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListings(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# A page\n```toml\n[run]\n```\ntext\n```\ndarkroom watch   # a server\n\ndarkroom train FILE.toml\n```\n```\nBEFORE AFTER\n```\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := listingsOf(page)
	if err != nil || len(all) != 3 || all[0].language != "toml" || all[2].isCommands() || !all[1].isCommands() {
		t.Fatalf("%+v, %v", all, err)
	}
	lines := all[1].commands()
	if len(lines) != 2 || lines[0].words != "darkroom watch" || lines[0].at != 7 || lines[1].at != 9 {
		t.Errorf("%+v", lines)
	}
	if !lines[0].serves() || lines[0].leaves() != "" || lines[1].serves() || !strings.Contains(lines[1].leaves(), "fill in") {
		t.Errorf("%+v", lines)
	}
}

// TestReader: a command that fails and output that nothing printed are failures, and the page's own output is not.
func TestReader(t *testing.T) {
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("there is no /bin/bash, which runs the pages' lines")
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("```\nprintf 'one  two\\n'\nprintf x > no/such/folder\nmake nothing\n```\n```\none two\n```\n```\nthree\n```\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := reader{dir: t.TempDir(), limit: 1e10}
	if err := r.read(page); err != nil {
		t.Fatal(err)
	}
	if r.fine != 2 || r.left != 1 || len(r.failed) != 2 || !strings.Contains(r.failed[0], "no such") && !strings.Contains(r.failed[0], "No such") || !strings.Contains(r.failed[1], "three") {
		t.Errorf("%d fine, %d left out, failed: %q", r.fine, r.left, r.failed)
	}
}

// TestExperiment: a listing with a model of its own is left out, and is not planned.
func TestExperiment(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("```toml\n[model]\npath = \"Wan\"\n```\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := reader{dir: t.TempDir(), limit: 1e10}
	if err := r.read(page); err != nil || r.left != 1 || len(r.failed)+r.fine != 0 {
		t.Errorf("%d left out, %d fine, failed: %q, %v", r.left, r.fine, r.failed, err)
	}
}
