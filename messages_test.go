package darkroom_test

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestTroubleshooting: every message that docs/troubleshooting.md quotes is still one of the program's.
func TestTroubleshooting(t *testing.T) {
	text, err := os.ReadFile("docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	messages := quoted.FindAllStringSubmatch(string(text), -1)
	if len(messages) < 50 {
		t.Errorf("%d messages are quoted", len(messages))
	}
	source := sources(t)
	for _, m := range messages {
		if !says(source, m[1]) {
			t.Errorf("docs/troubleshooting.md: no line of the program says %q", m[1])
		}
	}
	if says(source, "no such message in "+"any line") {
		t.Error("what nothing says is found")
	}
}

// A message is the first cell of a table's row.
var quoted = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// sources is the Go code that becomes part of the program.
func sources(t *testing.T) []byte {
	var all []byte
	for _, dir := range []string{"cmd/darkroom", "cmd/internal", "config", "data", "diffusion", "kernels", "outside", "record", "rewards", "trainer", "video", "view", "vision"} {
		err := fs.WalkDir(os.DirFS("."), dir, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || d.Name() == "gen"):
				return fs.SkipDir
			case d.IsDir() || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
				return nil
			}
			text, err := os.ReadFile(file)
			all = append(append(all, text...), '\n')
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// says reports whether one line of the source has the parts of a message, which … divides, in their order. A part
// that differs is a verb of a format there.
func says(source []byte, message string) bool {
	longest := ""
	parts := strings.Split(message, "…")
	for i, p := range parts {
		if len(p) > len(longest) {
			longest = p
		}
		parts[i] = regexp.QuoteMeta(strings.ReplaceAll(p, `"`, `\"`))
		parts[i] = strings.ReplaceAll(parts[i], `\\"`, `(\\"|"|%q)?`)
	}
	pattern := regexp.MustCompile(strings.Join(parts, `.*`))
	for rest := source; ; {
		_, from, found := bytes.Cut(rest, []byte(strings.Trim(longest, `"`)))
		if !found {
			return false
		}
		at := len(source) - len(from)
		start := bytes.LastIndexByte(source[:at-1], '\n') + 1
		end := bytes.IndexByte(source[at:], '\n')
		if end < 0 {
			end = len(source) - at
		}
		line := source[start : at+end]
		if pattern.Match(line) && !bytes.HasPrefix(bytes.TrimSpace(line), []byte("//")) {
			return true
		}
		rest = from
	}
}
