//go:build gocv

package video

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"gocv.io/x/gocv"
)

// Card: with the tag gocv, containers are read by OpenCV where ffmpeg is not on PATH. It is
// asked by its own ffmpeg backend alone, so that a name with a % is a name, and about files
// alone whose first bytes are a container's (ffmpeg.go), which no playlist begins with. Frames
// come as BGR of full range and keep their order.

// OpenCV is the version that this program was built with.
func OpenCV() string { return gocv.OpenCVVersion() }

// readContainer reads files other than GIF, PNG and Y4M.
func readContainer(path, container string, l Limits) (*Clip, error) {
	if _, err := exec.LookPath("ffmpeg"); err == nil {
		return readFFmpeg(path, container, l)
	}
	return readOpenCV(patience, path, l)
}

func readOpenCV(limit time.Duration, path string, l Limits) (*Clip, error) {
	until := time.Now().Add(limit)
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.Size() > l.Bytes {
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that are allowed: store the clip smaller, or raise Limits.Bytes", path, info.Size(), l.Bytes)
	}
	v, err := gocv.VideoCaptureFileWithAPI(path, gocv.VideoCaptureFFmpeg)
	if err != nil {
		return nil, fmt.Errorf("%s: OpenCV: %w", path, err)
	}
	defer v.Close()
	if !v.IsOpened() {
		return nil, fmt.Errorf("%s: OpenCV cannot read it", path)
	}
	c := &Clip{Width: int(v.Get(gocv.VideoCaptureFrameWidth)), Height: int(v.Get(gocv.VideoCaptureFrameHeight))}
	if err := l.check(c.Width, c.Height, 1); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if fps := v.Get(gocv.VideoCaptureFPS); fps > 0 && fps < 1e5 {
		c.Rate = Rate{int(fps*1000 + 0.5), 1000}.reduced()
	}
	m := gocv.NewMat()
	defer m.Close()
	for v.Read(&m) && !m.Empty() {
		if err := l.check(c.Width, c.Height, len(c.Frames)+1); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if m.Cols() != c.Width || m.Rows() != c.Height || m.Type() != gocv.MatTypeCV8UC3 {
			return nil, fmt.Errorf("%s: frame %d is %d x %d of type %v, not of the clip's size in bytes", path, len(c.Frames), m.Cols(), m.Rows(), m.Type())
		}
		f := m.ToBytes()
		for i := 0; i < len(f); i += 3 {
			f[i], f[i+2] = f[i+2], f[i]
		}
		c.Frames = append(c.Frames, f)
		if time.Now().After(until) {
			return nil, fmt.Errorf("%s: OpenCV was not done after %v: cut the clip", path, limit)
		}
	}
	if len(c.Frames) == 0 {
		return nil, fmt.Errorf("%s: OpenCV reads no frame of it", path)
	}
	return c, nil
}
