//go:build unix

package assets

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSpoiltCopy: a copy of a model of which one bit differs, which has a file more, or one by a link,
// is written anew.
func TestSpoiltCopy(t *testing.T) {
	root := t.TempDir()
	dir, err := Folder("embed:tiny-clip", root)
	if err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(dir, "model.safetensors")
	good, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	extra := filepath.Join(dir, "merges.txt.other")
	for name, spoil := range map[string]func() error{
		"a bit": func() error {
			bad := append([]byte(nil), good...)
			bad[len(bad)/2] ^= 1
			return os.WriteFile(weights, bad, 0o644)
		},
		"a file more": func() error { return os.WriteFile(extra, nil, 0o644) },
		"a link": func() error {
			elsewhere := filepath.Join(t.TempDir(), "x")
			return errors.Join(os.Rename(weights, elsewhere), os.Symlink(elsewhere, weights))
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := Folder("embed:tiny-clip", root); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(weights)
		info, bad := os.Lstat(weights)
		if _, there := os.Stat(extra); err != nil || bad != nil || string(now) != string(good) || !info.Mode().IsRegular() || there == nil {
			t.Errorf("%s: the copy stayed as it was", name)
		}
	}
}

// TestSharedFolder: without a folder of caches, models are kept in a folder that only this user may write to; a folder
// that somebody else prepared is refused.
func TestSharedFolder(t *testing.T) {
	shared := t.TempDir()
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("TMPDIR", shared)
	dir, err := Resolve("embed:tiny-clip")
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Dir(dir)
	if info, err := os.Stat(own); err != nil || filepath.Dir(own) != shared || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v", own, err)
	}
	if err := os.Chmod(own, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve("embed:tiny-clip"); err == nil || !strings.Contains(err.Error(), "XDG_CACHE_HOME") {
		t.Errorf("a folder that all may write to: %v", err)
	}
	if err := errors.Join(os.RemoveAll(own), os.Symlink(t.TempDir(), own)); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve("embed:tiny-clip"); err == nil {
		t.Error("a link is followed")
	}
}
