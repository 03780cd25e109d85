package rewards

import (
	"context"
	"errors"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
)

// A Detector finds things in pictures. One that can be told what to look for is told labels.
type Detector interface {
	Detect(ctx context.Context, m *vision.Image, labels []string) ([]Detection, error)
}

// A Detection is a thing that was found.
type Detection struct {
	Class string
	Color string // "" where the detector does not say
	Box   boxes.Box
	Score float64 // how sure it is, up to 1
}

// Layout is boxes.Matching on what a detector finds in the picture; its card says how. The
// prompt's meta.boxes lists what is asked for: [{"label": "dog", "box": [x0, y0, x1, y1]}], in
// the picture's pixels.
type Layout struct {
	Detector Detector
	boxes.Matching
}

var errNoImage = errors.New("there is no picture to judge")

// Score judges a picture.
func (l Layout) Score(ctx context.Context, item Item) (Score, error) {
	if item.Image == nil {
		return Score{}, errNoImage
	}
	var asked []struct {
		Label string    `json:"label"`
		Box   boxes.Box `json:"box"`
	}
	if err := item.Meta.Read("boxes", &asked); err != nil {
		return Score{}, err
	}
	var want, found []boxes.Labelled
	var labels []string
	for _, a := range asked {
		want = append(want, boxes.Labelled{Box: a.Box, Label: a.Label})
		labels = withLabel(labels, a.Label)
	}
	seen, err := l.Detector.Detect(ctx, item.Image, labels)
	if err != nil {
		return Score{}, err
	}
	for _, d := range seen {
		found = append(found, boxes.Labelled{Box: d.Box, Label: d.Class})
	}
	var s Score
	var pairs []boxes.Pair
	if s.Value, pairs, err = l.Match(found, want); err != nil {
		return Score{}, err
	}
	s.Evidence = matched(found, pairs)
	return s, nil
}

// withLabel is a list of different labels with one more.
func withLabel(labels []string, label string) []string {
	if slices.Contains(labels, label) {
		return labels
	}
	return append(labels, label)
}
