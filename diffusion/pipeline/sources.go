package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/vision"
)

// Pictures that a picture is made of (Qwen-Image-Edit, FLUX.1-Kontext). Each is resized to a size of its
// own, and its latents, the middle of what the autoencoder says, are tokens behind those of the picture
// that is made, at every step the same. Text encoders that see pictures see them, too.

// sourceRules are how a pipeline takes pictures.
type sourceRules struct {
	most int
	must bool // there is no picture without
	// size is that of a picture's latents, and sight that which the text encoder sees of the original; nil:
	// it sees what was resized for the latents.
	size, sight func(width, height int) (w, h int)
	// fits is why a picture of a size is not read; nil: all are.
	fits func(width, height int) error
	// cut is what is taken of a picture of more than an area of pixels, in place of a size.
	cut     func(m *vision.Image, side, area int) (*vision.Image, error)
	follows bool // the picture that is made has its size, where none is asked for, from the last source
}

// mostSources is more than any model was trained on, and keeps a slip from asking for all memory.
const mostSources = 16

// AsIs is Options.SourceArea for pictures that keep their size, but for what is beyond a multiple of the
// pipeline's side.
const AsIs = -1

// EditSize is calculate_dimensions upstream: an area and a picture's proportions, in multiples of 32.
func EditSize(area int) func(width, height int) (w, h int) {
	return func(width, height int) (w, h int) {
		ratio := float64(width) / float64(height)
		across := math.Sqrt(float64(float64(area) * ratio))
		to := func(x float64) int { return max(32, int(math.RoundToEven(x/32))*32) }
		return to(across), to(across / ratio)
	}
}

// grid is tokens in rows.
type grid struct{ rows, cols int }

// Edits reports how many pictures a picture may be made of, and whether there must be one.
func (p *Pipeline) Edits() (most int, must bool) {
	if r := p.family.pictures.sources; r != nil {
		return r.most, r.must
	}
	return 0, false
}

// FitsSource is why the network cannot read a picture of a size, where it reads any.
func (p *Pipeline) FitsSource(width, height int) error {
	if r := p.family.pictures.sources; r != nil && r.fits != nil {
		return r.fits(width, height)
	}
	return nil
}

// SizeFor is the size of what is made of pictures where none is asked for.
func (p *Pipeline) SizeFor(pictures ...*vision.Image) (height, width int) {
	d := p.Defaults()
	if r := p.family.pictures.sources; r != nil && r.cut != nil && len(pictures) > 0 {
		if m, err := p.prepare(pictures[0]); err == nil {
			return m.Height, m.Width
		}
	} else if r != nil && r.follows && len(pictures) > 0 {
		last := pictures[len(pictures)-1]
		width, height = p.sourceSize(last)
		return height, width
	}
	return d.Height, d.Width
}

// sourceSize is that of a picture's latents.
func (p *Pipeline) sourceSize(m *vision.Image) (w, h int) {
	size := p.family.pictures.sources.size
	switch {
	case p.SourceArea > 0:
		size = EditSize(p.SourceArea)
	case p.SourceArea == AsIs:
		size = func(width, height int) (int, int) { return width, height }
	}
	side := p.family.latents.unit * p.decoder.factor
	w, h = size(m.Width, m.Height)
	return max(side, w/side*side), max(side, h/side*side)
}

// Source prepares pictures that a picture is made of. What it returns serves any number of pictures of
// any size.
func (p *Pipeline) Source(ctx context.Context, pictures ...*vision.Image) (*Given, error) {
	r := p.family.pictures.sources
	switch {
	case r == nil:
		return nil, fmt.Errorf("a picture was given, and a %s reads none", p.folder.class)
	case len(pictures) == 0:
		return nil, errors.New("no picture was given")
	case len(pictures) > r.most:
		return nil, fmt.Errorf("%d pictures were given; a %s reads %d", len(pictures), p.folder.class, r.most)
	}
	g, mark := &Given{}, sha256.New()
	for i, m := range pictures {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fmt.Fprintln(mark, m.Width, m.Height)
		mark.Write(m.Pix)
		small, err := p.prepare(m)
		if err == nil {
			err = p.addSource(g, m, small)
		}
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
	}
	fmt.Fprintln(mark, p.SourceArea, p.SightArea)
	g.mark = hex.EncodeToString(mark.Sum(nil))
	return g, nil
}

