package layouts

import (
	"strings"
	"testing"
)

// TestLayouts: each layout has a name of its own and words for help, and one way to be written.
func TestLayouts(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range All() {
		if l.Name == "" || l.Help == "" || seen[l.Name] || (l.Form == Whole) != (l.Write == nil) || l.Form == Whole && !l.Model {
			t.Errorf("%+v", l)
		}
		seen[l.Name] = true
		for line := range strings.Lines(l.Help) {
			if len(strings.TrimSpace(line)) > 72 {
				t.Errorf("%s: a line of help has %d characters", l.Name, len(line))
			}
		}
		if got, ok := Named(l.Name); !ok || got.Name != l.Name {
			t.Errorf("%s is not found", l.Name)
		}
		if second := l.Second("out.safetensors"); second == "out.safetensors" {
			t.Errorf("%s: a second adapter would be written over the first", l.Name)
		}
	}
	if len(Names()) != len(All()) {
		t.Errorf("%q of %d layouts", Names(), len(All()))
	}
	if got := Those("or", func(l Layout) bool { return l.Form != Whole }); got != "peft, diffusers, lora, kohya or comfyui" {
		t.Errorf("adapters: %q", got)
	}
}
