package training

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// What the ledger says of the samples beside their means: what a collapse or a hacked reward
// looks like before the mean shows it.

// describe fills in what a line says of its samples.
func (t *Training) describe(l *Line, r *trainer.Report, groups [][]int) {
	l.BestOf = map[string]float64{}
	for _, k := range experiment.BestOfs(t.turn.Rollout.Group) {
		if v := advantage.ExpectedBest(byGroup(groups, r.Scores), k); !math.IsNaN(v) {
			l.BestOf[decimal(k)] = v
		}
	}
	if t.bins == nil {
		t.bins = binsOf(r.Scores)
	}
	if t.bins != nil {
		l.Histogram = t.bins.count(r.Scores)
	}
	l.Pictures = pictures(r.Samples)
}

// byGroup are the numbers of every group.
func byGroup(groups [][]int, x []float64) [][]float64 {
	out := make([][]float64, len(groups))
	for g, at := range groups {
		for _, i := range at {
			out[g] = append(out[g], x[i])
		}
	}
	return out
}

// pictures are the means of what can be said of pictures without a network.
func pictures(samples []trainer.Sample) map[string]float64 {
	sums, n := map[string]float64{}, 0.0
	for _, s := range samples {
		if s.Item.Image == nil {
			continue
		}
		x := s.Item.Image.Statistics()
		for name, v := range map[string]float64{"brightness": x.Brightness, "contrast": x.Contrast, "saturation": x.Saturation, "colourfulness": x.Colourfulness,
			"entropy": x.Entropy, "clipped": x.Clipped, "sharpness": x.Sharpness} {
			sums[name] += v
		}
		n++
	}
	for name := range sums {
		sums[name] /= n
	}
	return sums
}

// logRatio is the root mean square of ratios' logarithms.
func logRatio(ratios []float64) float64 {
	sum := 0.0
	for _, r := range ratios {
		if r != 1 {
			sum += float64(portable.Log(r) * portable.Log(r))
		}
	}
	return math.Sqrt(sum / float64(max(1, len(ratios))))
}
