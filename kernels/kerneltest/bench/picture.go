package bench

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// convolutions: 3x3, as many channels out as in. Pictures are channels-last here
// always, so one workload answers both of the peer's layouts.
func convolutions() []workload {
	var all []workload
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, s := range [][2]int{{512, 32}, {256, 128}, {128, 256}, {16, 64}} {
			c, r := s[0], s[1]
			for _, op := range []string{"conv3x3", "conv3x3_channels_last"} {
				all = append(all, workload{op: op, shape: []int{c, r, r}, dtype: d, work: 18 * float64(c) * float64(c) * float64(r) * float64(r),
					prepare: func(m *maker) (func(), func() (int, error)) { return convolve(m, c, r, d) }})
			}
		}
	}
	return all
}

func convolve(m *maker, c, r int, d kernels.DType) (func(), func() (int, error)) {
	shape := kernels.ConvShape{In: c, Out: c, KH: 3, KW: 3, Stride: 1, Top: 1, Left: 1, Bottom: 1, Right: 1}
	x, w, y := m.random(d, r*r*c), m.random(d, c*9*c), m.empty(d, r*r*c)
	packed := m.b.PackConv(w, shape, mathOf(d))
	m.owned = append(m.owned, packed.Buf)
	a := &kernels.Conv{Shape: shape, Math: mathOf(d), X: x, Y: y, N: 1, H: r, W: r, Packed: packed}
	run := func() { m.b.Conv(a) }
	return run, func() (int, error) {
		// Four pixels of the result, each the centre of a picture of 3x3.
		hx, hw, hy := m.host(x), m.host(w), m.host(y)
		centre := shape
		centre.Top, centre.Left, centre.Bottom, centre.Right = 0, 0, 0, 0
		total := 0
		for _, p := range [][2]int{{0, 0}, {1, r / 2}, {r / 2, r - 1}, {r - 1, r - 2}} {
			patch := fresh(d, 9*c)
			size := d.Size()
			clear(patch.Raw())
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					i, j := p[0]+dy, p[1]+dx
					if i < 0 || j < 0 || i >= r || j >= r {
						continue
					}
					copy(patch.Raw()[((dy+1)*3+dx+1)*c*size:], hx.Slice((i*r+j)*c, (i*r+j+1)*c).Raw())
				}
			}
			want := fresh(d, c)
			ref.Backend{}.Conv(&kernels.Conv{Shape: centre, Math: mathOf(d), X: patch, Weight: hw, Y: want, N: 1, H: 3, W: 3})
			at := (p[0]*r + p[1]) * c
			n, err := m.same(kernels.NewMat(hy.Slice(at, at+c), 1, c), kernels.NewMat(want, 1, c))
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	}
}
