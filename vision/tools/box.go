package tools

import (
	"fmt"
	"math"
)

// A Box is a rectangle by its corners: x0, y0, x1, y1.
type Box [4]float64

// A Rect is a Box in whole pixels.
type Rect [4]int

func (r Rect) Width() int { return r[2] - r[0] }

func (r Rect) Height() int { return r[3] - r[1] }

// Rounded is the rectangle that Pillow crops: each corner rounded half to even.
func (b Box) Rounded() Rect {
	var r Rect
	for i, v := range b {
		r[i] = int(math.RoundToEven(math.Max(-1<<40, math.Min(1<<40, v))))
	}
	return r
}

func (b Box) width() float64 { return b[2] - b[0] }

func (b Box) height() float64 { return b[3] - b[1] }

// Overlap is the share of want that b covers: a crop that shows the wanted thing covers most of it.
func (b Box) Overlap(want Box) float64 {
	area := want.width() * want.height()
	w := math.Min(b[2], want[2]) - math.Max(b[0], want[0])
	h := math.Min(b[3], want[3]) - math.Max(b[1], want[1])
	if !(w > 0) || !(h > 0) || !(area > 0) {
		return 0
	}
	return w * h / area
}

// proper reports whether a box has an area and is not thinner than 1 : 100.
func (b Box) proper() bool {
	if !(b[0] < b[2] && b[1] < b[3]) {
		return false
	}
	w, h := b.width(), b.height()
	return math.Max(w, h)/math.Min(w, h) <= 100
}

// crop is the operation that cuts a box out of a picture, which Pillow refuses for corners
// in the wrong order.
func crop(picture int, b Box) (Op, error) {
	if b[2] < b[0] {
		return Op{}, refuse(InvalidBox, "ValueError", "Coordinate 'right' is less than 'left'")
	}
	if b[3] < b[1] {
		return Op{}, refuse(InvalidBox, "ValueError", "Coordinate 'lower' is less than 'upper'")
	}
	return Op{Kind: "crop", Picture: picture, Box: b, Rect: b.Rounded()}, nil
}

// A Frame is the unit of a box's numbers. A model sees a picture after the processor has resized it, and a crop is
// cut from the picture at full size: a frame that is only assumed is the most common defect of such systems.
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
