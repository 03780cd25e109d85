package vision

import (
	"hash/crc32"
	"math"
	"testing"
)

// turnedByPillow are CRC-32 sums of noise(width, height, 3) after Pillow's Image.rotate.
var turnedByPillow = []struct {
	width, height int
	degrees       float64
	sum           uint32
}{
	{9, 6, 0, 0xbe6f156b},
	{9, 6, 90, 0x202afa9a},
	{9, 6, 180, 0xea93391d},
	{9, 6, 270, 0xb5f1be53},
	{9, 6, 360, 0xbe6f156b},
	{9, 6, -90, 0xb5f1be53},
	{9, 6, 37, 0x8505e4ba},
	{9, 6, -37.5, 0xf50b8c3f},
	{9, 6, 45, 0x8857943b},
	{9, 6, 12.5, 0xdaf43035},
	{9, 6, -120, 0x34779059},
	{9, 6, 0.01, 0xbe6f156b},
	{9, 6, 359.5, 0xbe6f156b},
	{9, 6, 725, 0xbe6f156b},
	{8, 8, 0, 0xffa942e5},
	{8, 8, 90, 0x471908a3},
	{8, 8, 180, 0xc0a60620},
	{8, 8, 270, 0x5f1e2982},
	{8, 8, 360, 0xffa942e5},
	{8, 8, -90, 0x5f1e2982},
	{8, 8, 37, 0x685b66c0},
	{8, 8, -37.5, 0x6b22fe0b},
	{8, 8, 45, 0x4a1b041b},
	{8, 8, 12.5, 0xa0b45b03},
	{8, 8, -120, 0xfb970e24},
	{8, 8, 0.01, 0xffa942e5},
	{8, 8, 359.5, 0xffa942e5},
	{8, 8, 725, 0xffa942e5},
	{31, 20, 0, 0x07322059},
	{31, 20, 90, 0xdae91032},
	{31, 20, 180, 0x7a25965d},
	{31, 20, 270, 0x300974fc},
	{31, 20, 360, 0x07322059},
	{31, 20, -90, 0x300974fc},
	{31, 20, 37, 0xa3f12c8a},
	{31, 20, -37.5, 0x7382d9c0},
	{31, 20, 45, 0x65ee087c},
	{31, 20, 12.5, 0xf12e1b34},
	{31, 20, -120, 0xe8e17624},
	{31, 20, 0.01, 0x07322059},
	{31, 20, 359.5, 0x07322059},
	{31, 20, 725, 0xe5f32939},
	{200, 150, 0, 0xa4dc80cc},
	{200, 150, 90, 0x9899f271},
	{200, 150, 180, 0xb743c716},
	{200, 150, 270, 0x56a123fb},
	{200, 150, 360, 0xa4dc80cc},
	{200, 150, -90, 0x56a123fb},
	{200, 150, 37, 0x3f0692db},
	{200, 150, -37.5, 0xb4932297},
	{200, 150, 45, 0x238815b0},
	{200, 150, 12.5, 0x0df8a3bd},
	{200, 150, -120, 0xf84a3483},
	{200, 150, 0.01, 0xa4dc80cc},
	{200, 150, 359.5, 0x02727784},
	{200, 150, 725, 0x7e392be5},
}

func TestRotateIsPillows(t *testing.T) {
	for _, c := range turnedByPillow {
		if got := crc32.ChecksumIEEE(noise(c.width, c.height, 3).RGB().Rotate(c.degrees).Pix); got != c.sum {
			t.Errorf("%d x %d by %v degrees: %08x, want %08x", c.width, c.height, c.degrees, got, c.sum)
		}
	}
}

// TestRotateAnything: no angle is too odd, and pictures beyond the fixed point are turned too.
func TestRotateAnything(t *testing.T) {
	m := noise(5, 3, 3).RGB()
	for _, a := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -1e-300} {
		if out := m.Rotate(a); out.Width != 5 || out.Height != 3 {
			t.Errorf("%v: %d x %d", a, out.Width, out.Height)
		}
	}
	long := New(40000, 2)
	long.Pix[3*20010] = 200
	if out := long.Rotate(0.001); out.Pix[3*20010] != 200 {
		t.Error("a long picture lost its middle")
	}
}
