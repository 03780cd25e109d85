package experiment

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/darkroom-rl/darkroom/config"
)

// mistaken is a file with one mistake, and all that is said of it.
type mistaken struct {
	name    string
	text    []byte
	message string
}

// allMistaken reads testdata/bad: an archive has cases of one table, each a .toml and then a file named message.
func allMistaken(t testing.TB) (all []mistaken) {
	t.Helper()
	files, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		archive, err := txtar.ParseFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(archive.Files)%2 != 0 {
			t.Fatalf("%s: %d files, which are no pairs of a .toml and its message", f, len(archive.Files))
		}
		for i := 0; i < len(archive.Files); i += 2 {
			asked, said := archive.Files[i], archive.Files[i+1]
			if filepath.Ext(asked.Name) != ".toml" || said.Name != "message" {
				t.Fatalf("%s: %s and %s, where a .toml and then a file named message belong", f, asked.Name, said.Name)
			}
			all = append(all, mistaken{asked.Name, asked.Data, string(said.Data)})
		}
	}
	return all
}

// TestBad: a file with one mistake is refused with its exact message.
func TestBad(t *testing.T) {
	all, seen := allMistaken(t), map[string]bool{}
	if len(all) < 268 {
		t.Errorf("only %d cases", len(all))
	}
	for _, m := range all {
		if seen[m.name] {
			t.Errorf("%s is there twice", m.name)
		}
		seen[m.name] = true
		_, err := Parse(m.name, m.text, nil)
		var mistakes config.Mistakes
		if !errors.As(err, &mistakes) {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if got := err.Error() + "\n"; got != m.message {
			t.Errorf("%s: got\n%swant\n%s", m.name, got, m.message)
		}
		if len(mistakes) != 1 && !strings.HasPrefix(m.name, "three-") {
			t.Errorf("%s: %d mistakes", m.name, len(mistakes))
		}
	}
}
