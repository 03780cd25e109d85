package rewards

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: a detector behind a server, which is sent a picture and the labels to look for, by POST:
//
//	{"protocol": 1, "detect": {"image": "iVBORw0...", "labels": ["dog", "bench"]}}      a PNG file in base64
//	{"detections": [{"label": "dog", "box": [10, 20, 60, 80], "score": 0.9, "color": "red"}]}
//
// color may be left out. A box may come as corners, as a corner and a size, or as a centre and a size; in pixels, or
// as shares of the picture. Of boxes of one label that overlap, the surest is kept. Invariants (tests): all three
// forms of a box are the same thing; an unreadable reply is an error, not an empty picture.
type DetectorOptions struct {
	Box      string  `toml:"box" enum:"xyxy,xywh,cxcywh" doc:"how the server writes boxes: corners, a corner and the size, or the centre and the size"`
	Relative bool    `toml:"relative" doc:"its numbers are shares of the picture's sides, not pixels"`
	Overlap  float64 `toml:"overlap" range:"[0,1]" doc:"of boxes of one label with a larger intersection over union, the surest is kept; 1 keeps all"`
	Least    float64 `toml:"least" range:"[0,1]" doc:"boxes must be surer than this; 0.3 for layout by a folder at path without this table"`
	Order    string  `toml:"order" enum:"rgb,bgr" doc:"the channels of pictures for a detector at path: bgr exchanges red and blue, as flow_grpo's server does"`
}

// SetDefaults takes boxes as they come.
func (o *DetectorOptions) SetDefaults() { *o = DetectorOptions{Box: "xyxy", Overlap: 1, Order: "rgb"} }

// A DetectionServer is such a detector.
type DetectionServer struct {
	DetectorOptions
	address string
	header  http.Header
	caller  *call.Caller
}

// NewDetectionServer is the detector at an address; key is sent as a bearer token where it is not empty.
func NewDetectionServer(address, key string, o DetectorOptions, p call.Policy, cache *call.Cache) *DetectionServer {
	d := &DetectionServer{DetectorOptions: o, address: address, header: http.Header{}, caller: call.NewCaller(p, cache)}
	if key != "" {
		d.header.Set("Authorization", "Bearer "+key)
	}
	return d
}

// Detect asks the server.
func (d *DetectionServer) Detect(ctx context.Context, m *vision.Image, labels []string) ([]Detection, error) {
	file, err := pngOf(m)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"protocol": protocolVersion, "detect": map[string]any{"image": file, "labels": labels}})
	if err != nil {
		return nil, err
	}
	var found []Detection
	err = d.caller.Do(ctx, append([]byte("detector "+redacted(d.address)+"\n"), body...), func(ctx context.Context) ([]byte, error) {
		return d.caller.Post(ctx, d.address, d.header, body)
	}, func(reply []byte) (whole bool, err error) {
		found, err = d.read(reply, m)
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("asking the detector %s: %w", redacted(d.address), err)
	}
	return d.sure(found), nil
}

// read reads a reply about a picture.
func (d *DetectionServer) read(reply []byte, m *vision.Image) ([]Detection, error) {
	var r struct {
		Detections *[]struct {
			Label string    `json:"label"`
			Color string    `json:"color"`
			Box   []float64 `json:"box"`
			Score float64   `json:"score"`
		} `json:"detections"`
	}
	if err := call.Alone(reply, &r); err != nil || r.Detections == nil {
		return nil, fmt.Errorf("the reply is not {\"detections\": [...]}: %s", call.Shown(reply))
	}
	var all []Detection
	for i, one := range *r.Detections {
		if one.Label == "" || len(one.Box) != 4 {
			return nil, fmt.Errorf("detection %d has no label or not four numbers: %s", i, call.Shown(reply))
		}
		b, err := boxes.Convert(boxes.Box(one.Box), d.Box, "xyxy")
		if err != nil {
			return nil, err
		}
		if d.Relative {
			w, h := float64(m.Width), float64(m.Height)
			b = boxes.Box{b[0] * w, b[1] * h, b[2] * w, b[3] * h}
		}
		if slices.ContainsFunc(append(b[:], one.Score), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
			return nil, fmt.Errorf("detection %d is not of finite numbers: %s", i, call.Shown(reply))
		}
		all = append(all, Detection{Class: one.Label, Color: one.Color, Box: b, Score: one.Score})
	}
	return all, nil
}

// sure are the boxes that are sure enough, without those that a surer one of their label covers.
func (o DetectorOptions) sure(found []Detection) []Detection {
	found = slices.DeleteFunc(found, func(f Detection) bool { return f.Score <= o.Least })
	if o.Overlap >= 1 {
		return found
	}
	keep := make([]bool, len(found))
	for i, f := range found {
		if slices.IndexFunc(found, func(g Detection) bool { return g.Class == f.Class }) < i {
			continue // its label was looked at
		}
		var places []int
		var all []boxes.Box
		var scores []float64
		for j, g := range found {
			if g.Class == f.Class {
				places, all, scores = append(places, j), append(all, g.Box), append(scores, g.Score)
			}
		}
		for _, k := range boxes.Suppress(all, scores, o.Overlap) {
			keep[places[k]] = true
		}
	}
	var kept []Detection
	for i, f := range found {
		if keep[i] {
			kept = append(kept, f)
		}
	}
	return kept
}

// DetectorKey is the table of DetectorOptions.
type DetectorKey struct {
	Detector *DetectorOptions `toml:"detector" doc:"of layout and geneval: how the detector at url writes boxes, and which boxes count"`
}

// Check refuses settings of a detector's replies without a detector.
func (k DetectorKey) Check(n NetworkKeys, s ServerKeys, report Report) {
	switch {
	case k.Detector == nil:
	case s.URL == "" && n.Path == "":
		report("detector", "there is no detector that writes boxes: embedded scenes have one of their own", `write its url, or leave detector out`)
	case s.URL != "" && k.Detector.Order == "bgr":
		report("detector.order", "a server orders the channels of its pictures itself", "order is of a detector at path; leave it out")
	}
}

// At is the detector at a server.
func (k DetectorKey) At(s ServerKeys, b Bench) (Detector, error) {
	key, err := s.Secret()
	if err != nil {
		return nil, err
	}
	return NewDetectionServer(s.URL, key, config.Filled(k.Detector), b.Policy, b.Cache), nil
}
