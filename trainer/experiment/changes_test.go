package experiment

import (
	"slices"
	"strings"
	"testing"
)

// TestDifferencesOfTables: a table that one of two files lacks is one line.
func TestDifferencesOfTables(t *testing.T) {
	const text = "preset = \"mixgrpo\"\n[run]\nname = \"a\"\niterations = 1\n[model]\npath = \"m\"\n[rollout]\nprompts = \"p\"\n[[reward]]\nname = \"jpeg\"\n"
	of := func(more string) *Experiment {
		e, err := Parse("a.toml", []byte(text+more), nil)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	without, with := of(""), of("[[monitor]]\nwatch = \"reward.jpeg\"\nis_below = 1\n[optim]\nlr = 1e-4\n")
	for _, all := range [][]string{Differences(without, with), Differences(with, without)} {
		monitors := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, "[monitor[0]]") })
		rates := slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, "optim.lr was ") })
		if len(monitors) != 1 || !strings.Contains(monitors[0], " settings") || !rates || len(all) > 3 {
			t.Errorf("%q", all)
		}
	}
}
