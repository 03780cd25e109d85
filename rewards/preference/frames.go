package preference

import (
	"errors"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: which frames VideoReward reads (VideoAlign's vision_process.py, after qwen-vl-utils). Count frames, or
// FPS of them a second between Least and Most, rounded half to even to a multiple of 2, and at most the clip's:
// an odd number can come out, which upstream's patches do not hold. They lie evenly from the first to the last.
// MultiPoints takes six frames around each of four points of the clip at eight frames a second.
//
// Held to qwen2vl.frame_indices.

// Reading says which frames are read.
type Reading struct {
	FPS         float64
	Count       int // 0: by FPS
	Least, Most int // 0: 4, and 768
	MultiPoints bool
}

// Of is the frames' numbers.
func (r Reading) Of(total int, rate float64) ([]int, error) {
	if total < 2 || !(rate > 0 && rate < 1e6) {
		return nil, errors.New("a clip of fewer than 2 frames, or without a rate: VideoReward reads neither")
	}
	if r.MultiPoints {
		return points(total, rate)
	}
	n := r.Count
	if n == 0 {
		least, most := r.Least, r.Most
		if least == 0 {
			least = 4
		}
		if most == 0 {
			most = min(768, total)
		}
		wanted := math.Max(float64(total)/rate*r.FPS, float64((least+1)/2*2))
		n = even(math.Min(wanted, float64(most/2*2)))
	} else {
		n = even(float64(n))
	}
	if n = min(n, total); n < 2 {
		return nil, errors.New("fewer than 2 frames would be read: ask for more")
	}
	return video.Uniform(total, n), nil
}

// even is a number rounded half to even to a multiple of 2.
func even(x float64) int { return int(math.RoundToEven(x/2)) * 2 }

// points are six frames around each of four.
func points(total int, rate float64) ([]int, error) {
	n := int(math.Floor(float64(total) * 8 / rate))
	if n < 7 {
		return nil, errors.New("a clip of less than a second has no four points to look around")
	}
	all := video.Uniform(total, n)
	var frames []int
	for _, at := range video.Uniform(n-6, 4) {
		frames = append(frames, all[at:at+6]...)
	}
	return frames, nil
}

// Card: a frame at VideoReward's size, as torchvision's functional resize makes it of bytes: in fp32, bicubic
// with antialiasing (a = -1/2), columns first, then cut to bytes and rounded half to even. Its newer
// interface resizes bytes as bytes, which is up to one level off.
//
// Bytes that lie near a half follow the arithmetic of ATen's CPU kernels, as they are compiled for AVX2 and AVX-512:
// weights by fused multiply-adds, their places rounded to fp32 once, behind a sum and a product in float64; of a sum
// w0 x0 + w1 x1 + ... four terms at a time are products and sums apart, and the up to three that are left are fused.
//
// HPSv3's differentiable way is the same without bytes: numbers from 0 to 255 are neither cut nor rounded.
//
// Held to qwen2vl.videoreward (resized) and qwen2vl.hpsv3 (pictures' gradients).

// Frame is a frame of another size.
func Frame(m *vision.Image, width, height int) *vision.Image {
	if m.Width == width && m.Height == height {
		return m
	}
	x := make([]float32, len(m.Pix))
	for i, v := range m.Pix {
		x[i] = float32(v)
	}
	out := vision.New(width, height)
	for i, v := range (Resizing{m.Width, m.Height, width, height}).Of(x) {
		out.Pix[i] = uint8(math.RoundToEven(float64(min(max(v, 0), 255))))
	}
	return out
}

// Resizing makes pictures of another size.
type Resizing struct{ FromWidth, FromHeight, Width, Height int }

// Of is a picture [FromHeight, FromWidth, 3] at the other size.
func (r Resizing) Of(x []float32) []float32 {
	middle := make([]float32, r.FromHeight*r.Width*3)
	for k, t := range tapsOf(r.FromWidth, r.Width) {
		for y := range r.FromHeight {
			for c := range 3 {
				middle[(y*r.Width+k)*3+c] = t.sum(x[(y*r.FromWidth+t.first)*3+c:], 3)
			}
		}
	}
	out := make([]float32, r.Height*r.Width*3)
	for y, t := range tapsOf(r.FromHeight, r.Height) {
		for i := range r.Width * 3 {
			out[y*r.Width*3+i] = t.sum(middle[t.first*r.Width*3+i:], r.Width*3)
		}
	}
	return out
}

// Back is the gradient at a picture, of one at the other size.
func (r Resizing) Back(grad []float32) []float32 {
	middle := make([]float32, r.FromHeight*r.Width*3)
	for y, t := range tapsOf(r.FromHeight, r.Height) {
		for i := range r.Width * 3 {
			t.spread(middle[t.first*r.Width*3+i:], r.Width*3, grad[y*r.Width*3+i])
		}
	}
	out := make([]float32, r.FromHeight*r.FromWidth*3)
	for k, t := range tapsOf(r.FromWidth, r.Width) {
		for y := range r.FromHeight {
			for c := range 3 {
				t.spread(out[(y*r.FromWidth+t.first)*3+c:], 3, middle[(y*r.Width+k)*3+c])
			}
		}
	}
	return out
}

// taps are the pixels that one of the result reads.
type taps struct {
	first   int
	weights []float32
}

// sum is the weighted sum of numbers at this distance.
func (t taps) sum(x []float32, every int) float32 {
	n := len(t.weights)
	fused := 1 + (n-1)/4*4
	sum := float32(t.weights[0] * x[0])
	for j := 1; j < fused; j++ {
		sum += float32(x[j*every] * t.weights[j])
	}
	for j := fused; j < n; j++ {
		sum = ref.FMA(x[j*every], t.weights[j], sum)
	}
	return sum
}

// spread adds a gradient to numbers at this distance.
func (t taps) spread(x []float32, every int, grad float32) {
	for j, w := range t.weights {
		x[j*every] = ref.FMA(grad, w, x[j*every])
	}
}

// tapsOf are those of n pixels of size, in fp32.
func tapsOf(size, n int) []taps {
	scale := float32(size) / float32(n)
	wide := max(scale, 1)
	support, by := 2*wide, float64(1/wide)
	all := make([]taps, n)
	for i := range all {
		centre := float32(float64(scale) * (float64(i) + 0.5))
		first := max(int(float64(centre-support)+0.5), 0)
		w, sum := make([]float32, min(int(float64(centre+support)+0.5), size)-first), float32(0)
		for j := range w {
			w[j] = cubic(float32((float64(float32(j+first)-centre) + 0.5) * by))
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
		return ref.FMA(ref.FMA(a+2, x, -(a+3))*x, x, 1)
	case x < 2:
		return ref.FMA(ref.FMA(x-5, x, 8), x, -4) * a
	}
	return 0
}
