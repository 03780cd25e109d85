package rewards

import (
	"context"
	"encoding/json"
	"image/color"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detectors"
)

// fixed is a detector with the same answer for every picture.
type fixed struct {
	known []string
	found []detectors.Found
}

func (f fixed) Labels() []string { return f.known }
func (f fixed) Close()           {}
func (f fixed) Detect(_ context.Context, _ *vision.Image, labels []string, least float64) (found []detectors.Found, err error) {
	for _, x := range f.found {
		for _, l := range labels {
			if x.Label == l && x.Score > least {
				found = append(found, x)
			}
		}
	}
	return found, nil
}

// TestFolderDetector: boxes by IoU, their number and their colours; a class that the detector lacks is an error.
func TestFolderDetector(t *testing.T) {
	m := vision.NewFilled(40, 20, color.RGBA{250, 250, 250, 255})
	m.Fill(m.Bounds().Inset(5), color.RGBA{200, 30, 30, 255})
	mask := make([]bool, 40*20)
	for i := range mask {
		mask[i] = i%40 < 3 // white pixels alone
	}
	d := &FolderDetector{Detector: fixed{[]string{"dog", "cup"}, []detectors.Found{
		{Label: "dog", Score: 0.9, Box: [4]float64{5, 5, 35, 15}},
		{Label: "cup", Score: 0.8, Box: [4]float64{0, 0, 3, 20}, Mask: mask},
		{Label: "dog", Score: 0.2, Box: [4]float64{0, 0, 9, 9}},
	}}, DetectorOptions: DetectorOptions{Overlap: 1, Least: 0.3}}
	for meta, want := range map[string]any{
		`[{"label": "dog", "box": [5, 5, 35, 15]}]`:                                                          1.0,
		`[{"label": "dog", "color": "red", "box": [5, 5, 35, 15]}]`:                                          1.0,
		`[{"label": "dog", "color": "blue", "box": [5, 5, 35, 15]}]`:                                         0.0,
		`[{"label": "cup", "color": "white", "box": [0, 0, 3, 20]}]`:                                         1.0,
		`[{"label": "dog", "box": [5, 5, 20, 15]}]`:                                                          0.5,
		`[{"label": "dog", "box": [5, 5, 35, 15]}, {"label": "dog", "box": [0, 0, 9, 9]}]`:                   0.5,
		`[{"label": "bus", "box": [5, 5, 35, 15]}]`:                                                          `no class "bus"; its classes are dog, cup`,
		`[{"label": "dog", "color": "red", "box": [5, 5, 35, 15]}, {"label": "dog", "box": [5, 5, 35, 15]}]`: "with and without a color",
	} {
		got, err := Layout{Detector: d, Matching: boxes.Matching{Score: "iou", DivideBy: "max"}}.Score(context.Background(), Item{Image: m, Meta: Meta{"boxes": json.RawMessage(meta)}})
		switch want := want.(type) {
		case float64:
			if err != nil || got.Value != want {
				t.Errorf("%s: %v, %v; %v was expected", meta, got.Value, err, want)
			}
		case string:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; %q was expected", meta, err, want)
			}
		}
	}
}
