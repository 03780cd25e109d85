package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
)

// Pictures that a picture is made of (Qwen-Image-Edit, FLUX.1-Kontext). Each is resized to a size of its own, and its
// latents, the middle of the autoencoder's distribution, are tokens behind those of the picture that is made, at
// every step the same. Text encoders that see pictures see them, too. Latents lie on the disk, a file a picture,
// named by its pixels, the autoencoder, the precision and the device's arithmetic.

// sourceRules are how a pipeline takes pictures.
type sourceRules struct {
	most int
	must bool // there is no picture without
	// size is that of a picture's latents, and sight that which the text encoder sees of the original; nil: it sees
	// the picture resized for the latents.
	size, sight func(width, height int) (w, h int)
	// fits is why a picture of a size is not read; nil: all are.
	fits func(width, height int) error
	// cut is the part that is used of a picture of more than an area of pixels, in place of a size.
	cut     func(m *vision.Image, side, area int) (*vision.Image, error)
	follows bool // the picture that is made has its size, where none is asked for, from the last source
}

// mostSources is more than any model was trained on, and keeps a slip from asking for all memory.
const mostSources = 16

// AsIs is Options.SourceArea for pictures that keep their size, but for the pixels beyond a multiple of the
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
func (c *conditioner) Edits() (most int, must bool) {
	if r := c.spec.sources; r != nil {
		return r.most, r.must
	}
	return 0, false
}

// FitsSource is why the network cannot read a picture of a size, where it reads any.
func (c *conditioner) FitsSource(width, height int) error {
	if r := c.spec.sources; r != nil && r.fits != nil {
		return r.fits(width, height)
	}
	return nil
}

// SizeFor is the default size of a picture made of others.
func (c *conditioner) SizeFor(pictures ...*vision.Image) (height, width int) {
	d := c.defaults
	if r := c.spec.sources; r != nil && r.cut != nil && len(pictures) > 0 {
		if m, err := c.prepare(pictures[0]); err == nil {
			return m.Height, m.Width
		}
	} else if r != nil && r.follows && len(pictures) > 0 {
		last := pictures[len(pictures)-1]
		width, height = c.sourceSize(last)
		return height, width
	}
	return d.Height, d.Width
}

// sourceSize is that of a picture's latents.
func (c *conditioner) sourceSize(m *vision.Image) (w, h int) {
	size := c.spec.sources.size
	switch {
	case c.SourceArea > 0:
		size = EditSize(c.SourceArea)
	case c.SourceArea == AsIs:
		size = func(width, height int) (int, int) { return width, height }
	}
	side := c.side()
	w, h = size(m.Width, m.Height)
	return max(side, w/side*side), max(side, h/side*side)
}

// Source prepares pictures that a picture is made of. The result serves any number of pictures of any size.
func (c *conditioner) Source(ctx context.Context, pictures ...*vision.Image) (*Given, error) {
	r := c.spec.sources
	switch {
	case r == nil:
		return nil, fmt.Errorf("a picture was given, and a %s reads none", c.class)
	case len(pictures) == 0:
		return nil, errors.New("no picture was given")
	case len(pictures) > r.most:
		return nil, fmt.Errorf("%d pictures were given; a %s reads %d", len(pictures), c.class, r.most)
	}
	g, mark := &Given{}, sha256.New()
	for i, m := range pictures {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fmt.Fprintln(mark, m.Width, m.Height)
		mark.Write(m.Pix)
		small, err := c.prepare(m)
		if err == nil {
			err = c.addSource(g, m, small)
		}
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
	}
	fmt.Fprintln(mark, c.SourceArea, c.SightArea)
	g.mark = hex.EncodeToString(mark.Sum(nil))
	return g, nil
}

// prepare is the pixels of a picture for latents.
func (c *conditioner) prepare(m *vision.Image) (*vision.Image, error) {
	if cut := c.spec.sources.cut; cut != nil {
		return cut(m, c.side(), c.SourceArea)
	}
	w, h := c.sourceSize(m)
	return resized(m, w, h)
}

// addSource adds a picture, of which small are the pixels for latents.
func (c *conditioner) addSource(g *Given, m, small *vision.Image) error {
	at, err := c.sides(small.Height, small.Width)
	if err != nil {
		return err
	}
	latents, err := c.latentsOf(small, at)
	if err != nil {
		return err
	}
	g.sources = append(g.sources, latents...)
	g.grids = append(g.grids, grid{at.Rows / c.patch, at.Cols / c.patch})
	return c.lookAt(g, m, small)
}

