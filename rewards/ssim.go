package rewards

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: structural similarity (Wang, Bovik, Sheikh and Simoncelli, 2004), as scikit-image computes it with
// gaussian_weights, sigma 1.5 and use_sample_covariance = False: of every channel, with G a Gaussian window,
//
//	(2 Gx Gy + C1)(2 (Gxy - Gx Gy) + C2) / ((Gx² + Gy² + C1)(Gxx - Gx² + Gyy - Gy² + C2))
//
// C1 = (0.01·255)², C2 = (0.03·255)². A pixel has the mean of its channels, and a picture that of its pixels whose
// window lies inside. At the borders pictures are mirrored.
// Invariants (tests): a picture is 1 to itself. Held to scikit-image (testdata/ssim.py).

// ssimReach is how far a window reaches from its middle.
const ssimReach = 5

// SSIM is the similarity of two pictures of one size, and that of every pixel.
func SSIM(a, b *vision.Image) (mean float64, pixels []float64, err error) {
	if a.Width != b.Width || a.Height != b.Height {
		return 0, nil, fmt.Errorf("pictures of %d x %d and %d x %d: structural similarity is of one size", a.Width, a.Height, b.Width, b.Height)
	}
	if side := min(a.Width, a.Height); side < 2*ssimReach+1 {
		return 0, nil, fmt.Errorf("a picture of %d x %d: structural similarity looks at windows of %d pixels a side", a.Width, a.Height, 2*ssimReach+1)
	}
	pixels = make([]float64, a.Width*a.Height)
	for channel := range 3 {
		for i, s := range similarities(a, b, channel) {
			pixels[i] += s / 3
		}
	}
	mean, _ = meanInside(pixels, a.Width, a.Height, nil)
	return mean, pixels, nil
}

// meanInside is the mean over pixels whose window lies inside and which are not left out; n says how many there are.
func meanInside(pixels []float64, width, height int, out func(x, y int) bool) (mean float64, n int) {
	for y := ssimReach; y < height-ssimReach; y++ {
		for x := ssimReach; x < width-ssimReach; x++ {
			if out == nil || !out(x, y) {
				mean, n = mean+pixels[y*width+x], n+1
			}
		}
	}
	return mean / float64(max(1, n)), n
}

// similarities are those of a channel's pixels.
func similarities(a, b *vision.Image, channel int) []float64 {
	n := a.Width * a.Height
	x, y, xx, yy, xy := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		x[i], y[i] = float64(a.Pix[3*i+channel]), float64(b.Pix[3*i+channel])
		xx[i], yy[i], xy[i] = x[i]*x[i], y[i]*y[i], x[i]*y[i]
	}
	for _, of := range [][]float64{x, y, xx, yy, xy} {
		blurred(of, a.Width, a.Height)
	}
	const c1, c2 = 0.01 * 255 * 0.01 * 255, 0.03 * 255 * 0.03 * 255
	out := make([]float64, n)
	for i := range out {
		px, py, pxy := float64(x[i]*x[i]), float64(y[i]*y[i]), float64(x[i]*y[i])
		above := float64((2*pxy + c1) * (2*(xy[i]-pxy) + c2))
		out[i] = above / float64((px+py+c1)*(xx[i]-px+yy[i]-py+c2))
	}
	return out
}

// blurred takes every number's place by its window's weighted mean.
func blurred(of []float64, width, height int) {
	var weights [2*ssimReach + 1]float64
	sum := 0.0
	for i := range weights {
		d := float64(i - ssimReach)
		weights[i] = portable.Exp(-0.5 * d * d / (1.5 * 1.5))
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	line := make([]float64, max(width, height))
	along := func(first, step, n int) {
		for i := range n {
			line[i] = of[first+i*step]
		}
		for i := range n {
			v := 0.0
			for k, w := range weights {
				v += float64(w * line[mirrored(i+k-ssimReach, n)])
			}
			of[first+i*step] = v
		}
	}
	for x := range width {
		along(x, width, height)
	}
	for y := range height {
		along(y*width, 1, width)
	}
}

// mirrored is a place in a line that goes on backwards at its ends, each end twice.
func mirrored(i, n int) int {
	if i < 0 {
		return -1 - i
	}
	if i >= n {
		return 2*n - 1 - i
	}
	return i
}
