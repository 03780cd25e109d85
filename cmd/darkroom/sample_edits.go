package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/vision"
)

// What sample does for pipelines that make pictures of pictures.

// edited is the shape of what is made: the one asked for, or the one that upstream takes of the pictures.
func (o *sampleOptions) edited(p *pipeline.Pipeline, most int, must bool) (pipeline.Shape, error) {
	switch n := len(o.images); {
	case must && n == 0:
		return pipeline.Shape{}, fmt.Errorf("--image is missing: a %s makes pictures of pictures", p.Class())
	case n > most:
		return pipeline.Shape{}, fmt.Errorf("--image was given %d times: a %s reads %d", n, p.Class(), most)
	case o.last != "" || o.frames > 1:
		return pipeline.Shape{}, fmt.Errorf("--last-image and --frames are for clips: a %s makes pictures", p.Class())
	case slices.Contains(clipEndings, strings.ToLower(filepath.Ext(o.out))):
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
func (o *sampleOptions) sources() (all []*vision.Image, err error) {
	for _, path := range o.images {
		m, err := vision.Open(path, vision.Limits{})
		if err != nil {
			return nil, usageOf(err)
		}
		all = append(all, m)
	}
	return all, nil
}
