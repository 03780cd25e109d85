package vlm

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: a picture as the list of patches that the tower reads (Qwen2VLImageProcessor):
//
//	alpha is laid on white; bicubic to the size of sizes.go, in 8 bits
//	x = (byte - mean/rescale) / (std/rescale)       in fp32, in this order
//	patches block by block (layout.go), each [channel, frame, row, column]
//
// A still picture is repeated to fill the frames of a patch. Bytes are torchvision's with
// Torch8, which present transformers and published weights' evaluations use, and Pillow's with
// Pillow. Held to vlm.preprocess.

// A Processor makes patches of pictures.
type Processor struct {
	Patch, Merge, Frames int // a patch's side, patches joined a side, frames of a patch
	Pixels
	Rule       SizeRule
	Arithmetic vision.Arithmetic // Torch8 or Pillow
	Mean, Std  [3]float64
	Rescale    float64 // 1/255
}

// Patches are pictures cut up: Values is [patches, 3 Frames Patch Patch].
type Patches struct {
	Values []float32
	Grids  []Grid
}

// processorFile is preprocessor_config.json.
type processorFile struct {
	Type    string    `json:"image_processor_type"`
	Patch   *int      `json:"patch_size"`
	Merge   *int      `json:"merge_size"`
	Frames  *int      `json:"temporal_patch_size"`
	Min     *int      `json:"min_pixels"`
	Max     *int      `json:"max_pixels"`
	Mean    []float64 `json:"image_mean"`
	Std     []float64 `json:"image_std"`
	Rescale *float64  `json:"rescale_factor"`
	Filter  *int      `json:"resample"`
	Size    *struct {
		Min  *int `json:"shortest_edge"`
		Max  *int `json:"longest_edge"`
		Min2 *int `json:"min_pixels"`
		Max2 *int `json:"max_pixels"`
	} `json:"size"`
	DoResize    *bool `json:"do_resize"`
	DoRescale   *bool `json:"do_rescale"`
	DoNormalize *bool `json:"do_normalize"`
}

// NewProcessor is what Qwen2-VL and Qwen2.5-VL come with, its pixels apart.
func NewProcessor() Processor {
	return Processor{
		Patch: 14, Merge: 2, Frames: 2, Pixels: Pixels{56 * 56, 28 * 28 * 1280}, Arithmetic: vision.Torch8, Rescale: 1. / 255,
		Mean: [3]float64{0.48145466, 0.4578275, 0.40821073}, Std: [3]float64{0.26862954, 0.26130258, 0.27577711},
	}
}

// OpenProcessor reads a folder's preprocessor_config.json, or "image_processor" of processor_config.json, where
// transformers 5 writes it.
func OpenProcessor(dir string) (*Processor, error) {
	path := filepath.Join(dir, "preprocessor_config.json")
	p, err := OpenProcessorFile(path)
	joint := filepath.Join(dir, "processor_config.json")
	if _, none := os.Stat(joint); !errors.Is(err, fs.ErrNotExist) || none != nil {
		return p, err
	}
	var f struct {
		Pictures json.RawMessage `json:"image_processor"`
	}
	if err := hub.JSON(joint, &f); err != nil {
		return nil, err
	}
	if len(f.Pictures) == 0 {
		return nil, fmt.Errorf("%s has no \"image_processor\", and there is no %s", joint, path)
	}
	return checkedProcessor(joint, f.Pictures)
}

// OpenProcessorFile reads such a file; clips have one of their own, video_preprocessor_config.json.
func OpenProcessorFile(path string) (*Processor, error) {
	data, err := hub.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return checkedProcessor(path, data)
}

