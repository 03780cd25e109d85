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
