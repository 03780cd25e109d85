package sample

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// clipOptions are the flags that only clips have.
type clipOptions struct {
	frames, fps int
	images      []string // a clip's first picture, or sources of pictures
	last        string
	second      float64 // guidance scale of a second network
}

// check finds mistakes of the flags alone.
func (o *clipOptions) check(must func(ok bool, format string, args ...any)) {
	must(o.frames >= 0, "--frames %d: 1 or more", o.frames)
	must(o.fps >= 1 && o.fps <= 240, "--fps %d: 1 to 240", o.fps)
	must(o.second >= 0 && o.second <= 1000, "--guidance-2 %v: 0 to 1000", o.second)
	must(o.last == "" || len(o.images) == 1, "--last-image without --image: a clip's last picture goes with its first")
}

// embeddedClips are the sizes that embedded models of clips were trained at (assets/NAME.toml).
var embeddedClips = map[string]struct{ frames, side int }{"embed:tiny-wan": {5, 32}, "embed:tiny-wan-64": {9, 64}, "embed:tiny-wan-64-noisy": {9, 64}}

// shape is that of the result, checked against the pipeline.
func (o *options) shape(p *pipeline.Pipeline) (pipeline.Shape, error) {
	d := p.Defaults()
	if most, must := p.Edits(); most > 0 {
		return o.edited(p, most, must)
	}
	if p.Clips() {
		if err := o.givable(p); err != nil {
			return pipeline.Shape{}, err
		}
		if own, ok := embeddedClips[o.model]; ok {
			d.Frames, d.Height, d.Width = own.frames, own.side, own.side
		}
	}
	height, width := cmp.Or(o.height, d.Height), cmp.Or(o.width, d.Width)
	if p.Clips() {
		return p.ClipShape(cmp.Or(o.frames, d.Frames), height, width)
	}
	switch ending := strings.ToLower(filepath.Ext(o.out)); {
	case o.frames > 1 || len(o.images) > 0:
		return pipeline.Shape{}, fmt.Errorf("--frames and --image: a %s makes pictures of texts alone", p.Class())
	case slices.Contains(video.Endings(), ending):
		return pipeline.Shape{}, fmt.Errorf("--out %s: a %s makes pictures, which are written as PNG; name a file that ends in .png", o.out, p.Class())
	}
	return p.Shape(height, width)
}

// givable refuses pictures that the network does not read, and says which it lacks.
func (o *options) givable(p *pipeline.Pipeline) error {
	may, must, mayLast, mustLast := p.Gives()
	switch {
	case len(o.images) > 1:
		return fmt.Errorf("--image was given %d times: a clip begins with one picture", len(o.images))
	case len(o.images) > 0 && !may:
		return errors.New("--image: this network reads no picture")
	case len(o.images) == 0 && must:
		return errors.New("--image is missing: this network makes clips of a first picture")
	case o.last != "" && !mayLast:
		return errors.New("--last-image: this network reads a first picture alone")
	case o.last == "" && mustLast:
		return errors.New("--last-image is missing: this network makes clips between two pictures")
	}
	return nil
}

// given is the clips' given pictures, or the sources of edits; nil for nothing.
func (o *options) given(ctx context.Context, p *pipeline.Pipeline, at pipeline.Shape) (*pipeline.Given, error) {
	if len(o.images) == 0 {
		return nil, nil
	}
	sources, err := o.sources()
	if err != nil {
		return nil, err
	}
	if most, _ := p.Edits(); most > 0 {
		return p.Source(ctx, sources...)
	}
	first := sources[0]
	var last *vision.Image
	if o.last != "" {
		if last, err = vision.Open(o.last, vision.Limits{}); err != nil {
			return nil, exits.Usage(err)
		}
	}
	return p.Give(ctx, at, first, last)
}

// edited is the shape of the result: the one asked for, or the one that upstream takes of the pictures.
func (o *options) edited(p *pipeline.Pipeline, most int, must bool) (pipeline.Shape, error) {
	switch n := len(o.images); {
	case must && n == 0:
		return pipeline.Shape{}, fmt.Errorf("--image is missing: a %s makes pictures of pictures", p.Class())
	case n > most:
		return pipeline.Shape{}, fmt.Errorf("--image was given %d times: a %s reads %d", n, p.Class(), most)
	case o.last != "" || o.frames > 1:
		return pipeline.Shape{}, fmt.Errorf("--last-image and --frames are for clips: a %s makes pictures", p.Class())
	case slices.Contains(video.Endings(), strings.ToLower(filepath.Ext(o.out))):
		return pipeline.Shape{}, fmt.Errorf("--out %s: a %s makes pictures, which are written as PNG; name a file that ends in .png", o.out, p.Class())
	}
	sources, err := o.sources()
	if err != nil {
		return pipeline.Shape{}, err
	}
	for _, m := range sources {
		o.sourceSizes = append(o.sourceSizes, [2]int{m.Width, m.Height})
	}
	height, width := p.SizeFor(sources...)
	return p.Shape(cmp.Or(o.height, height), cmp.Or(o.width, width))
}

// sources are the pictures of --image.
func (o *options) sources() (all []*vision.Image, err error) {
	for _, path := range o.images {
		m, err := vision.Open(path, vision.Limits{})
		if err != nil {
			return nil, exits.Usage(err)
		}
		all = append(all, m)
	}
	return all, nil
}
