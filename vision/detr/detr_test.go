package detr

import (
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
)

func noise(step, n int, scale float32) []float32 {
	x := make([]float32, n)
	rng.New(9).Step(step).Normal(x, 0)
	for i := range x {
		x[i] *= scale
	}
	return x
}

// naive is the formula of Places for places as references, without a share of work.
func naive(p Places, b, q, c int, value, offsets, weights []float32) []float64 {
	out := make([]float64, b*q*c)
	each, total := c/p.Heads, Pixels(p.Levels)
	for i := range b * q {
		for h := range p.Heads {
			at := 0
			for l, n := range p.Points {
				from := Pixels(p.Levels[:l])
				w, hh := p.Levels[l].W, p.Levels[l].H
				for range n {
					k := (i*p.Heads+h)*p.each() + at
					at++
					ref := p.Refs[(i*len(p.Levels)+l)*p.Coordinates:]
					x, y := float64(ref[0])*float64(w)+float64(offsets[2*k]), float64(ref[1])*float64(hh)+float64(offsets[2*k+1])
					if p.Coordinates == 4 {
						s := float64(p.Spread[at-1])
						x = (float64(ref[0]) + float64(offsets[2*k])*s*float64(ref[2])) * float64(w)
						y = (float64(ref[1]) + float64(offsets[2*k+1])*s*float64(ref[3])) * float64(hh)
					}
					for py := range hh {
						for px := range w {
							share := max(0, 1-math.Abs(x-0.5-float64(px))) * max(0, 1-math.Abs(y-0.5-float64(py)))
							if p.Nearest {
								share = 0
								if px == min(max(int(math.Floor(x+0.5)), 0), w-1) && py == min(max(int(math.Floor(y+0.5)), 0), hh-1) {
									share = 1
								}
							}
							for d := range each {
								out[i*c+h*each+d] += share * float64(weights[k]) * float64(value[(i/q*total+from+py*w+px)*c+h*each+d])
							}
						}
					}
				}
			}
		}
	}
	return out
}

// TestPlaces: values are those of the naive formula, gradients those of finite differences.
func TestPlaces(t *testing.T) {
	const b, q, c = 2, 3, 4
	levels := []Size{{3, 4}, {2, 5}}
	refs, boxes := noise(1, b*q*2*2, 0.3), noise(2, b*q*2*4, 0.2)
	for i := range refs {
		refs[i] += 0.5
	}
	for i := range boxes {
		boxes[i] += 0.5
	}
	for name, p := range map[string]Places{
		"places":  {Levels: levels, Heads: 2, Points: []int{2, 1}, Refs: refs, Coordinates: 2},
		"boxes":   {Levels: levels, Heads: 2, Points: []int{1, 2}, Refs: boxes, Coordinates: 4, Spread: []float32{0.5, 0.25, 0.25}},
		"nearest": {Levels: levels, Heads: 1, Points: []int{1, 1}, Refs: refs, Coordinates: 2, Nearest: true},
	} {
		n := b * q * p.Heads * p.each()
		numbers := [][]float32{noise(3, b*Pixels(levels)*c, 1), noise(4, n*2, 1), noise(5, n, 1)}
		weigh := noise(6, b*q*c, 1)
		pool := tensor.NewPool(ref.Backend{})
		run := func() (y []float32, grads [][]float32, sum float64) {
			tp := autograd.New(pool, autograd.Options{Train: true})
			defer tp.Reset()
			var in []*autograd.Value
			for i, shape := range [][]int{{b, Pixels(levels), c}, {b, q, n / (b * q) * 2}, {b, q, n / (b * q)}} {
				m := pool.FromF32(kernels.F32, numbers[i], shape...)
				in = append(in, tp.Variable(m))
				m.Free()
			}
			v := p.Apply(tp, in[0], in[1], in[2])
			y = v.F32()
			for i, x := range y {
				sum += float64(x) * float64(weigh[i])
			}
			tp.Backward(autograd.Seed{Of: v, Grad: weigh})
			for _, x := range in {
				grads = append(grads, x.Grad().F32())
			}
			return y, grads, sum
		}
		y, grads, _ := run()
		for i, want := range naive(p, b, q, c, numbers[0], numbers[1], numbers[2]) {
			if math.Abs(float64(y[i])-want) > 1e-5 {
				t.Fatalf("%s: number %d is %v, the formula gives %v", name, i, y[i], want)
			}
		}
		for k := range numbers {
			if p.Nearest && k == 1 {
				continue // a step function
			}
			for i := 0; i < len(numbers[k]); i += 3 {
				const h = 1.0 / 1024
				x := &numbers[k][i]
				old := *x
				*x = old + h
				_, _, up := run()
				*x = old - h
				_, _, down := run()
				*x = old
				if want := (up - down) / (2 * h); math.Abs(want-float64(grads[k][i])) > 2e-3*(1+math.Abs(want)) {
					t.Errorf("%s: operand %d, number %d: gradient %v, finite differences give %v", name, k, i, grads[k][i], want)
				}
			}
		}
	}
}

// TestResized: the numbers of torch's interpolate; the gradient is the transpose.
func TestResized(t *testing.T) {
	x := []float32{1, 2, 4, 8, 16, 32}
	for to, want := range map[Size][]float32{
		{1, 2}: {5.625, 15.75},
		{3, 5}: {1, 1.4, 2, 3.2, 4, 4.5, 6.3, 9, 14.4, 18, 8, 11.2, 16, 25.6, 32},
	} {
		got := Resized(x, 1, Size{2, 3}, to, 1)
		for i, v := range want {
			if math.Abs(float64(got[i]-v)) > 1e-5 {
				t.Errorf("%v: %v, and %v was expected", to, got, want)
				break
			}
		}
		d, sum := noise(1, len(want), 1), 0.0
		for i, v := range unresized(d, 1, Size{2, 3}, to, 1) {
			sum += float64(v) * float64(x[i])
		}
		for i, v := range got {
			sum -= float64(v) * float64(d[i])
		}
		if math.Abs(sum) > 1e-4 {
			t.Errorf("%v: <gradient, x> and <d, y> differ by %v", to, sum)
		}
	}
}

// TestTarget: the sizes of transformers' get_size_with_aspect_ratio.
func TestTarget(t *testing.T) {
	for _, c := range []struct {
		p    Processor
		w, h int
		want Size
	}{
		{EdgeProcessor(0), 640, 480, Size{800, 1066}},
		{EdgeProcessor(0), 480, 640, Size{1066, 800}},
		{EdgeProcessor(0), 1000, 300, Size{400, 1333}},
		{EdgeProcessor(32), 1000, 300, Size{416, 1344}},
		{EdgeProcessor(0), 800, 800, Size{800, 800}},
		{SquareProcessor(640), 1000, 3, Size{640, 640}},
	} {
		if got := c.p.Target(c.w, c.h); got != c.want {
			t.Errorf("%d x %d: %v, and %v was expected", c.w, c.h, got, c.want)
		}
	}
	b, err := EdgeProcessor(32).Apply([]*vision.Image{vision.New(20, 10), nil})
	if err == nil {
		t.Errorf("a picture that is none became %v", b.Size)
	}
}
