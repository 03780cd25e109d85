//go:build !gocv

package flow

import "github.com/darkroom-rl/darkroom/video"

// Between is not there.
func (f OpenCV) Between(*video.Clip, int, int) (*video.Field, error) { return nil, ErrNoOpenCV }

// Flow is not there.
func (f OpenCV) Flow(Gray, Gray) (*video.Field, error) { return nil, ErrNoOpenCV }
