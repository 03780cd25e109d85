package sde

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOwnWindows: a prompt's own window is one that the iteration's window has at some time, none is empty, all are
// met, and their means equal OwnMean, the frequencies of steps OwnShares.
func TestOwnWindows(t *testing.T) {
	sliding := DefaultWindow()
	sliding.Kind, sliding.Size, sliding.Stride, sliding.Every = "sliding", 4, 3, 2
	short, mix, decay, random, subset := sliding, sliding, sliding, sliding, sliding
	short.Tail, mix.Tail, mix.Size, mix.Stride = "short", "mixgrpo", 4, 1
	decay.Lasting, decay.MinEvery, decay.MaxEvery = "decay", 1, 9
	random.Kind, random.Size, random.From = "random", 3, 1
	subset.Kind, subset.Fraction = "subset", 0.4
	for name, o := range map[string]WindowOptions{"sliding": sliding, "short": short, "mixgrpo": mix, "decay": decay, "random": random, "subset": subset} {
		const steps, draws = 11, 10000
		r := rand.New(rand.NewPCG(1, 2))
		had := map[string]bool{}
		for i := range 400 {
			had[nameOf(o.Steps(steps, i, r.IntN))] = true
		}
		size, first, met, held := 0.0, 0.0, map[string]bool{}, make([]float64, steps)
		for range draws {
			own := o.OwnSteps(steps, r.IntN)
			if len(own) == 0 || o.Kind != "subset" && !had[nameOf(own)] || slices.ContainsFunc(own, func(s int) bool { return !slices.Contains(o.Reach(steps), s) }) {
				t.Fatalf("%s: a window %v", name, own)
			}
			size, first, met[nameOf(own)] = size+float64(len(own)), first+float64(own[0]), true
			for _, s := range own {
				held[s]++
			}
		}
		delete(had, nameOf(nil))
		if o.Kind != "subset" && len(met) != len(had) {
			t.Errorf("%s: %d windows are met of %d", name, len(met), len(had))
		}
		for s, want := range o.OwnShares(steps) {
			if math.Abs(held[s]/draws-want) > 0.03 || (held[s] == 0) != (want == 0) {
				t.Errorf("%s: step %d is held by %v of the windows, want %v", name, s, held[s]/draws, want)
			}
		}
		wantSize, wantFirst := o.OwnMean(steps)
		if math.Abs(size/draws-wantSize) > 0.1 || math.Abs(first/draws-wantFirst) > 0.1 {
			t.Errorf("%s: means %v and %v, want %v and %v", name, size/draws, first/draws, wantSize, wantFirst)
		}
	}
}

func nameOf(steps []int) string {
	var name []byte
	for _, s := range steps {
		name = append(name, byte('a'+s))
	}
	return string(name)
}
