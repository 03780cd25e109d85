//go:build gocv

package flow

import (
	"errors"
	"fmt"

	"gocv.io/x/gocv"

	"github.com/darkroom-rl/darkroom/video"
)

var errStart = errors.New("flow by OpenCV starts from no motion")

// optflowGaussian is OpenCV's OPTFLOW_FARNEBACK_GAUSSIAN.
const optflowGaussian = 256

// HasOpenCV is whether the program was built with it.
const HasOpenCV = true

// Between is the flow between two frames of a clip.
func (f OpenCV) Between(c *video.Clip, from, to int) (*video.Field, error) {
	a, b, err := pair(c, from, to)
	if err != nil {
		return nil, err
	}
	return f.Flow(a, b)
}

// Flow is the flow from frame a to frame b.
func (f OpenCV) Flow(first, second Gray) (*video.Field, error) {
	s := f.filled()
	if err := checkPair(first, second); err != nil {
		return nil, err
	}
	if s.Start != nil {
		return nil, errStart
	}
	if err := s.check(first); err != nil {
		return nil, err
	}
	var frames [2]gocv.Mat
	for i, g := range [2]Gray{first, second} {
		m, err := gocv.NewMatFromBytes(g.Height, g.Width, gocv.MatTypeCV8U, g.Pix)
		if err != nil {
			return nil, fmt.Errorf("a frame for OpenCV: %w", err)
		}
		defer m.Close()
		frames[i] = m
	}
	flags := 0
	if s.Gaussian {
		flags = optflowGaussian
	}
	out := gocv.NewMatWithSize(first.Height, first.Width, gocv.MatTypeCV32FC2)
	defer out.Close()
	gocv.CalcOpticalFlowFarneback(frames[0], frames[1], &out, s.PyramidScale, s.Levels, s.Window, s.Iterations, s.PolyN, s.PolySigma, flags)
	both, err := out.DataPtrFloat32()
	if err != nil || len(both) != 2*len(first.Pix) {
		return nil, fmt.Errorf("OpenCV's flow has %d numbers for %d pixels: %w", len(both), len(first.Pix), err)
	}
	field := &video.Field{Width: first.Width, Height: first.Height, X: make([]float32, len(first.Pix)), Y: make([]float32, len(first.Pix))}
	for i := range field.X {
		field.X[i], field.Y[i] = both[2*i], both[2*i+1]
	}
	return field, nil
}
