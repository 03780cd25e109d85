package scorers

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/faces"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

// Card: any network that is an ONNX file, as a reward. A picture becomes its input by
//
//	x = (pixel · factor - mean) / std
//
// in the file's size, order of channels and layout; its output becomes a number:
//
//	index, activation      one element of the last axis, of its sigmoid, or of the softmax over that axis
//	reduce                 mean, sum, largest or smallest of the rest; "cosine": the cosine with the source's output
//	boxes                  rows of a YOLO or the two outputs of a DETR: the surest box, their number, or the share of the
//	                       picture that they cover
//
// Presets have the settings of common exports; keys that are written go before them. Invariants (tests): a written
// key wins over a preset's; a network of other inputs is refused when it is opened, not when it scores.

// ONNXOptions say how a picture becomes a network's input, and its output a number.
type ONNXOptions struct {
	Preset string    `toml:"preset" enum:",yolo,nudenet,detr,nsfw,open_nsfw,arcface" doc:"settings of common exports, for keys that are not written"`
	Size   []int     `toml:"size" range:"[1,8192]" doc:"width and height of the input, where the file leaves them open"`
	Resize []int     `toml:"resize" range:"[1,8192]" doc:"with fit crop: width and height before the middle is cut out; empty: the shorter side becomes size"`
	Fit    string    `toml:"fit" enum:",stretch,crop,pad,letterbox" doc:"how a picture of other sides fits: stretched; its middle; padded to the right and below with black; shrunk and surrounded by grey. Empty: the preset's, else stretch"`
	Filter string    `toml:"filter" enum:",bilinear,bicubic,lanczos,nearest,opencv" doc:"of the resize: Pillow's, or OpenCV's bilinear without anti-aliasing. Empty: the preset's, else bilinear"`
	Order  string    `toml:"order" enum:",rgb,bgr" doc:"of the channels. Empty: the preset's, else rgb"`
	Factor float64   `toml:"factor" range:"[0,1e6]" doc:"of pixels, which are 0 to 255. 0: the preset's, else 1/255"`
	Mean   []float64 `toml:"mean" doc:"subtracted from red, green and blue (or the first, second and third channel of order), after factor; empty: the preset's, else 0"`
	Std    []float64 `toml:"std" range:"(0,inf)" doc:"divides what is left; empty: the preset's, else 1"`
	Output string    `toml:"output" doc:"name of the output; empty: the first"`
	Places string    `toml:"places" doc:"with boxes detr: name of the output that has the boxes; empty: the second"`

	Activation string  `toml:"activation" enum:",none,sigmoid,softmax" doc:"of the output. Empty: the preset's, else none"`
	Index      int     `toml:"index" range:"[-1,1000000]" doc:"element of the last axis; -1: all"`
	Reduce     string  `toml:"reduce" enum:",mean,sum,max,min,cosine,best,count,area" doc:"a number of what is left: of elements mean, sum, max or min; cosine with the source picture's; of boxes the best score, their count, or the area that they cover. Empty: the preset's, else one element, of boxes best"`
	Boxes      string  `toml:"boxes" enum:",yolo,detr" doc:"rows of cx, cy, w, h and classes, in pixels of the input, or two outputs, classes and cx, cy, w, h from 0 to 1"`
	Classes    []int   `toml:"classes" range:"[0,100000]" doc:"classes of boxes that count; empty: all"`
	Least      float64 `toml:"least" range:"[0,1]" doc:"boxes must be surer than this; 0: 0.25"`
	Overlap    float64 `toml:"overlap" range:"[0,1]" doc:"of boxes with a larger intersection over union, the surest is kept; 0: 0.45 for yolo, none is dropped for detr"`
}

// SetDefaults leaves all keys to the preset.
func (o *ONNXOptions) SetDefaults() { *o = ONNXOptions{Index: -1} }

