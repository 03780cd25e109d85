package darkroom_test

import (
	"os"
	"strings"
	"testing"
)

// TestDependencies: the README gives a reason for every module that go.mod
// requires directly, and for no other.
func TestDependencies(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	reasons := dependencyTable(string(readme))
	required := directModules(string(mod))
	if len(required) == 0 {
		t.Error("no module was found in go.mod")
	}
	for name := range required {
		if reasons[name] == "" {
			t.Errorf("README.md, Dependencies: no line says why %s is there", name)
		}
	}
	for name := range reasons {
		if !required[name] {
			t.Errorf("README.md, Dependencies: go.mod does not require %s directly", name)
		}
	}
}

// dependencyTable reads the rows of the table under the heading Dependencies.
func dependencyTable(readme string) map[string]string {
	_, section, _ := strings.Cut(readme, "\n## Dependencies\n")
	section, _, _ = strings.Cut(section, "\n## ")
	reasons := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) == 4 && strings.Contains(cells[1], "/") {
			reasons[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
		}
	}
	return reasons
}

// directModules are the requirements of a go.mod that are not marked indirect.
func directModules(mod string) map[string]bool {
	direct := map[string]bool{}
	inside := false
	for line := range strings.Lines(mod) {
		line = strings.TrimSpace(line)
		switch {
		case line == "require (":
			inside = true
			continue
		case line == ")":
			inside = false
		}
		line, single := strings.CutPrefix(line, "require ")
		if fields := strings.Fields(line); (inside || single) && len(fields) >= 2 && !strings.HasSuffix(line, "// indirect") {
			direct[fields[0]] = true
		}
	}
	return direct
}
