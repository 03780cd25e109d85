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
// Other programs keep latents as [channels, rows, columns], of clips [channels, frames, rows, columns]. Networks here
// read them with channels last, or as tokens of 2 x 2 patches. The numbers are the same.
//
// Invariant (test): there and back is the identity, and a case's recorded latents are the network's.

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
func (p *Pipeline) Shape(height, width int) (Shape, error) {
	if p.Clips() {
		return p.ClipShape(1+(p.family.latents.together-1)*p.decoder.frames, height, width)
	}
	return p.sides(height, width)
}

// sides are a shape without frames.
func (p *Pipeline) sides(height, width int) (Shape, error) {
	f, factor := p.family.latents, p.decoder.factor
	side, most := f.unit*factor, f.most*factor
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
	s := Shape{Height: height, Width: width, Rows: height / factor, Cols: width / factor}
	s.Tokens = (s.Rows / f.patch) * (s.Cols / f.patch)
	s.Latents = []int{s.Rows, s.Cols, f.channels}
	if f.packed {
		s.Latents = []int{s.Tokens, 4 * f.channels}
	}
	return s, nil
}

// maxSide keeps a slip of the keyboard from asking for all memory.
const maxSide = 1 << 14

// maxFrames keeps a slip of the keyboard from asking for all memory.
const maxFrames = 1 << 12

// Clips reports whether the pipeline makes clips: their shapes come from ClipShape.
func (p *Pipeline) Clips() bool { return p.decoder.frames > 0 }

// ClipShape is the latents' for a clip of a size.
func (p *Pipeline) ClipShape(frames, height, width int) (Shape, error) {
	s, err := p.sides(height, width)
	if err != nil {
		return s, err
	}
	if err := p.CheckFrames(frames); err != nil {
		return s, err
	}
	each := p.decoder.frames
	s.Frames, s.Times = frames, 1+(frames-1)/each
	s.Tokens *= s.Times / p.family.latents.together
	s.Latents = []int{s.Times, s.Rows, s.Cols, p.family.latents.channels}
	return s, nil
}

// CheckFrames refuses a number of frames that no clip can have.
func (p *Pipeline) CheckFrames(frames int) error {
	switch each := p.decoder.frames; {
	case each == 0:
		return fmt.Errorf("%d frames: a %s makes pictures", frames, p.folder.class)
	case frames < 1 || frames%each != 1%each:
		return fmt.Errorf("a clip of %d frames: there must be 1 more than a multiple of %d, such as %d", frames, each, max(frames-1, 0)/each*each+1)
	case (1+(frames-1)/each)%p.family.latents.together != 0:
		return fmt.Errorf("a clip of %d frames has %d of latents, and the network reads %d at once: there must be a multiple of them",
			frames, 1+(frames-1)/each, p.family.latents.together)
	case frames > maxFrames || frames/each >= p.family.latents.frames:
		return fmt.Errorf("a clip of %d frames: at most %d are possible", frames, min(maxFrames/each, p.family.latents.frames-1)*each+1)
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
func (p *Pipeline) LatentShape(at Shape) []int {
	if at.Times > 0 {
		return []int{p.family.latents.channels, at.Times, at.Rows, at.Cols}
	}
	return []int{p.family.latents.channels, at.Rows, at.Cols}
}

// FromChannelsFirst is a sample's latents as the network reads them.
func (p *Pipeline) FromChannelsFirst(x []float32, at Shape) ([]float64, error) {
	c, each := p.family.latents.channels, max(1, at.Times)*at.Rows*at.Cols
	if len(x) != c*each {
		return nil, fmt.Errorf("%d numbers; latents of %v are %d", len(x), p.LatentShape(at), c*each)
	}
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("it holds %v", v)
		}
	}
	if p.family.latents.packed {
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
func (p *Pipeline) ChannelsFirst(latents []float64, at Shape) []float32 {
	c := p.family.latents.channels
	if p.family.latents.packed {
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

// Noise is standard normal numbers, one for each of a sample's latents.
func Noise(key rng.Key, at Shape) []float64 {
	z := make([]float32, at.Len())
	key.Normal(z, 0)
	return widened(z)
}
