package vision

import (
	"math"
	"testing"
)

// TestSoft: backward is forward's transpose, and forward is the pipeline for bytes but for
// its roundings, whatever is cut off or padded.
func TestSoft(t *testing.T) {
	for _, p := range []Preprocess{CLIPPillow(12), HPSv2(12), CLIPDifferentiable(12), DINO(12), {Size: 12, Edge: 16, Filter: Bicubic, Arithmetic: Real, Mean: imageNetMean, Std: imageNetStd}} {
		for _, size := range [][2]int{{20, 15}, {9, 30}, {12, 12}, {5, 4}} {
			m := noise(size[0], size[1], 3).RGB()
			s, err := p.Soft(m.Width, m.Height)
			if err != nil {
				t.Fatal(err)
			}
			in := Pixels{m.Width, m.Height, Floats(nil, m, Unit, ChannelsLast)}
			out, err := s.Forward(in)
			if err != nil {
				t.Fatal(err)
			}
			hard, err := p.Apply(nil, m, ChannelsLast)
			if err != nil {
				t.Fatal(err)
			}
			if p.Arithmetic == Real {
				for i := range out {
					if math.Abs(float64(out[i]-hard[i])) > 1e-5 {
						t.Fatalf("%+v of %v: [%d] is %v, from bytes %v", p, size, i, out[i], hard[i])
					}
				}
			}
			// The map is affine: <forward(x+d) - forward(x), g> = <d, backward(g)>.
			g, d := make([]float32, len(out)), make([]float32, len(in.RGB))
			for i := range g {
				g[i] = float32(math.Sin(float64(3*i + 1)))
			}
			moved := Pixels{m.Width, m.Height, append([]float32(nil), in.RGB...)}
			for i := range d {
				d[i] = float32(math.Cos(float64(5*i + 2)))
				moved.RGB[i] += d[i]
			}
			far, err := s.Forward(moved)
			if err != nil {
				t.Fatal(err)
			}
			var left, right, scale float64
			for i := range g {
				left += float64(far[i]-out[i]) * float64(g[i])
			}
			for i, v := range s.Backward(g) {
				right += float64(v) * float64(d[i])
				scale += math.Abs(float64(v) * float64(d[i]))
			}
			if math.Abs(left-right) > 1e-5*(1+scale) {
				t.Errorf("%+v of %v: %v before, %v after turning round", p, size, left, right)
			}
		}
	}
	s, err := DINO(4).Soft(8, 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Forward(Pixels{8, 7, make([]float32, 3*8*7)}); err == nil {
		t.Error("a picture of another size was taken")
	}
	if _, err := (Preprocess{Size: 0}).Soft(4, 4); err == nil {
		t.Error("a tower of no size was taken")
	}
}

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
