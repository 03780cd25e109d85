package vision

import (
	"math"
	"testing"
)

func numbers(n, seed int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(hash(i+seed))/(1<<31) - 1
	}
	return x
}

func everyRealResize(t *testing.T, try func(z *RealResize, fromW, fromH, w, h int)) {
	for _, size := range [][4]int{{7, 9, 14, 12}, {20, 30, 6, 8}, {13, 5, 13, 9}, {4, 3, 1, 1}, {1, 1, 5, 2}, {2, 40, 9, 10}} {
		for f := Box; f <= Lanczos; f++ {
			for _, antialias := range []bool{true, false} {
				z, err := NewRealResize(size[0], size[1], size[2], size[3], f, antialias)
				if plain := f == Bilinear || f == Bicubic; err != nil != (!antialias && !plain) {
					t.Fatalf("%v, antialias %t: %v", f, antialias, err)
				}
				if err == nil {
					try(z, size[0], size[1], size[2], size[3])
				}
			}
		}
	}
}

// TestRealResizeTranspose: <Forward x, y> = <x, Backward y>.
func TestRealResizeTranspose(t *testing.T) {
	everyRealResize(t, func(z *RealResize, fromW, fromH, w, h int) {
		x, y := numbers(2*fromW*fromH, 1), numbers(2*w*h, 77)
		dot := func(a, b []float64) (s float64) {
			for i := range a {
				s += a[i] * b[i]
			}
			return s
		}
		a, b := dot(z.Forward(x, 2), y), dot(x, z.Backward(y, 2))
		if math.Abs(a-b) > 1e-10*(1+math.Abs(a)) {
			t.Errorf("%d x %d to %d x %d: %v, %v", fromW, fromH, w, h, a, b)
		}
	})
}

// TestRealResizeKeepsConstants: weights sum to 1.
func TestRealResizeKeepsConstants(t *testing.T) {
	everyRealResize(t, func(z *RealResize, fromW, fromH, w, h int) {
		x := make([]float64, fromW*fromH)
		for i := range x {
			x[i] = 3
		}
		for _, v := range z.Forward(x, 1) {
			if math.Abs(v-3) > 1e-12 {
				t.Fatalf("%d x %d to %d x %d: 3 became %v", fromW, fromH, w, h, v)
			}
		}
	})
}

// TestRealResizeIsWhatPillowRounds: 8-bit resizing is off the real one by its two roundings.
func TestRealResizeIsWhatPillowRounds(t *testing.T) {
	m := New(40, 30)
	for i := range m.Pix {
		m.Pix[i] = uint8(96 + hash(i)%64) // nothing overshoots 0..255
	}
	x := make([]float64, len(m.Pix))
	for i, b := range m.Pix {
		x[i] = float64(b)
	}
	for f := Box; f <= Lanczos; f++ {
		z, err := NewRealResize(40, 30, 17, 50, f, true)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Resize(17, 50, f)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range z.Forward(x, 3) {
			if d := math.Abs(v - float64(got.Pix[i])); d > 1.4 {
				t.Fatalf("%v: number %d is %v, Pillow's %d", f, i, v, got.Pix[i])
			}
		}
	}
}
