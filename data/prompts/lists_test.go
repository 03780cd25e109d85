package prompts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLists: prompts know their list, whose folder their pictures lie in, also after a journey to another process.
func TestLists(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.txt"), filepath.Join(dir, "b", "b.txt")
	if err := os.Mkdir(filepath.Dir(b), 0o755); err != nil {
		t.Fatal(err)
	}
	var all []Prompt
	l := new(Lists)
	for _, name := range []string{a, b} {
		if err := os.WriteFile(name, []byte("one\ntwo\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		list, err := l.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	all = append(all, Prompt{Text: "a lesson"})
	if got := In(all, []string{b}); !slices.Equal(got, []int{2, 3}) || len(In(all, []string{a, b})) != 4 {
		t.Errorf("prompts of the second list: %v", got)
	}
	if all[0].Folder("else/x.txt") != dir || all[4].Folder("else/x.txt") != "else" {
		t.Errorf("folders %q, %q", all[0].Folder("else/x.txt"), all[4].Folder("else/x.txt"))
	}
	from := Stretches(all)
	if want := []Stretch{{a, 2}, {b, 2}, {"", 1}}; !slices.Equal(from, want) {
		t.Fatalf("%v", from)
	}
	there := make([]Prompt, len(all))
	Restore(there, append(from, Stretch{"more", 7}))
	if !slices.Equal(Stretches(there), from) {
		t.Errorf("%v", Stretches(there))
	}
}