// prepare is the pixels of a picture for latents.
func (p *Pipeline) prepare(m *vision.Image) (*vision.Image, error) {
	if cut := p.family.pictures.sources.cut; cut != nil {
		return cut(m, p.family.latents.unit*p.decoder.factor, p.SourceArea)
	}
	w, h := p.sourceSize(m)
	return resized(m, w, h)
}

// addSource adds a picture, of which small are the pixels for latents.
func (p *Pipeline) addSource(g *Given, m, small *vision.Image) error {
	at, err := p.sides(small.Height, small.Width)
	if err != nil {
		return err
	}
	latents, err := p.latentsOf(small, at)
	if err != nil {
		return err
	}
	g.sources = append(g.sources, latents...)
	g.grids = append(g.grids, grid{at.Rows / p.family.latents.patch, at.Cols / p.family.latents.patch})
	return p.lookAt(g, m, small)
}

// lookAt adds what the text encoder sees of a picture.
func (p *Pipeline) lookAt(g *Given, m, small *vision.Image) (err error) {
	var eyes *encoder
	for _, e := range p.encoders {
		if e.eyes != nil {
			eyes = e
		}
	}
	if eyes == nil {
		return nil
	}
	if sight := p.family.pictures.sources.sight; sight != nil {
		if p.SightArea > 0 {
			sight = EditSize(p.SightArea)
		}
		w, h := sight(m.Width, m.Height)
		if small, err = resized(m, w, h); err != nil {
			return err
		}
	}
	patches, err := eyes.eyes.Apply(small.Raster())
	g.patches.Values = append(g.patches.Values, patches.Values...)
	g.patches.Grids = append(g.patches.Grids, patches.Grids...)
	return err
}

// resized is a picture at a size.
func resized(m *vision.Image, w, h int) (*vision.Image, error) {
	if m.Width == w && m.Height == h {
		return m, nil
	}
	return m.Resize(w, h, vision.Lanczos)
}

// SameSizes reports whether two pictures are made of pictures of the same sizes: then they go through a network in one
// batch.
func SameSizes(a, b *Given) bool {
	if a == nil || b == nil {
		return a == b || a == nil && len(b.grids) == 0 || b == nil && len(a.grids) == 0
	}
	return slices.Equal(a.grids, b.grids)
}

// Length is how many tokens a picture's sources are.
func (g *Given) Length() (n int) {
	if g != nil {
		for _, one := range g.grids {
			n += one.rows * one.cols
		}
	}
	return n
}

// Bytes is what it takes in memory.
func (g *Given) Bytes() int64 {
	if g == nil {
		return 0
	}
	return 4*int64(len(g.channels)+len(g.tokens)+len(g.sources)+len(g.patches.Values)) + 8*int64(len(g.first))
}

// Sources are the latents of a given's pictures, one after another as the network reads them, and the places in rows
// and columns of each.
func (g *Given) Sources() (tokens []float32, grids [][2]int) {
	for _, one := range g.grids {
		grids = append(grids, [2]int{one.rows, one.cols})
	}
	return g.sources, grids
}

// Seen is what the text encoder sees of a given's pictures: patches, and grids of frames, rows and columns.
func (g *Given) Seen() (patches []float32, grids [][3]int) {
	for _, one := range g.patches.Grids {
		grids = append(grids, [3]int{one.Frames, one.Rows, one.Columns})
	}
	return g.patches.Values, grids
}
