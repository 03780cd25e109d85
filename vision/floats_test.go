package vision

import (
	"math"
	"slices"
	"testing"
)

func TestBytesComeBack(t *testing.T) {
	m := noise(13, 7, 3).RGB()
	for _, r := range []Range{Unit, Signed} {
		for _, l := range []Layout{ChannelsLast, ChannelsFirst} {
			x := Floats(nil, m, r, l)
			back, err := FromFloats(x, 13, 7, r, l)
			if err != nil || !slices.Equal(back.Pix, m.Pix) {
				t.Errorf("range %d, layout %d: bytes changed: %v", r, l, err)
			}
		}
		for b := range 256 {
			if got := r.ToByte(r.FromByte(uint8(b))); int(got) != b {
				t.Errorf("range %d: %d became %d", r, b, got)
			}
		}
	}
}

func TestLayouts(t *testing.T) {
	m := noise(3, 2, 3).RGB()
	last, first := Floats(nil, m, Unit, ChannelsLast), Floats(nil, m, Unit, ChannelsFirst)
	for c := range 3 {
		for i := range 6 {
			if last[3*i+c] != first[6*c+i] || last[3*i+c] != float32(m.Pix[3*i+c])/255 {
				t.Errorf("pixel %d, channel %d: %v, %v", i, c, last[3*i+c], first[6*c+i])
			}
		}
	}
}

func TestToByteAtTheEdges(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		r    Range
		x    float32
		want uint8
	}{
		{Unit, -1, 0}, {Unit, 2, 255}, {Unit, nan, 0}, {Unit, inf, 255}, {Unit, -inf, 0}, {Unit, 0.5, 128},
		{Signed, -2, 0}, {Signed, 2, 255}, {Signed, nan, 0}, {Signed, inf, 255}, {Signed, -inf, 0}, {Signed, 0, 128},
		{Unit, 0.5 / 255, 0}, {Unit, 1.5 / 255, 2}, {Unit, 2.5 / 255, 2}, // ties go to even
	} {
		if got := c.r.ToByte(c.x); got != c.want {
			t.Errorf("range %d: %v became %d, want %d", c.r, c.x, got, c.want)
		}
	}
	if _, err := FromFloats(make([]float32, 11), 2, 2, Unit, ChannelsLast); err == nil {
		t.Error("11 numbers made a picture of 2 x 2")
	}
}
