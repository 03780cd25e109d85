package rewards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// A Detector finds things in pictures. An open-vocabulary detector gets labels to look for.
type Detector interface {
	Detect(ctx context.Context, m *vision.Image, labels []string) ([]Detection, error)
}

// A Detection is a thing that was found.
type Detection struct {
	Class string
	Color string // "" where the detector does not say
	Box   boxes.Box
	Score float64 // how sure it is, up to 1
	Mask  []bool  // of the picture's pixels; nil of a detector without masks
}

// Layout is boxes.Matching on the things that a detector finds in the picture; its card says how. The prompt's
// meta.boxes lists the wanted things: [{"label": "dog", "box": [x0, y0, x1, y1]}], in the picture's pixels. A scene's
// caption without meta.boxes wants its objects and letters in their places.
type Layout struct {
	Detector Detector
	boxes.Matching
}

// A wish is a thing that is wanted, and where.
type wish struct {
	Label string    `json:"label"`
	Color string    `json:"color"`
	Box   boxes.Box `json:"box"`
}

// wishes are those of a prompt.
func wishes(p Prompt) (all []wish, err error) {
	if p.Meta.Has("boxes") != nil {
		if scene, err := scenes.Parse(p.Text); err == nil {
			for _, o := range scene.Wanted() {
				all = append(all, wish{o.Shape, o.Color, boxes.Box(o.Box)})
			}
			return all, nil
		}
	}
	return all, p.Meta.Read("boxes", &all)
}

// ErrNoImage is of an item that shows no picture.
var ErrNoImage = errors.New("there is no picture to judge")

// Score judges a picture.
func (l Layout) Score(ctx context.Context, item Item) (Score, error) {
	if item.Image == nil {
		return Score{}, ErrNoImage
	}
	asked, err := wishes(Prompt{Text: item.Prompt, Meta: item.Meta})
	if err != nil {
		return Score{}, err
	}
	var want, found []boxes.Labelled
	var labels []string
	colored := map[string]bool{} // labels with a colour
	for _, a := range asked {
		if was, ok := colored[a.Label]; ok && was != (a.Color != "") {
			return Score{}, fmt.Errorf("meta.boxes has %q with and without a color; write one for all of a label, or for none", a.Label)
		}
		want = append(want, boxes.Labelled{Box: a.Box, Label: strings.TrimSpace(a.Color + " " + a.Label)})
		labels, colored[a.Label] = withLabel(labels, a.Label), a.Color != ""
	}
	seen, err := l.Detector.Detect(ctx, item.Image, labels)
	if err != nil {
		return Score{}, err
	}
	for _, d := range seen {
		label := d.Class
		if colored[d.Class] {
			label = strings.TrimSpace(d.Color + " " + label)
		}
		found = append(found, boxes.Labelled{Box: d.Box, Label: label})
	}
	var s Score
	var pairs []boxes.Pair
	if s.Value, pairs, err = l.Match(found, want); err != nil {
		return Score{}, err
	}
	for _, w := range want {
		s.Evidence = append(s.Evidence, Evidence{What: "asked for", Text: w.Label, Box: &w.Box})
	}
	s.Evidence = append(s.Evidence, matched(found, pairs)...)
	return s, nil
}

// withLabel is a list of different labels with one more.
func withLabel(labels []string, label string) []string {
	if slices.Contains(labels, label) {
		return labels
	}
	return append(labels, label)
}

// LayoutOptions are of reward layout.
type LayoutOptions struct{ boxes.Matching }

// SetDefaults is the IoU, boxes too many cost.
func (o *LayoutOptions) SetDefaults() {
	*o = LayoutOptions{boxes.Matching{Score: "iou", DivideBy: "max"}}
}

// LayoutKey is the table of LayoutOptions.
type LayoutKey struct {
	Layout *LayoutOptions `toml:"layout" doc:"of reward layout: what pairs of boxes are worth"`
}

type layoutKeys struct {
	NetworkKeys
	ServerKeys
	FrameKeys
	LayoutKey
	DetectorKey
}

// LayoutKind is reward layout.
var LayoutKind = Kind{
	Name:    "layout",
	Card:    "Objects where the prompt says: those of embedded scenes, or, by a detector at path or at url, where meta.boxes or a scene's caption says.",
	Paper:   "boxes by the Hungarian algorithm (Kuhn, 1955); GIoU (Rezatofighi et al., 2019), DIoU and CIoU (Zheng et al., 2020)",
	Cases:   []string{"boxes.layout_reward", "boxes.assign", "boxes.iou", "boxes.giou", "boxes.diou", "boxes.ciou"},
	Judges:  Pictures,
	Traits:  Scenes,
	Options: layoutKeys{},
	Check: Checks(func(k layoutKeys, report Report) {
		k.DetectorKey.Check(k.NetworkKeys, k.ServerKeys, report)
	}),
	Needs: With(func(k layoutKeys) Need {
		if k.URL == "" && k.Path == "" {
			return captioned
		}
		return func(p Prompt) error {
			if captioned(p) == nil {
				return nil
			}
			return p.Meta.Has("boxes")
		}
	}),
	Open: Opens(func(k layoutKeys, b Bench) (Opened, error) {
		match := config.Filled(k.Layout).Matching
		if k.URL == "" && k.Path == "" {
			return One(SceneLayout{Matching: match}), nil
		}
		if k.Path != "" {
			d, err := OpenDetector(k.NetworkKeys, k.DetectorKey, b, false)
			if err != nil {
				return Opened{}, err
			}
			if k.Detector == nil {
				d.Least = usualLeast
			}
			return Opened{Judge: Each(Layout{Detector: d, Matching: match}, 1), Close: func() error { d.Close(); return nil }}, nil
		}
		d, err := k.At(k.ServerKeys, b)
		return One(Layout{Detector: d, Matching: match}), err
	}),
}