// presets are settings of common exports: Ultralytics' YOLO; nudenet's, which feeds blue first to a network of red
// first; DETR as transformers prepares it; vision transformers for pictures unsafe for work, of two classes; Yahoo's
// open_nsfw of Keras; ArcFace of insightface on aligned faces.
var presets = map[string]ONNXOptions{
	"yolo":      {Size: []int{640, 640}, Fit: "letterbox", Filter: "opencv", Boxes: "yolo", Index: -1},
	"nudenet":   {Size: []int{320, 320}, Fit: "pad", Filter: "opencv", Order: "bgr", Boxes: "yolo", Index: -1},
	"detr":      {Size: []int{640, 640}, Boxes: "detr", Activation: "sigmoid", Index: -1},
	"nsfw":      {Size: []int{224, 224}, Filter: "bicubic", Mean: []float64{0.5, 0.5, 0.5}, Std: []float64{0.5, 0.5, 0.5}, Activation: "softmax", Index: 1},
	"open_nsfw": {Size: []int{224, 224}, Resize: []int{256, 256}, Fit: "crop", Order: "bgr", Factor: 1, Mean: []float64{104, 117, 123}, Index: 1},
	"arcface":   {Size: []int{112, 112}, Factor: 1, Mean: []float64{127.5, 127.5, 127.5}, Std: []float64{127.5, 127.5, 127.5}, Reduce: "cosine", Index: -1},
}

// whole has the preset's value for every key that is not written.
func (o ONNXOptions) whole() ONNXOptions {
	base, ok := presets[o.Preset]
	if !ok {
		base = ONNXOptions{Index: -1}
	}
	last := ONNXOptions{Fit: "stretch", Filter: "bilinear", Order: "rgb", Factor: 1.0 / 255, Mean: []float64{0, 0, 0}, Std: []float64{1, 1, 1}, Activation: "none", Least: 0.25}
	if o.Index < 0 {
		o.Index = base.Index
	}
	v := reflect.ValueOf(&o).Elem()
	for _, from := range []ONNXOptions{base, last} {
		f := reflect.ValueOf(from)
		for i := range v.NumField() {
			if v.Field(i).IsZero() && v.Type().Field(i).Name != "Index" {
				v.Field(i).Set(f.Field(i))
			}
		}
	}
	if o.Boxes == "yolo" && o.Overlap == 0 {
		o.Overlap = 0.45
	}
	if o.Boxes == "detr" && o.Overlap == 0 {
		o.Overlap = 1
	}
	return o
}

// ONNX is the reward.
type ONNX struct {
	Model *onnx.Model
	ONNXOptions
	input         onnx.Info
	width, height int
	nhwc          bool
	names         []string // of classes, where the file has them
}

// Open opens a file, and runs it once.
func Open(path string, o ONNXOptions, options onnx.Options) (*ONNX, error) {
	m, err := onnx.Open(path, options)
	if err != nil {
		return nil, err
	}
	x := &ONNX{Model: m, ONNXOptions: o.whole(), names: classNames(m.Metadata()["names"])}
	if err := x.shape(path); err != nil {
		return nil, err
	}
	// A network that does not fit is refused before anything is drawn.
	plain := vision.NewFilled(x.width, x.height, grey)
	if _, err := x.Score(context.Background(), rewards.Item{Image: plain, Sources: []*vision.Image{plain}}); err != nil {
		return nil, fmt.Errorf("%s: on a grey picture: %w", path, err)
	}
	return x, nil
}

// Input is the network's input of a picture.
func (o *ONNX) Input(m *vision.Image) (*onnx.Tensor, error) {
	t, _, err := o.tensor(m)
	return t, err
}

// run is the network's answer for a picture.
func (o *ONNX) run(ctx context.Context, m *vision.Image) (map[string]*onnx.Tensor, frame, error) {
	t, f, err := o.tensor(m)
	if err != nil {
		return nil, f, err
	}
	out, err := o.Model.Run(ctx, map[string]*onnx.Tensor{o.input.Name: t})
	return out, f, err
}

