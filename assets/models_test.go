package assets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFolder: a model is written once, and again where its files were cut off.
func TestFolder(t *testing.T) {
	root := t.TempDir()
	for _, name := range Names() {
		dir, err := Folder(name, root)
		if err != nil {
			t.Fatal(err)
		}
		recipe := filepath.Join(dir, "recipe.toml")
		before, err := os.Stat(recipe)
		if err != nil {
			t.Fatalf("%s names no recipe: %v", name, err)
		}
		if packed, err := filepath.Glob(filepath.Join(dir, "*", "*.gz")); err != nil || len(packed) > 0 {
			t.Errorf("%s: %v are compressed (%v)", name, packed, err)
		}
		if again, err := Folder(name, root); err != nil || again != dir {
			t.Errorf("%s is %s, and then %s (%v)", name, dir, again, err)
		}
		if after, err := os.Stat(recipe); err != nil || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("%s was written twice", name)
		}
		if err := os.Truncate(recipe, 3); err != nil {
			t.Fatal(err)
		}
		if _, err := Folder(name, root); err != nil {
			t.Fatal(err)
		}
		if after, err := os.Stat(recipe); err != nil || after.Size() != before.Size() {
			t.Errorf("%s: a file that was cut off stayed so", name)
		}
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != len(Names()) {
		t.Errorf("%d folders are left for %d models (%v)", len(left), len(Names()), err)
	}
}

// TestSizes: embedded models stay small.
func TestSizes(t *testing.T) {
	for name, limit := range map[string]int{"tiny-sd3": 10 << 20, "tiny-clip": 2 << 20, "tiny-vlm": 3 << 20, "tiny-kontext": 3 << 18, "tiny-wan": 3 << 18, "tiny-wan-64": 3 << 19, "tiny-wan-64-noisy": 3 << 19, "tiny-mask2former": 1 << 20} {
		stored, err := filesBelow(os.DirFS(name), ".", "")
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, f := range stored {
			size += len(f.data)
		}
		if size > limit {
			t.Errorf("%s has %d bytes, more than %d", name, size, limit)
		}
	}
}

// TestBorrowed: a part that another model has, too, is stored once, and lies in both folders.
func TestBorrowed(t *testing.T) {
	root := t.TempDir()
	read := func(name, file string) string {
		dir, err := Folder(name, root)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "vae", file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for borrower, lender := range map[string]string{"tiny-kontext": "tiny-sd3", "tiny-wan-64-noisy": "tiny-wan-64"} {
		for _, file := range []string{"config.json", "diffusion_pytorch_model.safetensors"} {
			if read(Prefix+borrower, file) != read(Prefix+lender, file) {
				t.Errorf("vae/%s of %s is not %s's", file, borrower, lender)
			}
		}
		if _, err := os.Stat(borrower + "/vae"); err == nil {
			t.Errorf("%s/vae is stored", borrower)
		}
	}
}

func TestNamesThatAreNone(t *testing.T) {
	for _, name := range []string{"embed:", "embed:tiny", "embed:../assets", "embed:tiny-sd3/vae", "embed:.", "embed:configs"} {
		if dir, err := Folder(name, t.TempDir()); err == nil || !strings.Contains(err.Error(), "embed:tiny-sd3") {
			t.Errorf("%s: %s, %v", name, dir, err)
		}
	}
	if dir, err := Resolve("some/folder"); err != nil || dir != "some/folder" {
		t.Errorf("a path became %s (%v)", dir, err)
	}
}

// TestFetching: a name on the hub that is not here has the command that fetches it.
func TestFetching(t *testing.T) {
	for path, want := range map[string]string{"me/my-sd3": "darkroom pull me/my-sd3", "models/sd3": "pull OWNER/NAME", "a/b/c": "pull OWNER/NAME", "./x": "pull OWNER/NAME"} {
		if says := Fetching(path); !strings.Contains(says, want) {
			t.Errorf("%s: %s", path, says)
		}
	}
	t.Setenv("HOME", "/home/of")
	if dir, err := Resolve("~/sd3"); err != nil || dir != filepath.Join("/home/of", "sd3") {
		t.Errorf("~/sd3 is %s (%v)", dir, err)
	}
}

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
		t.Setenv("HF_HUB_CACHE", filepath.Dir(dir))
		if byName, err2 := Resolve("a/b"); byName != got || fmt.Sprint(err2) != fmt.Sprint(err) {
			t.Errorf("%s by OWNER/NAME: %q, %v, and by its path %q, %v", c.name, byName, err2, got, err)
		}
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
