package darkroom_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	ownVariable  = regexp.MustCompile(`DARKROOM_[A-Z_]+`)
	readVariable = regexp.MustCompile(`\b(?:Getenv|LookupEnv|env)\("([A-Z][A-Z0-9_]+)"\)`)
)

// TestEnvironment: docs/environment.md has every variable that the program, its scripts and its tests read, and no
// other of ours. Ours are fewer than ten: a campaign of tests is a flag, a setting of a run is a key of its file.
func TestEnvironment(t *testing.T) {
	text, err := os.ReadFile("docs/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	ours, read := map[string]string{}, 0
	err = fs.WalkDir(os.DirFS("."), ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == "runs" || file == "internal/golden" || file == ".git"):
			return fs.SkipDir
		case !slices.Contains([]string{".go", ".sh", ".sbatch", ".yaml", ".service", ".py", ".txt"}, path.Ext(file)) && file != ".ci/run" && file != "Makefile":
			return nil
		}
		read++
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, name := range ownVariable.FindAllString(string(source), -1) {
			ours[strings.TrimRight(name, "_")] = file
		}
		if !strings.HasSuffix(file, "_test.go") {
			for _, m := range readVariable.FindAllStringSubmatch(string(source), -1) {
				if !strings.Contains(page, "`"+m[1]+"`") && m[1] != "PROCESSOR_IDENTIFIER" && m[1] != "CXX" && m[1] != "PATH" {
					t.Errorf("%s reads %s, which docs/environment.md does not have", file, m[1])
				}
			}
		}
		return nil
	})
	if err != nil || read < 1000 {
		t.Fatalf("%d files were read: %v", read, err)
	}
	for _, name := range []string{"DARKROOM", "DARKROOM_NO_SUCH", "DARKROOM_SECRET"} { // of tests of keys
		delete(ours, name)
	}
	maps.DeleteFunc(ours, func(name, _ string) bool { // a test's own child; places of deploy/nats that nats-server fills
		return strings.HasPrefix(name, "DARKROOM_TEST") || strings.HasPrefix(name, "DARKROOM_NATS")
	})
	for name, file := range ours {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("%s: %s has no row in docs/environment.md", file, name)
		}
	}
	if len(ours) >= 10 {
		t.Errorf("%d variables of ours: %v", len(ours), slices.Sorted(maps.Keys(ours)))
	}
	for _, name := range ownVariable.FindAllString(page, -1) {
		if ours[name] == "" {
			t.Errorf("docs/environment.md has %s, which nothing reads", name)
		}
	}
}