// output is one output as rows of its last axis.
func (o *ONNX) output(out map[string]*onnx.Tensor, name string, usual int) (*onnx.Tensor, error) {
	var names []string
	for _, i := range o.Model.Outputs() {
		names = append(names, i.Name)
	}
	if name == "" {
		if usual >= len(names) {
			return nil, fmt.Errorf("the network has outputs %q; %d are needed", names, usual+1)
		}
		name = names[usual]
	}
	t := out[name]
	if t == nil {
		return nil, fmt.Errorf("the network has no output %q; its outputs are %q", name, names)
	}
	if t.Type != onnx.Float {
		return nil, fmt.Errorf("output %q is %v; floats are needed", name, t)
	}
	return t, nil
}

// Score judges a picture.
func (o *ONNX) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	if item.Image == nil {
		return rewards.Score{}, rewards.ErrNoImage
	}
	if o.Boxes != "" {
		return o.scoreBoxes(ctx, item.Image)
	}
	values, err := o.values(ctx, item.Image)
	if err != nil {
		return rewards.Score{}, err
	}
	v := 0.0
	switch o.Reduce {
	case "cosine":
		if len(item.Sources) == 0 {
			return rewards.Score{}, rewards.ErrNoSource
		}
		other, err := o.values(ctx, item.Sources[0])
		if err != nil {
			return rewards.Score{}, fmt.Errorf("source: %w", err)
		}
		if v, err = faces.Cosine(values, other); err != nil {
			return rewards.Score{}, err
		}
	case "mean", "sum":
		for _, x := range values {
			v += x
		}
		if o.Reduce == "mean" {
			v /= float64(len(values))
		}
	case "max":
		v = slices.Max(values)
	case "min":
		v = slices.Min(values)
	default:
		if len(values) != 1 {
			return rewards.Score{}, fmt.Errorf("the output has %d numbers\nhint: onnx.index picks one, onnx.reduce makes one of all", len(values))
		}
		v = values[0]
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return rewards.Score{}, fmt.Errorf("the network's answer is %v", v)
	}
	return rewards.Score{Value: v}, nil
}

// values are the output's numbers, after activation and index.
func (o *ONNX) values(ctx context.Context, m *vision.Image) ([]float64, error) {
	out, _, err := o.run(ctx, m)
	if err != nil {
		return nil, err
	}
	t, err := o.output(out, o.Output, 0)
	if err != nil {
		return nil, err
	}
	width := 1
	if n := len(t.Shape); n > 0 {
		width = t.Shape[n-1]
	}
	if t.Len() == 0 || o.Index >= width {
		return nil, fmt.Errorf("the output is %v; onnx.index is %d", t, o.Index)
	}
	all := make([]float64, t.Len())
	for i, v := range t.F {
		all[i] = float64(v)
	}
	for row := range slices.Chunk(all, width) {
		activate(row, o.Activation)
	}
	if o.Index < 0 {
		return all, nil
	}
	var picked []float64
	for row := range slices.Chunk(all, width) {
		picked = append(picked, row[o.Index])
	}
	return picked, nil
}

// activate applies an activation to a row.
func activate(row []float64, how string) {
	switch how {
	case "sigmoid":
		for i, v := range row {
			row[i] = 1 / (1 + portable.Exp(-v))
		}
	case "softmax":
		copy(row, portable.Softmax(row))
	}
}

// scoreBoxes is a number of the boxes that are found.
func (o *ONNX) scoreBoxes(ctx context.Context, m *vision.Image) (rewards.Score, error) {
	found, err := o.Detect(ctx, m, nil)
	if err != nil {
		return rewards.Score{}, err
	}
	s := rewards.Score{Parts: map[string]float64{"boxes": float64(len(found))}}
	covered := make([]bool, m.Width*m.Height)
	for i, d := range found {
		b := d.Box
		s.Evidence = append(s.Evidence, evidence.Reason{What: "found", Text: d.Class, Box: &b, Value: d.Score})
		switch o.Reduce {
		case "count":
			s.Value++
		case "area":
			cover(covered, m.Width, m.Height, b)
		default:
			if i == 0 {
				s.Value = d.Score
			}
		}
	}
	if o.Reduce == "area" {
		n := 0
		for _, c := range covered {
			if c {
				n++
			}
		}
		s.Value = float64(n) / float64(len(covered))
	}
	return s, nil
}

