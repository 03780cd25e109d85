package experiment

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/config"
)

// disagreements are the keys that two methods of one table declare differently, and those that the table does not have.
func disagreements(methods []optioned, table []config.Key) (wrong []string) {
	type declared struct{ by, kind, limits string }
	seen := map[string]declared{}
	for _, m := range methods {
		if m.options == nil {
			continue
		}
		for _, k := range config.Keys(reflect.New(reflect.TypeOf(m.options)).Interface()) {
			one := declared{m.name, k.Kind, fmt.Sprint(k.Range, k.Enum)}
			if before, ok := seen[k.Path]; ok && (before.kind != one.kind || before.limits != one.limits) {
				wrong = append(wrong, fmt.Sprintf("%s is %s %s of %s, and %s %s of %s", k.Path, before.kind, before.limits, before.by, one.kind, one.limits, one.by))
			}
			seen[k.Path] = one
			if !slices.ContainsFunc(table, func(t config.Key) bool { return t.In == k.In && config.Last(t.Path) == config.Last(k.Path) }) {
				wrong = append(wrong, fmt.Sprintf("%s has %s, and the table of the file does not embed %v", m.name, k.Path, k.In))
			}
		}
	}
	return wrong
}

// TestOptions: methods that share a key agree about it, and a file can write every key of theirs.
func TestOptions(t *testing.T) {
	e := Default()
	keys, options := config.Keys(&e), 0
	for _, c := range e.choosers() {
		for _, wrong := range disagreements(c.has, keys) {
			t.Error(wrong)
		}
		for _, m := range c.has {
			options += len(optionTypes(m.options))
		}
	}
	if options < 60 {
		t.Errorf("only %d option structs", options)
	}
	type made struct {
		Rate float64 `toml:"rate" range:"[0,1]"`
	}
	type up struct {
		Rate int `toml:"rate"`
	}
	if wrong := disagreements([]optioned{{name: "a", options: made{}}, {name: "b", options: up{}}, {name: "c"}}, config.Keys(&made{})); len(wrong) != 2 {
		t.Errorf("of a made-up disagreement: %q", wrong)
	}
}

// TestReaderDefaults: the defaults of a key that names of methods change are listed with these methods.
func TestReaderDefaults(t *testing.T) {
	of := ReaderDefaults()
	for path, want := range map[string][]ReaderDefault{
		"loss.clip_range":     {{"tokens", "0.2"}},
		"loss.adv_max":        {{"awm", "1.0"}},
		"loss.kl.estimator":   {{"tokens", `"k3"`}, {"distill (tokens)", `"k2"`}},
		"advantage.singleton": {{"reinforce++-baseline", `"raw"`}},
		"loss.dual_clip":      nil,
	} {
		if !slices.Equal(of[path], want) {
			t.Errorf("%s: %v, not %v", path, of[path], want)
		}
	}
}
