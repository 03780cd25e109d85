package pipeline

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Shapes of latents. A picture's are [rows, columns, channels], or tokens of 2 x 2 patches; a video's have frames, of
// which the first stands for one frame of the video and each other one for as many as the autoencoder folds together.
//
// Other programs keep latents as [channels, rows, columns], of videos [channels, frames, rows, columns]. The numbers
// are the same.
//
// Invariant (test): there and back is the identity, and a case's recorded latents are the network's.

// layout is the shapes of a pipeline's latents.
type layout struct {
	latentSpec
	class  string // of the pipeline
	factor int    // pixels a side that a latent covers
	span   int    // frames of a video that a frame of latents covers; 0: the pipeline makes pictures
}

// side is the divisor of a picture's sides.
func (l *layout) side() int { return l.unit * l.factor }

// Shape is that of a picture, or of a clip, and of its latents.
type Shape struct {
	Frames, Times int   // of a clip, and of its latents; 0: a picture
	Height, Width int   // pixels
	Rows, Cols    int   // of the VAE's latents
	Latents       []int // one sample as the network reads it
	Tokens        int   // that the network makes of it
}

// Len is the number of numbers in a sample's latents.
func (s Shape) Len() int {
	n := 1
	for _, d := range s.Latents {
		n *= d
	}
	return n
}

// Shape is the latents' for a picture of a size. Where the pipeline makes clips, it is the shortest one, mostly of one
// frame, and ClipShape is that of longer ones.
func (l *layout) Shape(height, width int) (Shape, error) {
	if l.Clips() {
		return l.ClipShape(1+(l.together-1)*l.span, height, width)
	}
	return l.sides(height, width)
}

// sides are a shape without frames.
func (l *layout) sides(height, width int) (Shape, error) {
	side, most := l.side(), l.most*l.factor
	for _, n := range []int{height, width} {
		if n < 1 || n%side != 0 {
			down := max(n/side*side, side)
			return Shape{}, fmt.Errorf("a picture of %d x %d: sides must be multiples of %d, such as %d", width, height, side, down)
		}
		if most > 0 && n > most {
			return Shape{}, fmt.Errorf("a picture of %d x %d: this model's positions end at %d pixels a side", width, height, most)
		}
		if n > maxSide {
			return Shape{}, fmt.Errorf("a picture of %d x %d: at most %d pixels a side are possible", width, height, maxSide)
		}
	}
	s := Shape{Height: height, Width: width, Rows: height / l.factor, Cols: width / l.factor}
	s.Tokens = (s.Rows / l.patch) * (s.Cols / l.patch)
	s.Latents = []int{s.Rows, s.Cols, l.channels}
	if l.packed {
		s.Latents = []int{s.Tokens, 4 * l.channels}
	}
	return s, nil
}

// maxSide keeps a slip of the keyboard from asking for all memory.
const maxSide = 1 << 14

// maxFrames keeps a slip of the keyboard from asking for all memory.
const maxFrames = 1 << 12

// Clips reports whether the pipeline makes clips: their shapes come from ClipShape.
func (l *layout) Clips() bool { return l.span > 0 }

// ClipShape is the latents' for a clip of a size.
func (l *layout) ClipShape(frames, height, width int) (Shape, error) {
	s, err := l.sides(height, width)
	if err != nil {
		return s, err
	}
	if err := l.CheckFrames(frames); err != nil {
		return s, err
	}
	each := l.span
	s.Frames, s.Times = frames, 1+(frames-1)/each
	s.Tokens *= s.Times / l.together
	s.Latents = []int{s.Times, s.Rows, s.Cols, l.channels}
	return s, nil
}

// CheckFrames refuses a number of frames that no clip can have.
func (l *layout) CheckFrames(frames int) error {
	switch each := l.span; {
	case each == 0:
		return fmt.Errorf("%d frames: a %s makes pictures", frames, l.class)
	case frames < 1 || frames%each != 1%each:
		return fmt.Errorf("a clip of %d frames: there must be 1 more than a multiple of %d, such as %d", frames, each, max(frames-1, 0)/each*each+1)
	case (1+(frames-1)/each)%l.together != 0:
		return fmt.Errorf("a clip of %d frames has %d of latents, and the network reads %d at once: there must be a multiple of them",
			frames, 1+(frames-1)/each, l.together)
	case frames > maxFrames || frames/each >= l.frames:
		return fmt.Errorf("a clip of %d frames: at most %d are possible", frames, min(maxFrames/each, l.frames-1)*each+1)
	}
	return nil
}

