package vision

import (
	"image"
	"image/color"
	"testing"
)

// hash is a number that looks like nothing.
func hash(i int) uint32 {
	x := uint32(i)*2654435761 + 12345
	x ^= x >> 15
	x *= 2246822519
	return x ^ x>>13
}

// noise is a picture of unrelated bytes.
func noise(width, height, channels int) *Raster {
	r := NewRaster(width, height, channels)
	for i := range r.Pix {
		r.Pix[i] = uint8(hash(i))
	}
	return r
}

func TestImageIsADrawImage(t *testing.T) {
	m := noise(5, 4, 3).RGB()
	c := color.RGBA{9, 200, 77, 255}
	m.Set(3, 2, c)
	if got := m.At(3, 2); got != c {
		t.Errorf("set %v, got %v", c, got)
	}
	if p := m.Row(2)[9:12]; p[0] != 9 || p[1] != 200 || p[2] != 77 {
		t.Errorf("bytes of pixel (3, 2): %v", p)
	}
	m.Set(-1, 0, c)
	m.Set(5, 0, c)
	if got := m.At(5, 0); got != (color.RGBA{}) {
		t.Errorf("beyond the picture: %v", got)
	}
}

var white = color.RGBA{255, 255, 255, 255}

func TestFillAndPasteAreClipped(t *testing.T) {
	red := color.RGBA{255, 0, 0, 255}
	m := New(4, 3)
	m.Fill(image.Rect(-2, 1, 2, 9), red)
	for y := range 3 {
		for x := range 4 {
			if got, want := m.At(x, y) == red, x < 2 && y >= 1; got != want {
				t.Errorf("(%d, %d): painted %t, want %t", x, y, got, want)
			}
		}
	}
	from := noise(3, 3, 3).RGB()
	for _, at := range []image.Point{{0, 0}, {-1, -2}, {2, 1}, {5, 5}, {-3, 0}} {
		m := New(4, 3)
		m.Paste(from, at.X, at.Y)
		for y := range 3 {
			for x := range 4 {
				want := color.Color(color.RGBA{A: 255})
				if p := image.Pt(x, y).Sub(at); p.In(from.Bounds()) {
					want = from.At(p.X, p.Y)
				}
				if got := m.At(x, y); got != want {
					t.Errorf("pasted at %v, (%d, %d) is %v, want %v", at, x, y, got, want)
				}
			}
		}
	}
}

func TestEnlarge(t *testing.T) {
	m := noise(3, 2, 3).RGB()
	for times := 1; times <= 3; times++ {
		big := m.Enlarge(times)
		for y := range big.Height {
			for x := range big.Width {
				if got, want := big.At(x, y), m.At(x/times, y/times); got != want {
					t.Fatalf("%d times, (%d, %d): %v, want %v", times, x, y, got, want)
				}
			}
		}
	}
}

func TestOver(t *testing.T) {
	r := &Raster{3, 1, 4, []uint8{200, 100, 0, 255, 200, 100, 0, 0, 200, 100, 0, 128}}
	m := r.Over(color.RGBA{0, 100, 255, 255})
	want := []uint8{200, 100, 0, 0, 100, 255, 100, 100, 127}
	for i, w := range want {
		if m.Pix[i] != w {
			t.Errorf("byte %d is %d, want %d", i, m.Pix[i], w)
		}
	}
	if got := r.RGB().Pix[3:6]; got[0] != 200 || got[1] != 100 || got[2] != 0 {
		t.Errorf("a hidden colour without its alpha: %v", got)
	}
}
