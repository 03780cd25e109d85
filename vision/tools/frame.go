package tools

import "fmt"

// A Frame says what the numbers of a box mean. A model sees a picture after the processor has
// resized it, and a crop is cut from the picture at full size: a frame that is only assumed is
// the most common defect of such systems.
type Frame string

const (
	ShownPixels Frame = "shown"    // pixels of the picture as the model saw it
	FullPixels  Frame = "full"     // pixels of the picture at full size
	Unit        Frame = "unit"     // shares of its sides, 0 to 1
	Thousandths Frame = "thousand" // thousandths of its sides, as Qwen2-VL and Qwen3-VL count
)

// size is the width and height of a picture in a frame's unit.
func (f Frame) size(p Picture) (w, h float64, err error) {
	switch f {
	case ShownPixels:
		return float64(p.ShownWidth), float64(p.ShownHeight), nil
	case FullPixels:
		return float64(p.Width), float64(p.Height), nil
	case Unit:
		return 1, 1, nil
	case Thousandths:
		return 1000, 1000, nil
	}
	return 0, 0, fmt.Errorf("there is no frame %q; there are shown, full, unit, thousand", f)
}

// ToFull is a box in pixels of the picture at full size.
func (f Frame) ToFull(b Box, p Picture) (Box, error) {
	w, h, err := f.size(p)
	if err != nil || w <= 0 || h <= 0 {
		return b, err
	}
	x, y := float64(p.Width)/w, float64(p.Height)/h
	return Box{b[0] * x, b[1] * y, b[2] * x, b[3] * y}, nil
}

// FromFull is the way back.
func (f Frame) FromFull(b Box, p Picture) (Box, error) {
	w, h, err := f.size(p)
	if err != nil || p.Width <= 0 || p.Height <= 0 {
		return b, err
	}
	x, y := w/float64(p.Width), h/float64(p.Height)
	return Box{b[0] * x, b[1] * y, b[2] * x, b[3] * y}, nil
}
