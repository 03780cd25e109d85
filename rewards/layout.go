package rewards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
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
		s.Evidence = append(s.Evidence, evidence.Reason{What: "asked for", Text: w.Label, Box: &w.Box})
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
type LayoutOptions struct {
	boxes.Matching
	Extra string `toml:"extra" enum:"ignore,count" doc:"things of labels that the prompt does not name, by a detector of a list of classes at path: count, as boxes too many, or ignore"`
}

// SetDefaults is the IoU, boxes too many of the prompt's labels cost.
func (o *LayoutOptions) SetDefaults() {
	*o = LayoutOptions{Matching: boxes.Matching{Score: "iou", DivideBy: "max"}, Extra: "ignore"}
}

// Check refuses things that no one would look for, or that would cost nothing.
func (k LayoutKey) Check(n NetworkKeys, report Report) {
	switch {
	case k.Layout == nil || k.Layout.Extra != "count":
	case n.Path == "":
		report("layout.extra", "things of all labels are found by a detector at path alone", `write its path, or extra = "ignore"`)
	case k.Layout.DivideBy == "want":
		report("layout.extra", `things too many cost nothing where the sum is divided by what was asked for`, `write divide_by = "max", or extra = "ignore"`)
	}
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
	Name:      "layout",
	Card:      "Objects where the prompt says: those of embedded scenes, or, by a detector at path or at url, where meta.boxes or a scene's caption says.",
	Paper:     "boxes by the Hungarian algorithm (Kuhn, 1955); GIoU (Rezatofighi et al., 2019), DIoU and CIoU (Zheng et al., 2020)",
	Cases:     []string{"boxes.layout_reward", "boxes.assign", "boxes.iou", "boxes.giou", "boxes.diou", "boxes.ciou"},
	Published: &Published{From: []Repository{{Name: "PekingU/rtdetr_r50vd"}}, Licence: "Apache-2.0", Numbers: 42_900_000},
	Judges:    Pictures,
	Traits:    Scenes,
	Options:   layoutKeys{},
	Takes:     With(func(k layoutKeys) int64 { return k.DetectorTakes() }),
	Check: Checks(func(k layoutKeys, report Report) {
		k.DetectorKey.Check(k.NetworkKeys, k.ServerKeys, report)
		k.LayoutKey.Check(k.NetworkKeys, report)
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
		options := config.Filled(k.Layout)
		match := options.Matching
		if k.URL == "" && k.Path == "" {
			return One(SceneLayout{Matching: match}), nil
		}
		if k.Path != "" {
			d, err := OpenDetector(k.NetworkKeys, k.DetectorKey, b, false)
			if err != nil {
				return Opened{}, err
			}
			if k.Detector == nil {
				d.Least = UsualLeast
			}
			l := Layout{Detector: d, Matching: match}
			if options.Extra == "count" {
				if d.Labels() == nil {
					d.Close()
					return Opened{}, fmt.Errorf("layout.extra is \"count\", and %s finds what a text names alone; a detector of a list of classes is needed\nhint: write extra = \"ignore\"", k.Path)
				}
				l.Detector = everything{d}
			}
			return Opened{Judge: Each(l, 1), Close: func() error { d.Close(); return nil }}, nil
		}
		d, err := k.At(k.ServerKeys, b)
		return One(Layout{Detector: d, Matching: match}), err
	}),
}
