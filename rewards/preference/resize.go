package preference

import (
	"math"

	"github.com/darkroom-rl/darkroom/vision"
)

// Card: a frame at VideoReward's size, as torchvision's functional resize makes it of bytes: in fp32, bicubic
// with antialiasing (a = -1/2), columns first, then cut to bytes and rounded half to even. Its newer
// interface resizes bytes as bytes, which is up to one level off. Where a sum lies
// within fp32's rounding of a half, a byte may come out one level off the recorded one.
//
// Held to qwen2vl.videoreward (resized).

// Frame is a frame of another size.
func Frame(m *vision.Image, width, height int) *vision.Image {
	if m.Width == width && m.Height == height {
		return m
	}
	columns, rows := tapsOf(m.Width, width), tapsOf(m.Height, height)
	middle := make([]float32, m.Height*width*3)
	for y := range m.Height {
		row := m.Row(y)
		for x, t := range columns {
			for c := range 3 {
				sum := float32(0)
				for j, w := range t.weights {
					sum += float32(w * float32(row[3*(t.first+j)+c]))
				}
				middle[(y*width+x)*3+c] = sum
			}
		}
	}
	out := vision.New(width, height)
	for y, t := range rows {
		for i := range width * 3 {
			sum := float32(0)
			for j, w := range t.weights {
				sum += float32(w * middle[(t.first+j)*width*3+i])
			}
			out.Pix[y*width*3+i] = uint8(math.RoundToEven(float64(min(max(sum, 0), 255))))
		}
	}
	return out
}

// taps are the pixels that one of the result reads.
type taps struct {
	first   int
	weights []float32
}

// tapsOf are those of n pixels of size, in fp32.
func tapsOf(size, n int) []taps {
	scale := float32(size) / float32(n)
	wide := max(scale, 1)
	support, by := 2*wide, 1/wide
	all := make([]taps, n)
	for i := range all {
		centre := float32(scale * (float32(i) + 0.5))
		first := max(int(centre-support+0.5), 0)
		w, sum := make([]float32, min(int(centre+support+0.5), size)-first), float32(0)
		for j := range w {
			w[j] = cubic(float32((float32(j+first) - centre + 0.5) * by))
			sum += w[j]
		}
		for j := range w {
			w[j] /= sum
		}
		all[i] = taps{first, w}
	}
	return all
}

// cubic is Keys' kernel with a = -1/2.
func cubic(x float32) float32 {
	const a = -0.5
	if x < 0 {
		x = -x
	}
	switch {
	case x < 1:
		return float32(float32((float32((a+2)*x)-(a+3))*x)*x) + 1
	case x < 2:
		return float32((float32((float32((x-5)*x)+8)*x) - 4) * a)
	}
	return 0
}
