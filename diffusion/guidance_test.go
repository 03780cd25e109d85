package diffusion

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func normals(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= 1e-12*(1+math.Abs(want[i]))) {
			t.Errorf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// A scale of 0 is the unconditional prediction, 1 the conditional one; between and beyond
// them it is a line.
func TestGuideIsALine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	u, c := normals(r, 6), normals(r, 6)
	near(t, "scale 0", Guide(u, c, 0), u)
	near(t, "scale 1", Guide(u, c, 1), c)
	low, mid, high := Guide(u, c, 2), Guide(u, c, 4), Guide(u, c, 6)
	for i := range mid {
		if math.Abs((low[i]+high[i])/2-mid[i]) > 1e-12 {
			t.Errorf("value %d is not on the line", i)
		}
	}
}

// Every row of the guided prediction is as long as the conditional one, and keeps its
// direction.
func TestGuideNormKeepsLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const width = 5
	u, c := normals(r, 3*width), normals(r, 3*width)
	plain, v := Guide(u, c, 4.5), GuideNorm(u, c, 4.5, width)
	for at := 0; at < len(v); at += width {
		var own, want, along, free float64
		for i := at; i < at+width; i++ {
			own, want = own+v[i]*v[i], want+c[i]*c[i]
			along, free = along+v[i]*plain[i], free+plain[i]*plain[i]
		}
		near(t, "length", []float64{math.Sqrt(own)}, []float64{math.Sqrt(want)})
		near(t, "direction", []float64{along}, []float64{math.Sqrt(own * free)})
	}
}

// Unpack inverts Pack, and a token is the patch at its place.
func TestPackAndUnpack(t *testing.T) {
	for _, size := range [][3]int{{1, 2, 2}, {3, 2, 6}, {4, 8, 4}, {16, 4, 4}} {
		channels, height, width := size[0], size[1], size[2]
		latents := make([]float64, channels*height*width)
		for i := range latents {
			latents[i] = float64(i)
		}
		tokens, places, err := Pack(latents, channels, height, width)
		if err != nil {
			t.Fatal(err)
		}
		if len(places) != height*width/4 || len(tokens) != len(latents) {
			t.Fatalf("%v: %d places, %d values", size, len(places), len(tokens))
		}
		if !slices.Equal(Unpack(tokens, channels, height, width), latents) {
			t.Errorf("%v: unpacking does not restore", size)
		}
		for n, p := range places {
			for k := range 4 * channels {
				y, x := 2*p[1]+k%4/2, 2*p[2]+k%2
				if want := float64((k/4*height+y)*width + x); tokens[n*4*channels+k] != want {
					t.Errorf("%v: token %v element %d is %v, want %v", size, p, k, tokens[n*4*channels+k], want)
				}
			}
		}
	}
}

// The gradients at both outputs are those of finite differences, with the norm kept and
// without.
func TestGuideGrad(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const width, scale = 4, 3.5
	u, c, g := normals(r, 3*width), normals(r, 3*width), normals(r, 3*width)
	for _, norm := range []int{0, width} {
		loss := func() (sum float64) {
			v := Guide(u, c, scale)
			if norm > 0 {
				v = GuideNorm(u, c, scale, norm)
			}
			for i := range v {
				sum += g[i] * v[i]
			}
			return sum
		}
		du, dc := GuideGrad(u, c, scale, norm, g)
		for _, side := range []struct{ x, grad []float64 }{{u, du}, {c, dc}} {
			for i := range side.x {
				const h = 1e-6
				old := side.x[i]
				side.x[i] = old + h
				up := loss()
				side.x[i] = old - h
				down := loss()
				side.x[i] = old
				if want := (up - down) / (2 * h); math.Abs(side.grad[i]-want) > 1e-7*(1+math.Abs(want)) {
					t.Errorf("width %d: gradient %v, differences say %v", norm, side.grad[i], want)
				}
			}
		}
	}
}

// A row or a column that no patch holds is refused, never dropped.
func TestPackRefuses(t *testing.T) {
	for _, size := range [][3]int{{1, 3, 2}, {1, 2, 5}, {2, 7, 7}, {1, -2, 2}, {-1, 2, 2}} {
		n := max(size[0]*size[1]*size[2], 0)
		if tokens, _, err := Pack(make([]float64, n), size[0], size[1], size[2]); err == nil {
			t.Errorf("%v was packed into %d values", size, len(tokens))
		}
	}
	if _, _, err := Pack(make([]float64, 7), 1, 2, 4); err == nil {
		t.Error("a number too few")
	}
}

// TestGuideNothing: outputs that are all zero, which a backend that only counts gives, stay so.
func TestGuideNothing(t *testing.T) {
	u, c := []float64{0, 0, 1, 2}, []float64{0, 0, 3, 1}
	du, dc := GuideGrad(u, c, 4, 2, []float64{1, 1, 1, 1})
	for i, v := range append(append(GuideNorm(u, c, 4, 2), du...), dc...) {
		if zero := i%4 < 2; v != v || zero != (v == 0) {
			t.Errorf("number %d is %v", i, v)
		}
	}
}

// The guided prediction is no longer than a multiple of the conditional one, and a shorter one stays; finite
// differences agree with the gradient on both sides.
func TestGuideMost(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	u, c, g := normals(r, 7), normals(r, 7), normals(r, 7)
	for _, most := range []float64{0.5, 1, 100} {
		plain, v := Guide(u, c, 3), GuideMost(u, c, 3, most)
		want := min(length(plain), most*length(c))
		near(t, "length", []float64{length(v)}, []float64{want})
		if most == 100 {
			near(t, "a shorter one", v, plain)
		}
		du, dc := GuideMostGrad(u, c, 3, most, g)
		along := func() (sum float64) {
			for i, x := range GuideMost(u, c, 3, most) {
				sum += x * g[i]
			}
			return sum
		}
		for i := range u {
			for _, at := range []struct {
				x    *float64
				grad float64
			}{{&u[i], du[i]}, {&c[i], dc[i]}} {
				const h = 1e-6
				old := *at.x
				*at.x = old + h
				up := along()
				*at.x = old - h
				down := along()
				*at.x = old
				if slope := (up - down) / (2 * h); math.Abs(slope-at.grad) > 1e-7 {
					t.Errorf("at most %v: gradient %v, difference %v", most, at.grad, slope)
				}
			}
		}
	}
}
