package pipeline

import "fmt"

// Shapes of clips: latents have frames, the first of which stands for one frame of the clip and every
// other for as many as the autoencoder folds into one.

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
	s.Tokens *= s.Times / p.family.together
	s.Latents = []int{s.Times, s.Rows, s.Cols, p.family.latentChannels}
	return s, nil
}

// CheckFrames refuses a number of frames that no clip can have.
func (p *Pipeline) CheckFrames(frames int) error {
	switch each := p.decoder.frames; {
	case each == 0:
		return fmt.Errorf("%d frames: a %s makes pictures", frames, p.folder.class)
	case frames < 1 || frames%each != 1%each:
		return fmt.Errorf("a clip of %d frames: there must be 1 more than a multiple of %d, such as %d", frames, each, max(frames-1, 0)/each*each+1)
	case (1+(frames-1)/each)%p.family.together != 0:
		return fmt.Errorf("a clip of %d frames has %d of latents, and the network reads %d at once: there must be a multiple of them",
			frames, 1+(frames-1)/each, p.family.together)
	case frames > maxFrames || frames/each >= p.family.longest:
		return fmt.Errorf("a clip of %d frames: at most %d are possible", frames, min(maxFrames/each, p.family.longest-1)*each+1)
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
