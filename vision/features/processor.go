package features

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/vision"
)

// processorFile is preprocessor_config.json. A missing setting is that of the usual pipeline of the network's kind.
type processorFile struct {
	Resize    *bool     `json:"do_resize"`
	Crop      *bool     `json:"do_center_crop"`
	Normalize *bool     `json:"do_normalize"`
	Rescale   *bool     `json:"do_rescale"`
	Size      *edges    `json:"size"`
	CropSize  *edges    `json:"crop_size"`
	Resample  *int      `json:"resample"`
	Mean      []float32 `json:"image_mean"`
	Std       []float32 `json:"image_std"`
}

// edges is a size as processors write it: 224, {"shortest_edge": 224} or both sides.
type edges struct {
	Number   int
	Shortest int `json:"shortest_edge"`
	Height   int `json:"height"`
	Width    int `json:"width"`
}

// UnmarshalJSON reads either form.
func (e *edges) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &e.Number) == nil {
		return nil
	}
	type object edges
	return json.Unmarshal(raw, (*object)(e))
}

// filters are Pillow's numbers of resampling filters.
var filters = map[int]string{0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}

// ReadProcessor reads a folder's preprocessor_config.json over the usual pipeline; without
// such a file that is the answer. The resizer is Pillow's, as when the weights were published.
func ReadProcessor(dir string, usual vision.Preprocess) (vision.Preprocess, error) {
	path := filepath.Join(dir, "preprocessor_config.json")
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return usual, nil
	}
	var f processorFile
	if err := hub.JSON(path, &f); err != nil {
		return usual, err
	}
	p, err := f.pipeline(usual)
	if err != nil {
		return usual, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func (f processorFile) pipeline(p vision.Preprocess) (vision.Preprocess, error) {
	off := func(b *bool) bool { return b != nil && !*b }
	if off(f.Resize) || off(f.Rescale) || off(f.Normalize) {
		return p, fmt.Errorf("do_resize, do_rescale and do_normalize must be true: pictures of any size and brightness are read")
	}
	crops := p.Fit == vision.Cover || f.CropSize != nil
	if f.Crop != nil {
		crops = *f.Crop
	}
	if f.Size != nil {
		s := *f.Size
		switch {
		case crops && s.Number > 0:
			s = edges{Shortest: s.Number}
		case s.Number > 0:
			s = edges{Height: s.Number, Width: s.Number}
		}
		p.Edge = 0
		switch {
		case s.Shortest > 0 && crops:
			p.Fit, p.Size, p.Edge = vision.Cover, s.Shortest, s.Shortest
		case s.Height > 0 && s.Height == s.Width:
			p.Fit, p.Size = vision.Stretch, s.Height
		default:
			return p, fmt.Errorf(`"size" gives no square: {"shortest_edge": n} with a centre crop, or equal height and width are known`)
		}
	}
	if crops && f.CropSize != nil {
		c := *f.CropSize
		side := max(c.Number, c.Height)
		if c.Number == 0 && c.Height != c.Width || side < 1 || side > max(p.Size, p.Edge) || p.Fit != vision.Cover && side != p.Size {
			return p, fmt.Errorf(`"crop_size" gives no square that "size" holds`)
		}
		p.Size = side
	}
	if f.Resample != nil {
		filter, err := vision.FilterNamed(filters[*f.Resample])
		if err != nil {
			return p, fmt.Errorf(`"resample" is %d; 0 to 5 are known`, *f.Resample)
		}
		p.Filter = filter
	}
	for i, list := range [][]float32{f.Mean, f.Std} {
		if list == nil {
			continue
		}
		into := [...]*[3]float32{&p.Mean, &p.Std}[i]
		if len(list) != 3 {
			return p, fmt.Errorf("image_mean and image_std have three numbers, not %d", len(list))
		}
		*into = [3]float32(list)
	}
	for _, s := range p.Std {
		if !(s > 0) {
			return p, fmt.Errorf("image_std has %v; it must be above 0", s)
		}
	}
	if p.Size > MostSide || p.Edge > MostSide {
		return p, fmt.Errorf("pictures of %d x %d; at most %d x %d are read", max(p.Size, p.Edge), max(p.Size, p.Edge), MostSide, MostSide)
	}
	return p, nil
}

// MostSide is the longest side of a tower's input: published ones stay below 1100.
const MostSide = 1 << 11
