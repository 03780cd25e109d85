// Package detectors opens any detector that is known, from a folder of the hub, and asks it for things by name.
//
//	d, err := detectors.Open("mask2former-swin-small-coco-instance", device)
//	found, err := d.Detect(ctx, picture, []string{"dog", "bench"}, 0.3)
package detectors

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/groundingdino"
	"github.com/darkroom-rl/darkroom/vision/mask2former"
	"github.com/darkroom-rl/darkroom/vision/owl"
	"github.com/darkroom-rl/darkroom/vision/rtdetr"
)

// A Found is a thing in a picture.
type Found struct {
	Label string
	Score float64
	Box   [4]float64 // x0, y0, x1, y1, in the picture's pixels
	Mask  []bool     // of the picture's pixels; nil of a detector that has none
}

// A Detector finds things. Those of a closed list find its classes alone, open ones any text.
type Detector interface {
	// Detect returns things with a score above least, the surest first. Labels are those looked for; nil: all
	// classes of the list.
	Detect(ctx context.Context, m *vision.Image, labels []string, least float64) ([]Found, error)
	// Labels are those that it knows; nil where any may be asked for.
	Labels() []string
	Close()
}

// A Kind is a kind of detector.
type Kind struct {
	Name string // model_type of config.json
	Card string
	Open func(dir string, d *features.Device, o Options) (Detector, error)
}

// Options are of some kinds alone.
type Options struct {
	// Published reads pictures and masks of a Mask2Former as GenEval does, Exchanged hands it red for blue, as
	// flow_grpo's server does.
	Published, Exchanged bool
}

// Kinds are all that are known.
func Kinds() []Kind {
	return []Kind{
		{"mask2former", "Mask2Former on Swin: masks of classes that it was trained on; GenEval's detector", openMask2Former},
		{"rt_detr", "RT-DETR on a ResNet: boxes of classes that it was trained on", openRTDETR},
		{"rt_detr_v2", "RT-DETRv2, the same with offsets of its own scale", openRTDETR},
		{"d_fine", "D-FINE on an HGNet-v2: RT-DETR whose boxes are of distributions", openRTDETR},
		{"rf_detr", "RF-DETR on a DINOv2 of windows: boxes of classes that it was trained on", openRFDETR},
		{"owlv2", "OWLv2: boxes of anything that a text names", openOWL},
		{"grounding-dino", "Grounding DINO on Swin and BERT: boxes of anything that a text names", openGroundingDINO},
	}
}

// Names are those of the kinds.
func Names() (names []string) {
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return names
}

// Open reads a folder.
func Open(dir string, d *features.Device, o Options) (Detector, error) {
	k, err := KindOf(dir)
	if err != nil {
		return nil, err
	}
	return k.Open(dir, d, o)
}

// KindOf is the kind of a folder's network.
func KindOf(dir string) (Kind, error) {
	var said struct {
		Type          string          `json:"model_type"`
		Architectures json.RawMessage `json:"architectures"`
	}
	path := filepath.Join(dir, "config.json")
	if err := hub.JSON(path, &said); err != nil {
		return Kind{}, err
	}
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == said.Type })
	if i < 0 {
		return Kind{}, fmt.Errorf("%s: \"model_type\" is %q; detectors are %s\nhint: name the folder of one of these", path, said.Type, strings.Join(Names(), ", "))
	}
	return kinds[i], nil
}

// asked reports whether a label is looked for.
func asked(labels []string, label string) bool {
	return labels == nil || slices.Contains(labels, label)
}

type masks struct {
	*mask2former.Model
	classes []string
	reading mask2former.Reading
}

func openMask2Former(dir string, d *features.Device, o Options) (Detector, error) {
	m, err := mask2former.Open(dir, d)
	if err != nil {
		return nil, err
	}
	return masks{m, m.Classes(), mask2former.Reading{Published: o.Published, Exchanged: o.Exchanged}}, nil
}

func (m masks) Labels() []string { return m.classes }

func (m masks) Detect(ctx context.Context, picture *vision.Image, labels []string, least float64) ([]Found, error) {
	r := m.reading
	r.Least = least
	all, err := m.Model.Detect(ctx, picture, r)
	if err != nil {
		return nil, err
	}
	var found []Found
	for _, i := range all {
		if label := m.classes[i.Label]; asked(labels, label) {
			found = append(found, Found{Label: label, Score: i.Score, Box: i.Box, Mask: i.Mask})
		}
	}
	return found, nil
}

type boxes struct {
	*rtdetr.Model
	classes []string
}

func openRTDETR(dir string, d *features.Device, _ Options) (Detector, error) {
	return closed(rtdetr.Open(dir, d))
}

func openRFDETR(dir string, d *features.Device, _ Options) (Detector, error) {
	return closed(rtdetr.OpenRF(dir, d))
}

func closed(m *rtdetr.Model, err error) (Detector, error) {
	if err != nil {
		return nil, err
	}
	return boxes{m, m.Classes()}, nil
}

func (m boxes) Labels() []string { return m.classes }

func (m boxes) Detect(ctx context.Context, picture *vision.Image, labels []string, least float64) ([]Found, error) {
	all, err := m.Model.Detect(ctx, picture, least)
	if err != nil {
		return nil, err
	}
	var found []Found
	for _, b := range all {
		if label := m.classes[b.Label]; asked(labels, label) {
			found = append(found, Found{Label: label, Score: b.Score, Box: b.Box})
		}
	}
	return found, nil
}

// texts is a detector of anything that a text names.
type texts struct{ *owl.Model }

func openOWL(dir string, d *features.Device, _ Options) (Detector, error) {
	m, err := owl.Open(dir, d)
	if err != nil {
		return nil, err
	}
	return texts{m}, nil
}

func (texts) Labels() []string { return nil }

// Detect asks for "a photo of a LABEL", the words of the network's training.
func (m texts) Detect(ctx context.Context, picture *vision.Image, labels []string, least float64) ([]Found, error) {
	var queries []string
	for _, l := range labels {
		queries = append(queries, "a photo of a "+l)
	}
	all, err := m.Model.Detect(ctx, picture, queries, least)
	var found []Found
	for _, b := range all {
		found = append(found, Found{Label: labels[b.Label], Score: b.Score, Box: b.Box})
	}
	return found, err
}

// grounded is a detector of anything that a text names, which reads all labels in one text.
type grounded struct{ *groundingdino.Model }

func openGroundingDINO(dir string, d *features.Device, _ Options) (Detector, error) {
	m, err := groundingdino.Open(dir, d)
	if err != nil {
		return nil, err
	}
	return grounded{m}, nil
}

func (grounded) Labels() []string { return nil }

func (m grounded) Detect(ctx context.Context, picture *vision.Image, labels []string, least float64) ([]Found, error) {
	all, err := m.Model.Detect(ctx, picture, labels, least)
	var found []Found
	for _, b := range all {
		found = append(found, Found{Label: labels[b.Label], Score: b.Score, Box: b.Box})
	}
	return found, err
}
