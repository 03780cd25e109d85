package rewards

import "github.com/darkroom-rl/darkroom/vision"

// Frames are the pictures that an item shows: its picture, or every n-th frame of its clip.
func (i Item) Frames(every int) ([]*vision.Image, error) {
	switch {
	case i.Clip != nil:
		return framesOf(i.Clip, max(1, every))
	case i.Image == nil:
		return nil, errNoImage
	}
	return []*vision.Image{i.Image}, nil
}
