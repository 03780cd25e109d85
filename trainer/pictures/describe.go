package pictures

import (
	"math"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// What the ledger says of pictures.

// Describe implements model.Model.
func (m *Model) Describe(line *ledger.Line, r *trainer.Report) {
	line.Diversity = diversity(r.Samples, trainer.Groups(r.Samples))
	line.Pictures = statistics(r.Samples)
}

// diversity is the root of the mean squared difference of two samples of a prompt.
func diversity(samples []trainer.Sample, groups [][]int) float64 {
	sum, pairs := 0.0, 0.0
	for _, g := range groups {
		for k, i := range g {
			for _, j := range g[:k] {
				a, b := samples[i].Item.Final, samples[j].Item.Final
				d := 0.0
				for e := range a {
					d += float64((a[e] - b[e]) * (a[e] - b[e]))
				}
				sum, pairs = sum+math.Sqrt(d/float64(len(a))), pairs+1
			}
		}
	}
	if pairs == 0 {
		return 0
	}
	return sum / pairs
}

// statistics are the means of what can be said of pictures without a network.
func statistics(samples []trainer.Sample) map[string]float64 {
	sums, n := map[string]float64{}, 0.0
	for _, m := range shown(samples) {
		x := m.Statistics()
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

// framesShown are so many of a clip's that statistics are of.
const framesShown = 4

// shown are samples' pictures, and some frames of their clips.
func shown(samples []trainer.Sample) (all []*vision.Image) {
	for _, s := range samples {
		if s.Item.Image != nil {
			all = append(all, s.Item.Image)
		}
		if c := s.Item.Clip; c != nil {
			for _, i := range video.Uniform(len(c.Frames), min(framesShown, len(c.Frames))) {
				all = append(all, &vision.Image{Width: c.Width, Height: c.Height, Pix: c.Frames[i]})
			}
		}
	}
	return all
}