func checkedProcessor(path string, data []byte) (*Processor, error) {
	p, err := readProcessor(path, data)
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func readProcessor(path string, data []byte) (*Processor, error) {
	var f processorFile
	if err := hub.Decode(path, data, &f); err != nil {
		return nil, err
	}
	switch f.Type {
	case "", "Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast", "Qwen2VLImageProcessorPil":
	default:
		return nil, fmt.Errorf("%s: an image processor of type %q; Qwen2VLImageProcessor is known", path, f.Type)
	}
	for name, does := range map[string]*bool{"do_resize": f.DoResize, "do_rescale": f.DoRescale, "do_normalize": f.DoNormalize} {
		if does != nil && !*does {
			return nil, fmt.Errorf("%s: %q is false; pictures are resized, rescaled and normalised here", path, name)
		}
	}
	if f.Filter != nil && *f.Filter != 3 {
		return nil, fmt.Errorf(`%s: "resample" is %d; 3, bicubic, is known`, path, *f.Filter)
	}
	p := NewProcessor()
	set := func(to *int, from *int) {
		if from != nil {
			*to = *from
		}
	}
	if f.Size != nil {
		set(&p.Min, f.Size.Min)
		set(&p.Max, f.Size.Max)
		set(&p.Min, f.Size.Min2)
		set(&p.Max, f.Size.Max2)
	}
	set(&p.Min, f.Min)
	set(&p.Max, f.Max)
	set(&p.Patch, f.Patch)
	set(&p.Merge, f.Merge)
	set(&p.Frames, f.Frames)
	if f.Rescale != nil {
		p.Rescale = *f.Rescale
	}
	for name, list := range map[string][]float64{"image_mean": f.Mean, "image_std": f.Std} {
		if list == nil {
			continue
		}
		if len(list) != 3 {
			return nil, fmt.Errorf("%s: %q has %d numbers, and 3 are needed", path, name, len(list))
		}
		if name == "image_mean" {
			p.Mean = [3]float64(list)
		} else {
			p.Std = [3]float64(list)
		}
	}
	return &p, nil
}

// check refuses settings that no picture can be cut by.
func (p *Processor) check() error {
	switch {
	case p.Patch < 1 || p.Patch > 256 || p.Merge < 1 || p.Merge > 16 || p.Frames < 1 || p.Frames > 16:
		return fmt.Errorf("patches of %d pixels and %d frames, merged %d by %d: no tower has them", p.Patch, p.Frames, p.Merge, p.Merge)
	case p.Min < 0 || p.Max < 1 || p.Min > p.Max || p.Min > 1<<24 || p.Max > 1<<28:
		return fmt.Errorf("pictures of %d to %d pixels: there are none, or they are too large", p.Min, p.Max)
	case !(p.Rescale > 1e-6 && p.Rescale < 1e6):
		return fmt.Errorf("pixels are rescaled by %g; 1/255 is usual", p.Rescale)
	case p.Arithmetic != vision.Torch8 && p.Arithmetic != vision.Pillow:
		return fmt.Errorf("pictures are resized in 8 bits, by torchvision's or Pillow's rule")
	}
	for c := range 3 {
		if !(p.Std[c] > 1e-6 && p.Std[c] < 1e6) || !(p.Mean[c] > -1e6 && p.Mean[c] < 1e6) {
			return fmt.Errorf("channel %d has mean %g and deviation %g", c, p.Mean[c], p.Std[c])
		}
	}
	return nil
}

// Resize is the 8-bit picture that patches are cut from.
func (p *Processor) Resize(r *vision.Raster) (*vision.Image, error) {
	m := r.Over(color.RGBA{255, 255, 255, 255})
	w, h, err := p.Size(m.Width, m.Height)
	if err != nil {
		return m, err
	}
	return p.resizeTo(m, w, h)
}

// resizeTo is a picture at a size, in 8 bits.
func (p *Processor) resizeTo(m *vision.Image, w, h int) (*vision.Image, error) {
	if w == m.Width && h == m.Height {
		return m, nil
	}
	if p.Arithmetic == vision.Torch8 {
		return m.ResizeTorch(w, h, vision.Bicubic)
	}
	out, err := vision.Resizing{Filter: vision.Bicubic, Order: vision.Pillow13}.Apply(m.Raster(), w, h)
	if err != nil {
		return nil, err
	}
	return out.RGB(), nil
}

// Size is the size of a picture of width x height once it is resized.
func (p *Processor) Size(width, height int) (w, h int, err error) {
	return p.Rule.Size(width, height, p.Patch*p.Merge, p.Pixels)
}

// Grid is the grid of a picture of width x height: what it will cost, before it is resized.
func (p *Processor) Grid(width, height int) (Grid, error) {
	if err := p.check(); err != nil {
		return Grid{}, err
	}
	w, h, err := p.Size(width, height)
	if err != nil {
		return Grid{}, err
	}
	g := Grid{1, h / p.Patch, w / p.Patch}
	return g, Check([]Grid{g}, p.Merge)
}

// Apply cuts pictures into patches.
func (p *Processor) Apply(pictures ...*vision.Raster) (Patches, error) {
	var out Patches
	if err := p.check(); err != nil {
		return out, err
	}
	for i, r := range pictures {
		g, err := p.Grid(r.Width, r.Height)
		if err != nil {
			return out, fmt.Errorf("picture %d: %w", i, err)
		}
		m, err := p.Resize(r)
		if err != nil {
			return out, fmt.Errorf("picture %d: %w", i, err)
		}
		out.Grids = append(out.Grids, g)
		if out.Values, err = p.cut(out.Values, slices.Repeat([]*vision.Image{m}, p.Frames), g); err != nil {
			return out, err
		}
	}
	return out, Check(out.Grids, p.Merge)
}

// cut appends the patches of the frames that one patch spans: of a picture, the picture each time.
func (p *Processor) cut(values []float32, frames []*vision.Image, g Grid) ([]float32, error) {
	places, err := Places([]Grid{g}, p.Merge)
	if err != nil {
		return nil, err
	}
	tables := p.tables()
	for _, at := range places {
		for c, table := range tables {
			for _, m := range frames {
				for y := range p.Patch {
					row := m.Row(at.Row*p.Patch + y)[3*at.Column*p.Patch:]
					for x := range p.Patch {
						values = append(values, table[row[3*x+c]])
					}
				}
			}
		}
	}
	return values, nil
}

// tables are the channels' numbers of every byte.
func (p *Processor) tables() (tables [3][256]float32) {
	by := float32(1 / p.Rescale)
	for c := range tables {
		mean, std := float32(float32(p.Mean[c])*by), float32(float32(p.Std[c])*by)
		for b := range 256 {
			tables[c][b] = (float32(b) - mean) / std
		}
	}
	return tables
}
