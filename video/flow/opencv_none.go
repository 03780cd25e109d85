//go:build !gocv

package flow

import "github.com/darkroom-rl/darkroom/video"

// HasOpenCV is whether the program was built with it.
const HasOpenCV = false

// Between is not there.
func (f OpenCV) Between(*video.Clip, int, int) (*video.Field, error) { return nil, ErrNoOpenCV }

// Flow is not there.
func (f OpenCV) Flow(Gray, Gray) (*video.Field, error) { return nil, ErrNoOpenCV }
