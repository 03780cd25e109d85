package rewards

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detectors"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Card: a detector in a folder of the hub, computed here. Its kind is that of config.json: Mask2Former, RT-DETR and
// others (package detectors). A label outside a closed list is an error, not an absent thing. A thing's colour is
// that of most of its pixels, those of its mask or of the middle half of its box: the nearest of ColorTable, by the
// distance in RGB.
type FolderDetector struct {
	detectors.Detector
	DetectorOptions
}

// UsualLeast is the bound of scores for layouts, as in the published programs of most detectors.
const UsualLeast = 0.3

// OpenDetector opens the detector of a folder. Published reads pictures as GenEval does, where the kind has such a
// way.
func OpenDetector(k NetworkKeys, d DetectorKey, b Bench, published bool) (*FolderDetector, error) {
	dir, device, err := k.Place(b)
	if err != nil {
		return nil, err
	}
	f := &FolderDetector{DetectorOptions: config.Filled(d.Detector)}
	f.Detector, err = detectors.Open(dir, device, detectors.Options{Published: published, Exchanged: f.Order == "bgr"})
	return f, err
}

// DetectorTakes is the memory of a detector's activations, 0 where its folder cannot be opened.
func (k NetworkKeys) DetectorTakes() int64 {
	dir, err := k.Folder()
	if err != nil || dir == "" {
		return 0
	}
	precision := features.F32
	if k.Precision == "bf16" {
		precision = features.BF16
	}
	takes, err := detectors.Takes(dir, precision)
	if err != nil { // the run says why
		return 0
	}
	return takes
}

// Detect finds things.
func (f *FolderDetector) Detect(ctx context.Context, m *vision.Image, labels []string) ([]Detection, error) {
	if err := f.knows(labels); err != nil {
		return nil, err
	}
	all, err := f.Detector.Detect(ctx, m, labels, f.Least)
	if err != nil {
		return nil, fmt.Errorf("detecting: %w", err)
	}
	var found []Detection
	for _, a := range all {
		found = append(found, Detection{Class: a.Label, Color: ColorOf(m, a.Box, a.Mask), Box: boxes.Box(a.Box), Score: a.Score, Mask: a.Mask})
	}
	return f.sure(found), nil
}

// knows refuses labels outside a list of classes.
func (f *FolderDetector) knows(labels []string) error {
	list := f.Labels()
	for _, l := range labels {
		if list != nil && !slices.Contains(list, l) {
			return fmt.Errorf("the detector has no class %q; its classes are %s", l, shortened(list))
		}
	}
	return nil
}

// everything is a detector that finds things of all its classes, whatever is looked for.
type everything struct{ *FolderDetector }

// Detect finds things.
func (e everything) Detect(ctx context.Context, m *vision.Image, labels []string) ([]Detection, error) {
	if err := e.knows(labels); err != nil {
		return nil, err
	}
	return e.FolderDetector.Detect(ctx, m, nil)
}

// shortened is a list, and an ellipsis where it is long.
func shortened(list []string) string {
	if len(list) > 12 {
		return strings.Join(list[:12], ", ") + fmt.Sprintf(" and %d more", len(list)-12)
	}
	return strings.Join(list, ", ")
}

// A NamedColor is a colour and its name.
type NamedColor struct {
	Name string
	RGB  [3]float64
}

// ColorTable are GenEval's colours, and gray.
func ColorTable() []NamedColor {
	return []NamedColor{{"red", [3]float64{210, 40, 40}}, {"orange", [3]float64{240, 140, 30}}, {"yellow", [3]float64{240, 215, 50}}, {"green", [3]float64{45, 150, 60}},
		{"blue", [3]float64{45, 85, 205}}, {"purple", [3]float64{130, 50, 160}}, {"pink", [3]float64{245, 150, 190}}, {"brown", [3]float64{120, 75, 40}},
		{"black", [3]float64{20, 20, 20}}, {"white", [3]float64{245, 245, 245}}, {"gray", [3]float64{128, 128, 128}}}
}

// ColorOf names the colour of a thing in a picture; "" for one without pixels.
func ColorOf(m *vision.Image, b [4]float64, mask []bool) string {
	table := ColorTable()
	votes := make([]int, len(table))
	quarter := [2]float64{(b[2] - b[0]) / 4, (b[3] - b[1]) / 4}
	for y := range m.Height {
		for x := range m.Width {
			cx, cy := float64(x)+0.5, float64(y)+0.5
			if mask != nil && !mask[y*m.Width+x] ||
				mask == nil && (cx < b[0]+quarter[0] || cx > b[2]-quarter[0] || cy < b[1]+quarter[1] || cy > b[3]-quarter[1]) {
				continue
			}
			p, best, near := m.Pix[3*(y*m.Width+x):], 0, math.Inf(1)
			for i, c := range table {
				sum := 0.0
				for k := range 3 {
					d := float64(p[k]) - c.RGB[k]
					sum += float64(d * d)
				}
				if sum < near {
					best, near = i, sum
				}
			}
			votes[best]++
		}
	}
	best := 0
	for i, n := range votes {
		if n > votes[best] {
			best = i
		}
	}
	if votes[best] == 0 {
		return ""
	}
	return table[best].Name
}
