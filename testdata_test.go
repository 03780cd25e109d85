package darkroom_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestCommandsTestdata: a command's testdata are its own. Cases that several packages read are in internal/golden,
// settings of published models in internal/published.
func TestCommandsTestdata(t *testing.T) {
	read := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "runs" || file != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case path.Ext(file) != ".go":
			return nil
		}
		read++
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if joined.Match(text) && !strings.HasPrefix(file, "testdata_test") {
			t.Errorf("%s joins a path to a command's testdata", file)
		}
		for _, l := range literals(string(text)) {
			if of := commandsTestdata(file, l); of != "" {
				t.Errorf("%s reads %s, which belongs to another package", file, of)
			}
		}
		return nil
	})
	if err != nil || read < 1000 {
		t.Fatalf("%d files were read: %v", read, err)
	}
}

var (
	upwards = regexp.MustCompile(`(\.\./)+[\w./-]+`)
	joined  = regexp.MustCompile(`"\.\.", ("cmd", )?"(parity|darkroom)", "testdata"`)
	below   = regexp.MustCompile(`^(cmd/.+)/testdata(/|$)`)
)

// commandsTestdata is the testdata folder of a command, other than the file's own package, that a string names.
func commandsTestdata(file, literal string) string {
	for _, name := range upwards.FindAllString(literal, -1) {
		found := below.FindStringSubmatch(path.Join(path.Dir(file), name))
		if found != nil && found[1] != path.Dir(file) {
			return fmt.Sprintf("%s/testdata", found[1])
		}
	}
	return ""
}

func TestCommandsTestdataFails(t *testing.T) {
	for _, c := range [][3]string{
		{"vision/clip/a_test.go", `"../../cmd/parity/testdata/golden"`, "cmd/parity/testdata"},
		{"trainer/run/a_test.go", "`model.path='../../cmd/parity/testdata/golden/models/pipe_sd3'`", "cmd/parity/testdata"},
		{"cmd/darkroom/a_test.go", `"../parity/testdata/golden"`, "cmd/parity/testdata"},
		{"cmd/darkroom/pull/a_test.go", `"../../darkroom/pull/testdata"`, ""},
		{"vision/clip/a_test.go", `"../../internal/golden"`, ""},
		{"cmd/darkroom/a_test.go", `"testdata/script"`, ""},
	} {
		if got := commandsTestdata(c[0], c[1]); got != c[2] {
			t.Errorf("%s in %s: %q, not %q", c[1], c[0], got, c[2])
		}
	}
}