// lookAt adds the text encoder's view of a picture.
func (c *conditioner) lookAt(g *Given, m, small *vision.Image) (err error) {
	if c.eyes == nil {
		return nil
	}
	if sight := c.spec.sources.sight; sight != nil {
		if c.SightArea > 0 {
			sight = EditSize(c.SightArea)
		}
		w, h := sight(m.Width, m.Height)
		if small, err = resized(m, w, h); err != nil {
			return err
		}
	}
	patches, err := c.eyes.Apply(small.Raster())
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

// Sources are the latents of a given's pictures, one after another as the network reads them, and the places in rows
// and columns of each.
func (g *Given) Sources() (tokens []float32, grids [][2]int) {
	for _, one := range g.grids {
		grids = append(grids, [2]int{one.rows, one.cols})
	}
	return g.sources, grids
}

// Seen is the text encoder's view of a given's pictures: patches, and grids of frames, rows and columns.
func (g *Given) Seen() (patches []float32, grids [][3]int) {
	for _, one := range g.patches.Grids {
		grids = append(grids, [3]int{one.Frames, one.Rows, one.Columns})
	}
	return g.patches.Values, grids
}

// latentsOf is a prepared picture's latents as the network reads them.
func (c *conditioner) latentsOf(m *vision.Image, at Shape) ([]float32, error) {
	path, err := c.picturePath(m)
	if err != nil {
		return nil, err
	}
	if path != "" {
		if x, err := readLatents(path); err == nil && len(x) == at.Len() {
			touch(path)
			return x, nil
		}
	}
	pixels := vision.Floats(nil, m, vision.Signed, vision.ChannelsLast)
	latents, err := c.vae.EncodeAll([][]float32{pixels}, at)
	if err != nil {
		return nil, err
	}
	x := narrowed(latents[0])
	if path != "" {
		err = c.cache.store(path, []safetensors.Tensor{tensorOf("latents", x, at.Latents...)}, map[string]string{"picture": fmt.Sprintf("%d x %d", m.Width, m.Height)})
	}
	return x, err
}

// picturePath is the file of a picture's latents; "": they are not kept.
func (c *conditioner) picturePath(m *vision.Image) (string, error) {
	if c.cache.off() {
		return "", nil
	}
	if c.mark == "" {
		h := sha256.New()
		fmt.Fprintln(h, "pictures, form 2", c.class, c.Precision, c.Cache.Arithmetic)
		if err := c.folder.markParts(h, "vae"); err != nil {
			return "", err
		}
		c.mark = hex.EncodeToString(h.Sum(nil))
	}
	h := sha256.New()
	fmt.Fprintln(h, c.mark, m.Width, m.Height)
	h.Write(m.Pix)
	return c.cache.path(h.Sum(nil)), nil
}

func readLatents(path string) ([]float32, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	latents, err := f.Tensor("latents")
	if err != nil {
		return nil, err
	}
	return latents.Float32(nil)
}

// blank is black pictures for clips or edits that need some; nil where they need none. An edit that must be made of
// some, of which no size is known, is made of one of the usual size.
func (c *conditioner) blank(at Shape, sources [][2]int) (*Given, error) {
	if r := c.spec.sources; r != nil {
		if r.must && len(sources) == 0 {
			d := c.defaults
			sources = [][2]int{{d.Width, d.Height}}
		}
		var black []*vision.Image
		for _, size := range sources[:min(len(sources), r.most)] {
			black = append(black, vision.New(size[0], size[1]))
		}
		if len(black) == 0 {
			return nil, nil
		}
		g, err := c.Source(context.Background(), black...)
		if err != nil {
			return nil, err
		}
		return g, c.vae.FreeDecoder()
	}
	_, must, _, mustLast := c.Gives()
	if !must {
		return nil, nil
	}
	black := vision.New(at.Width, at.Height)
	var last *vision.Image
	if mustLast {
		last = black
	}
	g, err := c.Give(context.Background(), at, black, last)
	if err != nil {
		return nil, err
	}
	return g, c.vae.FreeDecoder()
}