// count is how many pictures a sample is.
func (s Shape) count() int { return max(1, s.Frames) }

// Pixels is the number of pixels of a sample.
func (s Shape) Pixels() int { return s.Height * s.Width * s.count() }

// maps is the shape of n samples' latents as the autoencoder reads them. Clips go through alone.
func (s Shape) maps(n, channels int) []int {
	return []int{n * max(1, s.Times), s.Rows, s.Cols, channels}
}

// pictures is the shape of n samples as the autoencoder puts them out.
func (s Shape) pictures(n int) []int { return []int{n * s.count(), s.Height, s.Width, 3} }

// LatentShape is [channels, rows, columns] of a sample; a clip's has frames after the channels.
func (l *layout) LatentShape(at Shape) []int {
	if at.Times > 0 {
		return []int{l.channels, at.Times, at.Rows, at.Cols}
	}
	return []int{l.channels, at.Rows, at.Cols}
}

// FromChannelsFirst is a sample's latents as the network reads them.
func (l *layout) FromChannelsFirst(x []float32, at Shape) ([]float64, error) {
	c, each := l.channels, max(1, at.Times)*at.Rows*at.Cols
	if len(x) != c*each {
		return nil, fmt.Errorf("%d numbers; latents of %v are %d", len(x), l.LatentShape(at), c*each)
	}
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("it holds %v", v)
		}
	}
	if l.packed {
		tokens, _, err := diffusion.Pack(widened(x), c, at.Rows, at.Cols)
		return tokens, err
	}
	out := make([]float64, len(x))
	for i := range c {
		for k := range each {
			out[k*c+i] = float64(x[i*each+k])
		}
	}
	return out, nil
}

// ChannelsFirst is the other way.
func (l *layout) ChannelsFirst(latents []float64, at Shape) []float32 {
	c := l.channels
	if l.packed {
		return narrowed(diffusion.Unpack(latents, c, at.Rows, at.Cols))
	}
	out, each := make([]float32, len(latents)), len(latents)/c
	for i := range c {
		for k := range each {
			out[i*each+k] = float32(latents[k*c+i])
		}
	}
	return out
}

// Grid is a sample's latents as the autoencoder reads them, [Rows, Cols, C].
func (l *layout) Grid(latents []float64, at Shape) []float32 {
	c := l.channels
	if !l.packed {
		return narrowed(latents)
	}
	planes := narrowed(diffusion.Unpack(latents, c, at.Rows, at.Cols))
	grid := make([]float32, len(planes))
	for i, v := range planes {
		channel, pixel := i/(at.Rows*at.Cols), i%(at.Rows*at.Cols)
		grid[pixel*c+channel] = v
	}
	return grid
}

// ungrid is Grid turned round: numbers [Rows, Cols, C] in the order of a sample's latents.
func (l *layout) ungrid(grid []float64, at Shape) []float64 {
	if !l.packed {
		return grid
	}
	c, pixels := l.channels, at.Rows*at.Cols
	planes := make([]float64, len(grid))
	for i := range planes {
		planes[i] = grid[i%pixels*c+i/pixels]
	}
	tokens, _, err := diffusion.Pack(planes, c, at.Rows, at.Cols)
	if err != nil {
		panic(err) // Shape gives sides that can be packed
	}
	return tokens
}

// Noise is standard normal numbers, one for each of a sample's latents.
func Noise(key rng.Key, at Shape) []float64 {
	z := make([]float32, at.Len())
	key.Normal(z, 0)
	return widened(z)
}

// narrowed is numbers in fp32.
func narrowed(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// widened is numbers in float64.
func widened(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// rounded is numbers at the precision that latents have.
func rounded(x []float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(float32(v))
	}
	return y
}

func finite[T float32 | float64](x []T) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}
