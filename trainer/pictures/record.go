package pictures

import (
	"bytes"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// The best and the worst picture of every iteration are kept, so that a person can see the meaning of the numbers.

// extremeSide is the longer side of a picture that is kept: enough to judge it, and small on a page.
const extremeSide = 256

// Files is model.Model's: pictures are files of their own.
func (m *Model) Files() []string { return nil }

// Record writes the pictures of the highest and the lowest total.
func (m *Model) Record(to model.Outputs, line *ledger.Line, r *trainer.Report) (map[int]string, error) {
	best, worst := -1, -1
	for i, v := range r.Scores {
		if item := r.Samples[i].Item; math.IsNaN(v) || item.Image == nil && item.Clip == nil {
			continue
		}
		if best < 0 || v > r.Scores[best] {
			best = i
		}
		if worst < 0 || v < r.Scores[worst] {
			worst = i
		}
	}
	if best < 0 || best == worst {
		return nil, nil
	}
	stem := fmt.Sprintf("images/%06d", line.Iteration)
	if line.Attempt > 0 {
		stem += fmt.Sprintf(".%d", line.Attempt)
	}
	names := map[int]string{best: stem + "_best.png", worst: stem + "_worst.png"}
	for i, name := range names {
		if err := keep(to.Folder, name, r.Samples[i].Item); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// keep writes a picture, or a clip as an animated PNG, made smaller where it is large.
func keep(to *folder.Folder, name string, item trainer.Item) error {
	var out bytes.Buffer
	if item.Clip == nil {
		m, err := small(item.Image)
		if err != nil {
			return err
		}
		if err := vision.EncodePNG(&out, m); err != nil {
			return err
		}
		return to.Write(name, out.Bytes())
	}
	c := *item.Clip
	c.Frames = nil
	for _, pix := range item.Clip.Frames {
		m, err := small(&vision.Image{Width: item.Clip.Width, Height: item.Clip.Height, Pix: pix})
		if err != nil {
			return err
		}
		c.Width, c.Height, c.Frames = m.Width, m.Height, append(c.Frames, m.Pix)
	}
	if err := video.EncodeAPNG(&out, &c); err != nil {
		return err
	}
	return to.Write(name, out.Bytes())
}

// small is a picture whose longer side is at most extremeSide.
func small(m *vision.Image) (*vision.Image, error) {
	side := max(m.Width, m.Height)
	if side <= extremeSide {
		return m, nil
	}
	return m.Resize(max(1, m.Width*extremeSide/side), max(1, m.Height*extremeSide/side), vision.Lanczos)
}

// The ledger's numbers of pictures.

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

// statistics are the means of measures of pictures without a network.
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

// framesShown is the number of a clip's frames in statistics.
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
