package vlm

import (
	"fmt"
	"image/color"
	"slices"

	"github.com/darkroom-rl/darkroom/vision"
)

// Clip cuts the frames of a clip into patches, each of which spans Frames of them. Where frames do not divide,
// the last is repeated. A clip's pixels are bounded by p of their own.
func (p *Processor) Clip(of ClipPixels, frames ...*vision.Raster) (Patches, error) {
	var out Patches
	if err := p.check(); err != nil {
		return out, err
	}
	if len(frames) == 0 {
		return out, fmt.Errorf("a clip without frames")
	}
	w, h, err := of.Size(len(frames), frames[0].Width, frames[0].Height, p.Patch*p.Merge)
	if err != nil {
		return out, err
	}
	var resized []*vision.Image
	for i, r := range frames {
		if r.Width != frames[0].Width || r.Height != frames[0].Height {
			return out, fmt.Errorf("frame %d has %d x %d pixels, and the first %d x %d", i, r.Width, r.Height, frames[0].Width, frames[0].Height)
		}
		m, err := p.resizeTo(r.Over(color.RGBA{255, 255, 255, 255}), w, h)
		if err != nil {
			return out, fmt.Errorf("frame %d: %w", i, err)
		}
		resized = append(resized, m)
	}
	for len(resized)%p.Frames != 0 {
		resized = append(resized, resized[len(resized)-1])
	}
	g := Grid{len(resized) / p.Frames, h / p.Patch, w / p.Patch}
	if err := Check([]Grid{g}, p.Merge); err != nil {
		return out, err
	}
	for some := range slices.Chunk(resized, p.Frames) {
		if out.Values, err = p.cut(out.Values, some, Grid{1, g.Rows, g.Columns}); err != nil {
			return out, err
		}
	}
	out.Grids = []Grid{g}
	return out, nil
}
