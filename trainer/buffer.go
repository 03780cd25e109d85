package trainer

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// A Buffer keeps groups that had signal, and hands some of them out again (the selective sample
// buffer of Skywork R1V2; Wang et al., 2025):
//
//	a group is kept where one of its advantages is not 0, for Age iterations
//	an iteration gets Groups of them, drawn without replacement, each with probability in
//	proportion to the mean of its |advantage|
//
// Upstream draws samples; here a group stays whole, since objectives of pairs look at groups. A sample comes back
// with the log-probabilities and the advantage that it had: its ratio is that of today's weights to those that rolled
// it, and a clip bounds its further change.
//
// Invariant (test): a sample kept before a checkpoint is handed out after it.
type Buffer struct {
	Age    int // iterations
	Groups int // of an iteration
	// Uniform are n drawn numbers in [0, 1).
	Uniform func(iteration, n int) []float64
	Kept    []Group // oldest first
}

// A Group is samples of one prompt that were rolled together, with their advantages.
type Group struct {
	Samples []Sample
	Worth   []float64
}

// Iteration is when the group was rolled.
func (g Group) Iteration() int { return g.Samples[0].Key.Iteration }

// signal is the mean size of its samples' advantages.
func (g Group) signal() float64 {
	sum := 0.0
	for _, w := range g.Worth {
		sum += math.Abs(w)
	}
	return sum / float64(len(g.Worth))
}

// exchange hands out samples of earlier iterations, and keeps the groups of this one that have
// signal.
func (b *Buffer) exchange(iteration int, fresh []Sample, worth []float64) (again []Sample, value []float64) {
	var young []Group
	var weights []float64
	for _, g := range b.Kept {
		if iteration-g.Iteration() <= b.Age {
			young, weights = append(young, g), append(weights, g.signal())
		}
	}
	for _, k := range portable.Weighted(b.Uniform(iteration, b.Groups), weights, b.Groups) {
		for _, s := range young[k].Samples {
			s.Reused = true
			again = append(again, s)
		}
		value = append(value, young[k].Worth...)
	}
	b.Kept = young
	for _, g := range grouped(fresh, worth) {
		if g.signal() > 0 {
			b.Kept = append(b.Kept, g)
		}
	}
	return again, value
}

// grouped are the groups of an iteration's samples, in order of their first. Pictures that were made stay behind:
// objectives look at latents. Episodes keep theirs, which are looked at again.
func grouped(samples []Sample, worth []float64) []Group {
	var groups []Group
	for _, places := range Groups(samples) {
		g := Group{Samples: Pick(samples, places), Worth: Pick(worth, places)}
		for i := range g.Samples {
			g.Samples[i].Item.Image, g.Samples[i].Item.Clip = nil, nil
		}
		groups = append(groups, g)
	}
	return groups
}
