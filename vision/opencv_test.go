package vision

import (
	"slices"
	"testing"
)

// TestResizeOpenCV: results of OpenCV 5 for a picture of two rows, enlarged and shrunk.
func TestResizeOpenCV(t *testing.T) {
	m := New(4, 2)
	for i := range m.Pix {
		m.Pix[i] = uint8(37 * i)
	}
	for _, c := range []struct {
		w, h int
		want []uint8
	}{
		{3, 3, []uint8{18, 55, 92, 166, 75, 112, 101, 95, 132, 91, 128, 58, 133, 106, 143, 67, 83, 120, 164, 201, 24, 98, 135, 172, 33, 70, 107}},
		{6, 1, []uint8{94, 131, 40, 86, 123, 96, 95, 111, 148, 170, 100, 137, 116, 89, 126, 43, 80, 117}},
	} {
		got, err := m.ResizeOpenCV(c.w, c.h)
		if err != nil || !slices.Equal(got.Pix, c.want) {
			t.Errorf("%d x %d: %v, %v; %v was expected", c.w, c.h, got, err, c.want)
		}
	}
	if _, err := m.ResizeOpenCV(0, 4); err == nil {
		t.Error("a picture of no width was made")
	}
}