func cover(covered []bool, width, height int, b boxes.Box) {
	for y := max(0, int(b[1])); y < min(height, int(math.Ceil(b[3]))); y++ {
		for x := max(0, int(b[0])); x < min(width, int(math.Ceil(b[2]))); x++ {
			covered[y*width+x] = true
		}
	}
}

// ONNXKey is the table of ONNXOptions.
type ONNXKey struct {
	ONNX *ONNXOptions `toml:"onnx" doc:"of reward onnx: how a picture becomes the network's input, and its output a number"`
}

type onnxKeys struct {
	rewards.PathKey
	rewards.FrameKeys
	ONNXKey
}

// open opens the network on a backend of its own.
func (k onnxKeys) open() (*ONNX, *cpu.Backend, error) {
	path, err := onnxFile("path", k.Path, "scorer.onnx")
	if err != nil {
		return nil, nil, err
	}
	be, err := cpu.New()
	if err != nil {
		return nil, nil, err
	}
	o, err := Open(path, config.Filled(k.ONNX), onnx.Options{Backend: be, Threads: be.Threads()})
	if err != nil {
		be.Close()
		return nil, nil, err
	}
	return o, be, nil
}

// takes is the most memory of a run, and its input: those of the grey picture by which the network was opened.
func (k onnxKeys) takes() int64 {
	o, be, err := k.open()
	if err != nil {
		return 0
	}
	be.Close()
	return o.Model.Peak() + int64(4*3*o.width*o.height)
}

// ONNXKind is reward onnx.
var ONNXKind = rewards.Kind{
	Name:    "onnx",
	Card:    "Any network that is an ONNX file: scorers, classifiers, detectors (the surest box, their number, the area), and faces beside the source's.",
	Paper:   "ONNX; presets for Ultralytics YOLO, nudenet, DETR, open_nsfw, ArcFace",
	Cases:   []string{"eyes.yolo_boxes"},
	Parts:   []string{"boxes"},
	Judges:  rewards.Pictures,
	Traits:  rewards.Weights,
	Options: onnxKeys{},
	Check: rewards.Checks(func(k onnxKeys, report rewards.Report) {
		o := config.Filled(k.ONNX).whole()
		for key, n := range map[string]int{"mean": len(o.Mean), "std": len(o.Std)} {
			if n != 3 {
				report("onnx."+key, fmt.Sprintf("has %d numbers", n), "write three, one for each channel")
			}
		}
		for key, n := range map[string]int{"size": len(o.Size), "resize": len(o.Resize)} {
			if n != 0 && n != 2 {
				report("onnx."+key, fmt.Sprintf("has %d numbers", n), "write the width and the height")
			}
		}
		ofBoxes := slices.Contains([]string{"best", "count", "area"}, o.Reduce)
		switch {
		case o.Boxes == "" && ofBoxes:
			report("onnx.reduce", fmt.Sprintf("%q is a number of boxes, and the output has none", o.Reduce), `write onnx.boxes = "yolo" or "detr"`)
		case o.Boxes != "" && o.Reduce != "" && !ofBoxes:
			report("onnx.reduce", fmt.Sprintf("%q is a number of elements, and the output has boxes", o.Reduce), `write "best", "count" or "area"`)
		}
		if k.Path != "" && !strings.HasSuffix(strings.ToLower(k.Path), ".onnx") {
			report("path", fmt.Sprintf("%q is no .onnx file", k.Path), "name the file itself")
		}
	}),
	Takes: rewards.With(onnxKeys.takes),
	Open: rewards.Opens(func(k onnxKeys, _ rewards.Bench) (rewards.Opened, error) {
		o, be, err := k.open()
		if err != nil {
			return rewards.Opened{}, err
		}
		opened := rewards.One(o)
		opened.Close = func() error { be.Close(); return nil }
		return opened, nil
	}),
}
