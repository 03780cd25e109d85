package rewards

import (
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

func TestJPEGKilobytes(t *testing.T) {
	flat, busy := vision.New(64, 64), vision.New(64, 64)
	for i := range busy.Pix {
		busy.Pix[i] = uint8(i * i * 31 >> 3)
	}
	a, err := JPEGKilobytes(flat)
	if err != nil {
		t.Fatal(err)
	}
	b, err := JPEGKilobytes(busy)
	if err != nil {
		t.Fatal(err)
	}
	if !(a > 0.6 && a < 1 && b > 4*a) {
		t.Errorf("a flat picture has %v kB, a busy one %v", a, b)
	}
	if _, err := JPEGKilobytes(&vision.Image{}); err == nil {
		t.Error("nothing has a size")
	}
}
