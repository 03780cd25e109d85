package vision

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: measures of a picture without a network. Each is a number that rewards and monitors take; none says that a
// picture is good.
//
//	luma          (9798 R + 19235 G + 3735 B + 2^14) >> 15, as OpenCV's gray
//	Brightness    mean of luma
//	Contrast      its standard deviation
//	Sharpness     variance of the Laplacian of luma, neighbours mirrored at the edge without
//	              repeating it (Pech-Pacheco et al., 2000)
//	Saturation    mean of (max - min) / max over the channels, 0 for black
//	Colourfulness sd + 0.3 mean, where both are lengths over rg = R - G and yb = (R + G)/2 - B
//	              (Hasler and Suesstrunk, 2003)
//	Entropy       of luma's histogram, in bits: 0..8
//	Clipped       share of channel values that are 0 or 255
//
// All but Entropy scale with the picture's numbers; none depends on its size alone.

// Statistics are a picture's numbers; brightness, contrast and colour are in levels, 0..255.
type Statistics struct {
	Brightness, Contrast, Sharpness, Saturation, Colourfulness, Entropy, Clipped float64
}

// Luma is a pixel's gray as OpenCV computes it.
func Luma(r, g, b uint8) uint8 {
	return uint8((9798*uint32(r) + 19235*uint32(g) + 3735*uint32(b) + 1<<14) >> 15)
}

// Luma is a picture's gray.
func (m *Image) Luma() []uint8 {
	gray := make([]uint8, m.Width*m.Height)
	for i := range gray {
		p := m.Pix[3*i : 3*i+3]
		gray[i] = Luma(p[0], p[1], p[2])
	}
	return gray
}

// Statistics measures a picture.
func (m *Image) Statistics() Statistics {
	var s Statistics
	gray := m.Luma()
	n := float64(len(gray))
	var level, saturation, rg, yb moments
	var histogram [256]int
	clipped := 0
	for i, y := range gray {
		level.add(float64(y))
		histogram[y]++
		r, g, b := int(m.Pix[3*i]), int(m.Pix[3*i+1]), int(m.Pix[3*i+2])
		hi, lo := max(r, g, b), min(r, g, b)
		if hi > 0 {
			saturation.add(float64(hi-lo) / float64(hi))
		}
		rg.add(float64(r - g))
		yb.add(float64(r+g)/2 - float64(b))
		for _, v := range [3]int{r, g, b} {
			if v == 0 || v == 255 {
				clipped++
			}
		}
	}
	s.Brightness, s.Contrast = level.mean(n), math.Sqrt(level.variance(n))
	s.Saturation = saturation.mean(n)
	s.Colourfulness = math.Sqrt(rg.variance(n)+yb.variance(n)) + float64(0.3*portable.Hypot(rg.mean(n), yb.mean(n)))
	s.Clipped = float64(clipped) / (3 * n)
	for _, count := range histogram {
		if count > 0 {
			p := float64(count) / n
			s.Entropy -= float64(p * portable.Log2(p))
		}
	}
	s.Sharpness = laplacianVariance(gray, m.Width, m.Height)
	return s
}

// laplacianVariance is the variance of the sum of the four neighbours less four times a pixel.
func laplacianVariance(gray []uint8, width, height int) float64 {
	mirrored := func(i, n int) int { // -1 is 1, n is n-2
		switch {
		case n == 1:
			return 0
		case i < 0:
			return -i
		case i >= n:
			return 2*n - 2 - i
		}
		return i
	}
	var v moments
	for y := range height {
		up, down := gray[mirrored(y-1, height)*width:], gray[mirrored(y+1, height)*width:]
		row := gray[y*width:]
		for x := range width {
			left, right := row[mirrored(x-1, width)], row[mirrored(x+1, width)]
			v.add(float64(int(up[x]) + int(down[x]) + int(left) + int(right) - 4*int(row[x])))
		}
	}
	return v.variance(float64(width * height))
}

// moments are sums of values and of their squares; the values are small whole numbers, or
// few, so that float64 sums lose nothing that counts.
type moments struct{ sum, squares float64 }

func (m *moments) add(x float64)             { m.sum += x; m.squares += float64(x * x) }
func (m moments) mean(n float64) float64     { return m.sum / n }
func (m moments) variance(n float64) float64 { return max(m.squares/n-float64(m.mean(n)*m.mean(n)), 0) }
