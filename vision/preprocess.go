package vision

import "fmt"

// Card: from a picture to the input of a vision tower: resize, crop or pad, (x - mean) / std. Published pipelines
// share the steps and differ in their roundings, so a pipeline is a row of choices. Scores computed with one and a
// head trained with another differ in the third decimal: name the pipeline that the weights were trained with. Held
// to image.preprocess.

// A Preprocess is a pipeline.
type Preprocess struct {
	Size       int // of the tower's input, a square
	Edge       int // that Cover brings the shorter edge to before it cuts; 0: Size
	Fit        Fit
	Filter     Filter
	Arithmetic Arithmetic
	Centring   Centring
	Mean, Std  [3]float32
}

// A Fit says how a picture comes into the square.
type Fit int

const (
	Cover   Fit = iota // the shorter edge becomes Size, the middle is cut out
	Contain            // the longer edge becomes Size, black is put around before mean and std
	Stretch            // both edges become Size
)

// An Arithmetic is the rounding of the resizer.
type Arithmetic int

const (
	Pillow   Arithmetic = iota // 8 bits, after each pass, in the order of Pillow 13
	Torch8                     // the same with weights of 16 bits
	Real                       // nothing: numbers in 0..1, which may overshoot
	Pillow12                   // as Pillow, horizontally first whatever the sizes
)

// Means and deviations of the pictures that towers were trained with.
var (
	clipMean, clipStd         = [3]float32{0.48145466, 0.4578275, 0.40821073}, [3]float32{0.26862954, 0.26130258, 0.27577711}
	imageNetMean, imageNetStd = [3]float32{0.485, 0.456, 0.406}, [3]float32{0.229, 0.224, 0.225}
)

// CLIPPillow is transformers' CLIPImageProcessorPil: CLIP and PickScore as published.
func CLIPPillow(size int) Preprocess {
	return Preprocess{size, 0, Cover, Bicubic, Pillow, Downwards, clipMean, clipStd}
}

// OpenCLIP is open_clip's image_transform for evaluation.
func OpenCLIP(size int) Preprocess {
	return Preprocess{size, 0, Cover, Bicubic, Pillow, HalfToEven, clipMean, clipStd}
}

// HPSv2 is the transform of the HPSv2 project: nothing is cut off.
func HPSv2(size int) Preprocess {
	return Preprocess{size, 0, Contain, Bicubic, Real, HalfToEven, clipMean, clipStd}
}

// CLIPDifferentiable is the preprocessing of numbers for rewards whose gradient is wanted (SRPO).
func CLIPDifferentiable(size int) Preprocess {
	return Preprocess{size, 0, Cover, Bicubic, Real, HalfToEven, clipMean, clipStd}
}

// DINO is transformers' ViTImageProcessor with ImageNet's statistics.
func DINO(size int) Preprocess {
	return Preprocess{size, 0, Stretch, Bilinear, Pillow, HalfToEven, imageNetMean, imageNetStd}
}

// target is the size that a picture is resized to.
func (p Preprocess) target(width, height int) (w, h int) {
	switch p.Fit {
	case Cover:
		return ShortestEdge(width, height, max(p.Edge, p.Size))
	case Contain:
		return LongestEdge(width, height, p.Size)
	}
	return p.Size, p.Size
}

// Apply appends a picture's numbers, Size x Size, to dst.
func (p Preprocess) Apply(dst []float32, m *Image, l Layout) ([]float32, error) {
	if err := checkSize(p.Size, p.Size); err != nil {
		return nil, err
	}
	w, h := p.target(m.Width, m.Height)
	var x []float32 // [Size, Size, 3] in 0..1
	var err error
	switch p.Arithmetic {
	case Pillow:
		x, err = p.bytes(m.Resize(w, h, p.Filter))
	case Pillow12:
		r, failed := Resizing{Filter: p.Filter}.Apply(m.Raster(), w, h)
		if failed != nil {
			return nil, failed
		}
		x, err = p.bytes(r.RGB(), nil)
	case Torch8:
		x, err = p.bytes(m.ResizeTorch(w, h, p.Filter))
	case Real:
		x, err = p.reals(m)
	default:
		err = fmt.Errorf("arithmetic %d is not known", p.Arithmetic)
	}
	if err != nil {
		return nil, err
	}
	n := p.Size * p.Size
	for i := range x {
		at, c := i, i%3
		if l == ChannelsFirst {
			c = i / n
			at = i%n*3 + c
		}
		dst = append(dst, (x[at]-p.Mean[c])/p.Std[c])
	}
	return dst, nil
}

// bytes crops or pads a resized picture.
func (p Preprocess) bytes(m *Image, err error) ([]float32, error) {
	if err == nil {
		m, err = m.CentreCrop(p.Size, p.Size, p.Centring)
	}
	if err != nil {
		return nil, err
	}
	return Floats(nil, m, Unit, ChannelsLast), nil
}

// reals resizes numbers, and crops or pads them.
func (p Preprocess) reals(m *Image) ([]float32, error) {
	in := make([]float64, len(m.Pix))
	for i, b := range m.Pix {
		in[i] = float64(Unit.FromByte(b))
	}
	placed, err := p.place(m.Width, m.Height)
	if err != nil {
		return nil, err
	}
	out := make([]float32, 3*p.Size*p.Size)
	for i, v := range placed.forward(in) {
		out[i] = float32(v)
	}
	return out, nil
}
