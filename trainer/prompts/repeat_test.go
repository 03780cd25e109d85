package prompts

import (
	"math/rand/v2"
	"testing"
)

// Every chosen prompt is there k times, and no other.
func TestRepeatMakesWholeGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ k, batch, world, prompts int }{{1, 1, 1, 1}, {4, 2, 4, 9}, {3, 6, 2, 4}, {8, 8, 1, 3}} {
		perm := r.Perm(c.prompts)
		unique, ranks, err := Repeat(perm, r.Perm(c.world*c.batch), c.k, c.batch, c.world)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if unique != c.world*c.batch/c.k || len(ranks) != c.world {
			t.Errorf("%+v: %d prompts on %d workers", c, unique, len(ranks))
		}
		counts := map[int]int{}
		for _, row := range ranks {
			if len(row) != c.batch {
				t.Errorf("%+v: a worker has %d", c, len(row))
			}
			for _, p := range row {
				counts[p]++
			}
		}
		if len(counts) != unique {
			t.Errorf("%+v: %d prompts, want %d", c, len(counts), unique)
		}
		for _, p := range perm[:unique] {
			if counts[p] != c.k {
				t.Errorf("%+v: prompt %d is there %d times", c, p, counts[p])
			}
		}
	}
}

func TestRepeatRefuses(t *testing.T) {
	for name, c := range map[string]struct{ k, batch, world, prompts, shuffle int }{
		"groups that are cut": {3, 2, 2, 9, 4},
		"groups of none":      {0, 2, 2, 9, 4},
		"too few prompts":     {1, 2, 2, 3, 4},
		"a short shuffle":     {2, 2, 2, 9, 3},
	} {
		if _, _, err := Repeat(make([]int, c.prompts), make([]int, c.shuffle), c.k, c.batch, c.world); err == nil {
			t.Errorf("%s pass", name)
		}
	}
}

// Equal prompts share a seed; the run's seed moves it, inside 31 bits. The SHA-256 of nothing
// begins with e3b0c442.
func TestPromptSeed(t *testing.T) {
	if got, want := PromptSeed("", 0), 0xe3b0c442%(1<<31); got != want {
		t.Errorf("the seed of no words is %d, want %d", got, want)
	}
	for _, p := range []string{"", "a cat", "ein Bär"} {
		a, b := PromptSeed(p, 1), PromptSeed(p, 0)
		if (b+1)%(1<<31) != a || a < 0 || a >= 1<<31 {
			t.Errorf("%q: %d and %d", p, a, b)
		}
	}
}
