package detr

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: preprocessing of detectors, by a folder's preprocessor_config.json. A picture's shorter edge becomes
// Shortest, unless the longer one would exceed Longest; or both become Height and Width; then sides grow to
// multiples of Divisor, whatever the shape. Resizing is torchvision's anti-aliased one on 8 bits (Pillow where
// asked for), of RF-DETR bilinear on numbers without anti-aliasing. Numbers are (x - mean)/std of x in 0..1, and
// pictures of a batch are padded with zeros on the right and below.

// A Processor is such a preprocessing.
type Processor struct {
	Shortest, Longest int // 0: Height and Width say
	Height, Width     int
	Divisor           int
	Filter            vision.Filter
	Mean, Std         [3]float32
	Scale             float64 // of bytes
	Pillow            bool    // resized as Pillow does it
	Plain             bool    // resized as numbers, without anti-aliasing and rounding
}

// The means and deviations of ImageNet.
var imageNetMean, imageNetStd = [3]float32{0.485, 0.456, 0.406}, [3]float32{0.229, 0.224, 0.225}

// EdgeProcessor is that of Mask2Former and Grounding DINO.
func EdgeProcessor(divisor int) Processor {
	return Processor{Shortest: 800, Longest: 1333, Divisor: divisor, Filter: vision.Bilinear, Mean: imageNetMean, Std: imageNetStd, Scale: 1.0 / 255}
}

// PlainProcessor is that of RF-DETR.
func PlainProcessor(side int) Processor {
	return Processor{Height: side, Width: side, Filter: vision.Bilinear, Mean: imageNetMean, Std: imageNetStd, Scale: 1.0 / 255, Plain: true}
}

// SquareProcessor is that of RT-DETR: no mean and deviation.
func SquareProcessor(side int) Processor {
	return Processor{Height: side, Width: side, Filter: vision.Bilinear, Std: [3]float32{1, 1, 1}, Scale: 1.0 / 255}
}

type processorFile struct {
	Resize    *bool           `json:"do_resize"`
	Rescale   *bool           `json:"do_rescale"`
	Normalize *bool           `json:"do_normalize"`
	Size      json.RawMessage `json:"size"`
	MaxSize   int             `json:"max_size"`
	Divisor   *int            `json:"size_divisor"`
	Factor    *float64        `json:"rescale_factor"`
	Resample  *int            `json:"resample"`
	Mean      []float32       `json:"image_mean"`
	Std       []float32       `json:"image_std"`
}

