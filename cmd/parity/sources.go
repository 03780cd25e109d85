package main

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/vision"
)

// Pictures that edits begin with.

// sourceAreas are the areas that a case's pictures were resized to.
func sourceAreas(c *Case, o pipeline.Options) pipeline.Options {
	o.SourceArea, o.SightArea = int(numberOr(c, "area", 0)), int(numberOr(c, "condition_area", 0))
	if c.Has("auto_resize") && !c.Bool("auto_resize") {
		o.SourceArea = pipeline.AsIs
	}
	return o
}

// readSources prepares the case's pictures, and records what becomes of them.
func (s *sampled) readSources() {
	var pictures []*vision.Image
	for _, name := range []string{"in.image", "in.image.0", "in.image.1", "in.image.2"} {
		if s.Has(name) {
			pictures = append(pictures, bytesOf(s.Array(name)))
		}
	}

	s.given = must(s.Source(context.Background(), pictures...))
	tokens, grids := s.given.Sources()
	width := s.at.Latents[1]
	s.Put("out.image_latents", Array{Shape: []int{1, len(tokens) / width, width}, Data: to[float64](tokens)})
	shapes := [][]int{{1, s.at.Rows / 2, s.at.Cols / 2}}
	for _, g := range grids {
		shapes = append(shapes, []int{1, g[0], g[1]})
	}
	s.Put("out.img_shapes", shapes)
	var places [][]int
	for i, one := range shapes {
		for y := range one[1] {
			for x := range one[2] {
				places = append(places, []int{i, y, x})
			}
		}
	}
	s.Put("out.img_ids", places)
	if patches, seen := s.given.Seen(); len(seen) > 0 {
		n, rows := 0, [][]int{}
		for _, g := range seen {
			n, rows = n+g[0]*g[1]*g[2], append(rows, g[:])
		}
		s.Put("out.image_grid_thw", rows)
		s.Put("out.pixel_values", Array{Shape: []int{n, len(patches) / n}, Data: to[float64](patches)})
	}
	s.sizes()
}

// sizes are what pictures of the case's widths and heights are resized to, by upstream's rules.
func (s *sampled) sizes() {
	if !s.Has("in.sizes") {
		return
	}
	var nearest, both [][]int
	for sizes := s.Ints("in.sizes"); len(sizes) > 1; sizes = sizes[2:] {
		w, h := pipeline.KontextSize(sizes[0], sizes[1])
		nearest = append(nearest, []int{w, h})
		w, h = pipeline.EditSize(1024*1024)(sizes[0], sizes[1])
		seenW, seenH := pipeline.EditSize(384*384)(sizes[0], sizes[1])
		both = append(both, []int{w, h, seenW, seenH})
	}
	s.Put("out.auto_resize", nearest, "out.dimensions", both)
}

// bytesOf is a picture of whole numbers from 0 to 255.
func bytesOf(a Array) *vision.Image {
	m := vision.New(a.Shape[1], a.Shape[0])
	if len(a.Data) != len(m.Pix) {
		panic(fmt.Sprintf("a picture of %v", a.Shape))
	}
	for i, v := range a.Data {
		m.Pix[i] = uint8(v)
	}
	return m
}
