package training

import (
	"bytes"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/vision"
)

// The best and the worst picture of every iteration are kept, so that a person can see what the
// numbers mean.

// extremeSide is the longer side of a picture that is kept: enough to judge it, and small on a page.
const extremeSide = 256

// extremes writes the pictures of the highest and the lowest total, and returns their names in the
// folder by sample.
func (t *Training) extremes(r *trainer.Report, line *Line) (map[int]string, error) {
	best, worst := -1, -1
	for i, v := range r.Scores {
		if math.IsNaN(v) || r.Samples[i].Item.Image == nil {
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
		if err := t.picture(name, r.Samples[i].Item.Image); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// picture writes a picture, made smaller where it is large.
func (t *Training) picture(name string, m *vision.Image) error {
	if side := max(m.Width, m.Height); side > extremeSide {
		small, err := m.Resize(max(1, m.Width*extremeSide/side), max(1, m.Height*extremeSide/side), vision.Lanczos)
		if err != nil {
			return err
		}
		m = small
	}
	var out bytes.Buffer
	if err := vision.EncodePNG(&out, m); err != nil {
		return err
	}
	return t.folder.Write(name, out.Bytes())
}