// ReadProcessor reads a folder's preprocessor_config.json over the usual numbers; without such a file these are the
// answer. normalized says whether mean and deviation are used where the file is silent.
func ReadProcessor(dir string, usual Processor, normalized bool) (Processor, error) {
	path := filepath.Join(dir, "preprocessor_config.json")
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return usual, nil
	}
	var f processorFile
	if err := hub.JSON(path, &f); err != nil {
		return usual, err
	}
	p, err := f.over(usual, normalized)
	if err != nil {
		return usual, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func (f processorFile) over(p Processor, normalized bool) (Processor, error) {
	for name, b := range map[string]*bool{"do_resize": f.Resize, "do_rescale": f.Rescale} {
		if b != nil && !*b {
			return p, fmt.Errorf("%q is false; pictures of any size and brightness are read", name)
		}
	}
	if err := f.size(&p); err != nil {
		return p, err
	}
	if f.Divisor != nil {
		p.Divisor = *f.Divisor
	}
	if f.Factor != nil {
		p.Scale = *f.Factor
	}
	if f.Resample != nil {
		filter, ok := map[int]vision.Filter{2: vision.Bilinear, 3: vision.Bicubic}[*f.Resample]
		if !ok {
			return p, fmt.Errorf(`"resample" is %d; 2 (bilinear) and 3 (bicubic) are known`, *f.Resample)
		}
		p.Filter = filter
	}
	if f.Normalize != nil {
		normalized = *f.Normalize
	}
	if !normalized {
		p.Mean, p.Std = [3]float32{}, [3]float32{1, 1, 1}
	} else if err := f.statistics(&p); err != nil {
		return p, err
	}
	switch {
	case p.Divisor < 0 || p.Divisor > 1024:
		return p, fmt.Errorf(`"size_divisor" is %d; it must lie between 0 and 1024`, p.Divisor)
	case !(p.Scale > 0 && p.Scale <= 1):
		return p, fmt.Errorf(`"rescale_factor" is %v; it must lie above 0, up to 1`, p.Scale)
	}
	return p, nil
}

func (f processorFile) statistics(p *Processor) error {
	for i, list := range [][]float32{f.Mean, f.Std} {
		into := [...]*[3]float32{&p.Mean, &p.Std}[i]
		if list != nil && len(list) != 3 {
			return fmt.Errorf("image_mean and image_std have three numbers, not %d", len(list))
		}
		if list != nil {
			*into = [3]float32(list)
		}
	}
	for _, s := range p.Std {
		if !(s > 0) {
			return fmt.Errorf("image_std has %v; it must be above 0", s)
		}
	}
	return nil
}

// mostSide bounds the sides of a network's pictures.
const mostSide = 4096

func (f processorFile) size(p *Processor) error {
	if len(f.Size) == 0 || string(f.Size) == "null" {
		return nil
	}
	var n int
	var s struct {
		Shortest int `json:"shortest_edge"`
		Longest  int `json:"longest_edge"`
		Height   int `json:"height"`
		Width    int `json:"width"`
	}
	if json.Unmarshal(f.Size, &n) == nil {
		s.Shortest, s.Longest = n, f.MaxSize
	} else if err := json.Unmarshal(f.Size, &s); err != nil {
		return fmt.Errorf(`"size" is %.80s; a number, or an object of edges or of height and width was expected`, f.Size)
	}
	for _, side := range []int{s.Shortest, s.Longest, s.Height, s.Width} {
		if side < 0 || side > mostSide {
			return fmt.Errorf(`"size" has a side of %d; 1 to %d are read`, side, mostSide)
		}
	}
	switch {
	case s.Shortest > 0:
		p.Shortest, p.Longest, p.Height, p.Width = s.Shortest, s.Longest, 0, 0
	case s.Height > 0 && s.Width > 0:
		p.Shortest, p.Longest, p.Height, p.Width = 0, 0, s.Height, s.Width
	default:
		return fmt.Errorf(`"size" is %.80s; {"shortest_edge": n, "longest_edge": m} or {"height": n, "width": m} was expected`, f.Size)
	}
	return nil
}

// Target is the size that a picture is resized to.
func (p Processor) Target(width, height int) Size {
	s := Size{p.Height, p.Width}
	if p.Shortest > 0 {
		s = p.edges(width, height)
	}
	if d := p.Divisor; d > 0 {
		s.H, s.W = (s.H+d-1)/d*d, (s.W+d-1)/d*d
	}
	return s
}

// edges keeps the shape, as transformers' get_size_with_aspect_ratio rounds.
func (p Processor) edges(width, height int) Size {
	size := p.Shortest
	w, h := float64(width), float64(height)
	raw := float64(size)
	if lo, hi := min(w, h), max(w, h); p.Longest > 0 && hi/lo*float64(size) > float64(p.Longest) {
		raw = float64(p.Longest) * lo / hi
		size = int(math.RoundToEven(raw))
	}
	size = max(size, 1)
	switch {
	case height <= width && height == size || width <= height && width == size:
		return Size{height, width}
	case width < height:
		return Size{max(int(raw*h/w), 1), size}
	}
	return Size{size, max(int(raw*w/h), 1)}
}

// A Batch is prepared pictures, [n, Size.H, Size.W, 3], the rest of each zero.
type Batch struct {
	Pixels []float32
	Size   Size
	Inside []Size // the parts that pictures fill
	Shown  []Size // the pictures' own sizes
}

// Apply prepares pictures.
func (p Processor) Apply(pictures []*vision.Image) (Batch, error) {
	var b Batch
	var small [][]float64
	for i, m := range pictures {
		if m == nil || m.Width < 1 || m.Height < 1 {
			return b, fmt.Errorf("picture %d: there is no picture", i)
		}
		s := p.Target(m.Width, m.Height)
		if s.H > mostSide || s.W > mostSide {
			return b, fmt.Errorf("picture %d of %d x %d: it would be resized to %d x %d; at most %d a side are read", i, m.Width, m.Height, s.W, s.H, mostSide)
		}
		x, err := p.resized(m, s)
		if err != nil {
			return b, fmt.Errorf("picture %d: %w", i, err)
		}
		small = append(small, x)
		b.Inside, b.Shown = append(b.Inside, s), append(b.Shown, Size{m.Height, m.Width})
		b.Size = Size{max(b.Size.H, s.H), max(b.Size.W, s.W)}
	}
	b.Pixels = make([]float32, len(pictures)*b.Size.H*b.Size.W*3)
	for i, x := range small {
		wide := 3 * b.Inside[i].W
		for y := range b.Inside[i].H {
			to := b.Pixels[(i*b.Size.H+y)*b.Size.W*3:]
			for k, v := range x[y*wide:][:wide] {
				c := k % 3
				to[k] = (float32(v*p.Scale) - p.Mean[c]) / p.Std[c]
			}
		}
	}
	return b, nil
}

// resized is a picture of a size, [H, W, 3], of bytes or of numbers between them.
func (p Processor) resized(m *vision.Image, s Size) (x []float64, err error) {
	if !p.Plain {
		resize := m.ResizeTorch
		if p.Pillow {
			resize = m.Resize
		}
		if m, err = resize(s.W, s.H, p.Filter); err != nil {
			return nil, err
		}
	}
	x = make([]float64, 0, m.Width*m.Height*3)
	for y := range m.Height {
		for _, v := range m.Row(y) {
			x = append(x, float64(v))
		}
	}
	if !p.Plain {
		return x, nil
	}
	z, err := vision.NewRealResize(m.Width, m.Height, s.W, s.H, p.Filter, false)
	if err != nil {
		return nil, err
	}
	return z.Forward(x, 3), nil
}
