//go:build gocv

package video

import (
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"gocv.io/x/gocv"
)

// A clip that OpenCV wrote comes back: its size, its rate, its frames, as far as the codec goes.
func TestOpenCVReads(t *testing.T) {
	if _, err := exec.LookPath("ffmpeg"); err == nil {
		t.Log("ffmpeg is installed: Open asks it, and OpenCV is asked here by name")
	}
	path := filepath.Join(t.TempDir(), "100%d.avi")
	w, err := gocv.VideoWriterFile(path, "MJPG", 12.5, 64, 48, true)
	if err != nil || !w.IsOpened() {
		t.Skip("OpenCV writes no MJPG here: ", err)
	}
	var want [][3]uint8
	for i := range 5 {
		bgr := [3]uint8{uint8(40 * i), 90, uint8(200 - 30*i)}
		m := gocv.NewMatWithSizeFromScalar(gocv.NewScalar(float64(bgr[0]), float64(bgr[1]), float64(bgr[2]), 0), 48, 64, gocv.MatTypeCV8UC3)
		if err := w.Write(m); err != nil {
			t.Fatal(err)
		}
		m.Close()
		want = append(want, [3]uint8{bgr[2], bgr[1], bgr[0]})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := readOpenCV(patience, path, Limits{}.filled())
	if err != nil {
		t.Fatal(err)
	}
	if c.Width != 64 || c.Height != 48 || len(c.Frames) != 5 || math.Abs(c.Rate.FPS()-12.5) > 0.01 {
		t.Fatalf("%d x %d, %d frames, %v a second", c.Width, c.Height, len(c.Frames), c.Rate.FPS())
	}
	for i, f := range c.Frames {
		for k := range 3 {
			if math.Abs(float64(f[3*(24*64+32)+k])-float64(want[i][k])) > 8 {
				t.Errorf("frame %d is %v, want %v", i, f[3*(24*64+32):3*(24*64+33)], want[i])
				break
			}
		}
	}
	if _, err := Open(path, Limits{}); err != nil {
		t.Error(err)
	}
	if _, err := readOpenCV(patience, path, Limits{Frames: 3}.filled()); err == nil {
		t.Error("more frames than are allowed were read")
	}
	if OpenCV() == "" {
		t.Error("no version")
	}
}
