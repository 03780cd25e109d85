package rewards

import "context"

// Card: how sharp a picture is, the variance of its Laplacian (vision.Statistics has the
// formulas), with its other statistics as parts. It is won by noise: a reward to watch, or to
// weigh little.
type Sharpness struct{}

// Score judges a picture, or the mean of a clip's frames.
func (Sharpness) Score(_ context.Context, item Item) (Score, error) {
	frames, err := item.Frames(1)
	if err != nil {
		return Score{}, err
	}
	s := Score{Parts: map[string]float64{}}
	for _, m := range frames {
		x := m.Statistics()
		for name, v := range map[string]float64{"brightness": x.Brightness, "contrast": x.Contrast, "saturation": x.Saturation, "colourfulness": x.Colourfulness, "entropy": x.Entropy, "clipped": x.Clipped} {
			s.Parts[name] += v / float64(len(frames))
		}
		s.Value += x.Sharpness / float64(len(frames))
	}
	return s, nil
}

// SharpnessKind is reward sharpness.
var SharpnessKind = Kind{
	Name:    "sharpness",
	Card:    "Statistics of edges and colours.",
	Paper:   "the variance of the Laplacian (Pech-Pacheco et al., 2000)",
	Parts:   []string{"brightness", "contrast", "saturation", "colourfulness", "entropy", "clipped"},
	Judges:  Pictures,
	Options: FrameKeys{},
	Open:    Plain(Sharpness{}),
}
