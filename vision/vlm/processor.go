package vlm

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: a picture as the list of patches that the tower reads (Qwen2VLImageProcessor):
//
//	alpha is laid on white; bicubic to the size of SizeRule, in 8 bits
//	x = (byte - mean/rescale) / (std/rescale)       in fp32, in this order
//	patches block by block (positions.go), each [channel, frame, row, column]
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

// NewProcessor has the settings of Qwen2-VL and Qwen2.5-VL, its pixels apart.
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

// Grid is the grid of a picture of width x height: its cost, before it is resized.
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
	return p.ApplyResized(p.Resize, pictures...)
}

// ApplyResized is Apply with a function that has the results of Resize.
func (p *Processor) ApplyResized(resize func(*vision.Raster) (*vision.Image, error), pictures ...*vision.Raster) (Patches, error) {
	var out Patches
	if err := p.check(); err != nil {
		return out, err
	}
	for i, r := range pictures {
		g, err := p.Grid(r.Width, r.Height)
		if err != nil {
			return out, fmt.Errorf("picture %d: %w", i, err)
		}
		m, err := resize(r)
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

// Card: the size that a picture is resized to. Both sides become multiples of factor (a patch's
// side times merge), the area comes between two bounds, the shape stays about the same:
//
//	side  = round(side/factor) factor                      half to even
//	above = floor(side / sqrt(area/max) / factor) factor   where the area is above max
//	below = ceil(side sqrt(min/area) / factor) factor      where it is below min
//
// Source: smart_resize of transformers and of qwen-vl-utils, which differ for thin pictures:
// the former holds a side that shrinks at factor or more, and lets one that is rounded become 0
// (which is below min, and grows again where min is above 0); the latter the reverse, and may
// return 0. Weights saw the former. Held to vlm.smart_resize and vlm.pixel_budget.

// A SizeRule is one of the two published versions.
type SizeRule int

const (
	Transformers SizeRule = iota
	QwenUtils
)

// Pixels bounds a picture's area.
type Pixels struct{ Min, Max int }

// thinnest is the largest ratio of a picture's sides.
const thinnest = 200

// TooThin is the error of a picture whose sides differ too much.
type TooThin struct {
	Width, Height int
	Ratio         float64
}

func (e TooThin) Error() string {
	return fmt.Sprintf("a picture of %d x %d pixels is too thin: one side is %g times the other, at most %d is possible: crop it", e.Width, e.Height, e.Ratio, thinnest)
}

// Size is the size that a picture of width x height is resized to.
func (rule SizeRule) Size(width, height, factor int, p Pixels) (w, h int, err error) {
	if err := sane(width, height); err != nil {
		return 0, 0, err
	}
	if factor < 1 || factor > 1<<16 || p.Max < 1 || p.Max > 1<<40 || p.Min < 0 || p.Min > 1<<40 || rule == QwenUtils && p.Max < p.Min {
		return 0, 0, fmt.Errorf("pictures of %d to %d pixels in multiples of %d: there are none", p.Min, p.Max, factor)
	}
	if ratio := float64(max(width, height)) / float64(min(width, height)); ratio > thinnest {
		return 0, 0, TooThin{width, height, ratio}
	}
	atLeast, least := 0, factor
	if rule == QwenUtils {
		atLeast, least = factor, 0
	}
	side := func(n int) int {
		return max(atLeast, int(math.RoundToEven(float64(n)/float64(factor)))*factor)
	}
	w, h = side(width), side(height)
	area := float64(width) * float64(height)
	switch {
	case w*h > p.Max:
		by := math.Sqrt(area / float64(p.Max))
		shrink := func(n int) int {
			return max(least, int(math.Floor(float64(n)/by/float64(factor)))*factor)
		}
		w, h = shrink(width), shrink(height)
	case w*h < p.Min:
		by := math.Sqrt(float64(p.Min) / area)
		grow := func(n int) int { return int(math.Ceil(float64(n)*by/float64(factor))) * factor }
		w, h = grow(width), grow(height)
	}
	return w, h, nil
}

// Budget is the size that training projects (EasyR1, Mini-o3, VRAG) cut a picture to before
// the processor sees it: into the largest area, then into the smallest, sides cut to whole
// numbers. A side that becomes 0 is an error.
func (p Pixels) Budget(width, height int) (w, h int, err error) {
	if err := sane(width, height); err != nil {
		return 0, 0, err
	}
	if p.Min < 0 || p.Max < 0 || max(p.Min, p.Max) > 1<<40 {
		return 0, 0, fmt.Errorf("pictures of %d to %d pixels: there are none", p.Min, p.Max)
	}
	w, h = width, height
	scale := func(area int) {
		by := math.Sqrt(float64(area) / float64(w*h))
		w, h = int(float64(w)*by), int(float64(h)*by)
	}
	if w*h > p.Max {
		scale(p.Max)
	}
	if w > 0 && h > 0 && w*h < p.Min {
		scale(p.Min)
	}
	if w < 1 || h < 1 {
		return 0, 0, fmt.Errorf("a picture of %d x %d pixels becomes %d x %d within %d to %d pixels", width, height, w, h, p.Min, p.Max)
	}
	return w, h, nil
}

// sane refuses sides that no picture has: products of two stay exact.
func sane(width, height int) error {
	if width < 1 || height < 1 || width > 1<<24 || height > 1<<24 {
		return fmt.Errorf("a picture of %d x %d pixels: there is none", width, height)
	}
	return nil
}

// A Grid is a picture or a clip in patches: frames (pairs of frames where the processor joins two), rows and columns.
// A picture has one frame. Pictures reach the tower as lists of patches, and the grid gives each patch its place.
type Grid struct{ Frames, Rows, Columns int }

// maxPatches is more than any picture or clip has: of a list of grids, all together.
const maxPatches = 1 << 24

// Patches is how many patches there are.
func (g Grid) Patches() int { return g.Frames * g.Rows * g.Columns }

// Tokens is how many tokens of the language model a grid becomes: merge x merge patches one.
func (g Grid) Tokens(merge int) int { return g.Frames * (g.Rows / merge) * (g.Columns / merge) }

// Check refuses grids that cannot be merged, or that no memory holds.
func Check(grids []Grid, merge int) error {
	if merge < 1 || merge > 64 {
		return fmt.Errorf("patches are merged %d by %d: from 1 to 64 is possible", merge, merge)
	}
	room := maxPatches
	for i, g := range grids {
		if g.Frames < 1 || g.Rows < 1 || g.Columns < 1 {
			return fmt.Errorf("grid %d of %d x %d x %d patches holds nothing", i, g.Frames, g.Rows, g.Columns)
		}
		if g.Frames > room || g.Rows > room/g.Frames || g.Columns > room/(g.Frames*g.Rows) {
			return fmt.Errorf("grid %d of %d x %d x %d patches: with those before it more than %d", i, g.Frames, g.Rows, g.Columns, maxPatches)
		}
		room -= g.Patches()
		if g.Rows%merge != 0 || g.Columns%merge != 0 {
			return fmt.Errorf("grid %d of %d x %d patches is not made of blocks of %d x %d", i, g.Rows, g.Columns, merge, merge)
		}
	}
	return nil
}
