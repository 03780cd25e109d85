package scorers

import (
	"errors"
	"fmt"
	"image/color"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

// A frame is where the input's pixels lie in the picture: x of the picture is (x of the input - left) · scale.
type frame struct {
	left, top      float64
	scaleX, scaleY float64
}

// grey surrounds letterboxed pictures.
var grey = color.RGBA{114, 114, 114, 255}

// shape finds the input, its size and its layout.
func (o *ONNX) shape(path string) error {
	inputs := o.Model.Inputs()
	if len(inputs) != 1 {
		return fmt.Errorf("%s: it has %d inputs, %v; a reward gives it one picture", path, len(inputs), inputs)
	}
	o.input = inputs[0]
	if o.input.Type != onnx.Float || o.input.Known && len(o.input.Shape) != 4 {
		return fmt.Errorf("%s: its input is %v; pictures are float[N,3,H,W] or float[N,H,W,3]", path, o.input)
	}
	height, width := -1, -1
	if o.input.Known {
		s := o.input.Shape
		switch {
		case s[1] == 3:
			height, width = s[2], s[3]
		case s[3] == 3:
			o.nhwc, height, width = true, s[1], s[2]
		case s[1] > 0 && s[3] > 0:
			return fmt.Errorf("%s: its input is %v; pictures have 3 channels", path, o.input)
		default:
			height, width = s[2], s[3]
		}
		if s[0] > 1 {
			return fmt.Errorf("%s: its input is %v; a reward gives one picture at a time", path, o.input)
		}
	}
	if len(o.Size) == 2 {
		if width < 0 {
			width = o.Size[0]
		}
		if height < 0 {
			height = o.Size[1]
		}
	}
	if width < 1 || height < 1 {
		return fmt.Errorf("%s: its input is %v, and no size is written\nhint: onnx.size = [640, 640]", path, o.input)
	}
	o.width, o.height = width, height
	return nil
}

// tensor is the network's input of a picture.
func (o *ONNX) tensor(m *vision.Image) (*onnx.Tensor, frame, error) {
	fitted, f, err := o.fit(m)
	if err != nil {
		return nil, f, err
	}
	n := o.width * o.height
	x := make([]float32, 3*n)
	for c := range 3 {
		from := c
		if o.Order == "bgr" {
			from = 2 - c
		}
		mean, std := o.Mean[c], o.Std[c]
		for i := range n {
			at := c*n + i
			if o.nhwc {
				at = 3*i + c
			}
			x[at] = float32((float64(float64(fitted.Pix[3*i+from])*o.Factor) - mean) / std)
		}
	}
	if o.nhwc {
		return onnx.Floats(x, 1, o.height, o.width, 3), f, nil
	}
	return onnx.Floats(x, 1, 3, o.height, o.width), f, nil
}

// fit brings a picture to the input's size.
func (o *ONNX) fit(m *vision.Image) (*vision.Image, frame, error) {
	w, h := o.width, o.height
	if m.Width < 1 || m.Height < 1 {
		return nil, frame{}, errors.New("an empty picture")
	}
	switch o.Fit {
	case "crop":
		rw, rh := 0, 0
		if len(o.Resize) == 2 {
			rw, rh = o.Resize[0], o.Resize[1]
		} else if m.Width*h < m.Height*w {
			rw, rh = w, max(h, m.Height*w/m.Width)
		} else {
			rw, rh = max(w, m.Width*h/m.Height), h
		}
		if rw < w || rh < h {
			return nil, frame{}, fmt.Errorf("onnx.resize is %d x %d, smaller than the input of %d x %d", rw, rh, w, h)
		}
		big, err := o.resize(m, rw, rh)
		if err != nil {
			return nil, frame{}, err
		}
		left, top := (rw-w)/2, (rh-h)/2
		out := vision.New(w, h)
		out.Paste(big, -left, -top)
		return out, frame{float64(-left), float64(-top), float64(m.Width) / float64(rw), float64(m.Height) / float64(rh)}, nil
	case "pad":
		// The smallest frame of the input's proportions, the picture in its upper left corner.
		side, other := m.Width, (m.Width*h+w-1)/w
		if other < m.Height {
			side, other = (m.Height*w+h-1)/h, m.Height
		}
		big := vision.New(side, other)
		big.Paste(m, 0, 0)
		out, err := o.resize(big, w, h)
		return out, frame{0, 0, float64(side) / float64(w), float64(other) / float64(h)}, err
	case "letterbox":
		scale := min(float64(w)/float64(m.Width), float64(h)/float64(m.Height))
		rw, rh := max(1, int(float64(m.Width)*scale+0.5)), max(1, int(float64(m.Height)*scale+0.5))
		small, err := o.resize(m, rw, rh)
		if err != nil {
			return nil, frame{}, err
		}
		out := vision.NewFilled(w, h, grey)
		left, top := (w-rw)/2, (h-rh)/2
		out.Paste(small, left, top)
		return out, frame{float64(left), float64(top), 1 / scale, 1 / scale}, nil
	}
	out, err := o.resize(m, w, h)
	return out, frame{0, 0, float64(m.Width) / float64(w), float64(m.Height) / float64(h)}, err
}

func (o *ONNX) resize(m *vision.Image, w, h int) (*vision.Image, error) {
	if o.Filter == "opencv" {
		return m.ResizeOpenCV(w, h)
	}
	filter := map[string]vision.Filter{"bilinear": vision.Bilinear, "bicubic": vision.Bicubic, "lanczos": vision.Lanczos, "nearest": vision.Nearest}[o.Filter]
	return m.Resize(w, h, filter)
}
