package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// What sample does for pipelines of clips.

// clipOptions are the flags that only clips have.
type clipOptions struct {
	frames, fps int
	images      []string // a clip's first picture, or what pictures are made of
	last        string
	second      float64 // guidance scale of a second network
}

// clipEndings are files of clips; a PNG may hold either.
var clipEndings = []string{".gif", ".apng", ".y4m", ".mp4", ".mkv", ".webm", ".mov", ".avi"}

// check finds what is wrong with the flags alone.
func (o *clipOptions) check(must func(ok bool, format string, args ...any)) {
	must(o.frames >= 0, "--frames %d: 1 or more", o.frames)
	must(o.fps >= 1 && o.fps <= 240, "--fps %d: 1 to 240", o.fps)
	must(o.second >= 0 && o.second <= 1000, "--guidance-2 %v: 0 to 1000", o.second)
	must(o.last == "" || len(o.images) == 1, "--last-image without --image: a clip's last picture goes with its first")
}

// shape is that of what is to be made, held against the pipeline.
func (o *sampleOptions) shape(p *pipeline.Pipeline) (pipeline.Shape, error) {
	d := p.Defaults()
	if most, must := p.Edits(); most > 0 {
		return o.edited(p, most, must)
	}
	height, width := cmp.Or(o.height, d.Height), cmp.Or(o.width, d.Width)
	if p.Clips() {
		if err := o.givable(p); err != nil {
			return pipeline.Shape{}, err
		}
		return p.ClipShape(cmp.Or(o.frames, d.Frames), height, width)
	}
	switch ending := strings.ToLower(filepath.Ext(o.out)); {
	case o.frames > 1 || len(o.images) > 0:
		return pipeline.Shape{}, fmt.Errorf("--frames and --image: a %s makes pictures of texts alone", p.Class())
	case slices.Contains(clipEndings, ending):
		return pipeline.Shape{}, fmt.Errorf("--out %s: a %s makes pictures, which are written as PNG; name a file that ends in .png", o.out, p.Class())
	}
	return p.Shape(height, width)
}

// givable refuses pictures that the network does not read, and says which it lacks.
func (o *sampleOptions) givable(p *pipeline.Pipeline) error {
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

// given is what clips are given of pictures, or pictures that edits are made of; nil for nothing.
func (o *sampleOptions) given(ctx context.Context, p *pipeline.Pipeline, at pipeline.Shape) (*pipeline.Given, error) {
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
			return nil, usageOf(err)
		}
	}
	return p.Give(ctx, at, first, last)
}

// decodeClips are the frames of each track.
func decodeClips(ctx context.Context, p *pipeline.Pipeline, tracks []pipeline.Track, at pipeline.Shape) ([][]*vision.Image, error) {
	clips := make([][]*vision.Image, len(tracks))
	for i, t := range tracks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		raw, err := p.Decode(t.Final, at)
		if err != nil {
			return nil, err
		}
		for each := len(raw) / at.Frames; len(raw) > 0; raw = raw[each:] {
			m, err := vision.FromFloats(raw[:each], at.Width, at.Height, vision.Signed, vision.ChannelsLast)
			if err != nil {
				return nil, err
			}
			clips[i] = append(clips[i], m)
		}
	}
	return clips, nil
}

// writeClips writes a clip, or a sheet of several that play side by side, or each as a file of its own. One
// frame alone is a picture.
func (o *sampleOptions) writeClips(clips [][]*vision.Image, settings []vision.Setting) error {
	if o.single() {
		return o.writeSingleClips(clips)
	}
	if len(clips[0]) == 1 && strings.EqualFold(filepath.Ext(o.out), ".png") {
		var pictures []*vision.Image
		for _, c := range clips {
			pictures = append(pictures, c[0])
		}
		return o.writePicture(pictures, settings)
	}
	var frames []*vision.Image
	for i := range clips[0] {
		var side []*vision.Image
		for _, c := range clips {
			side = append(side, c[i])
		}
		m, err := o.sheet(side)
		if err != nil {
			return err
		}
		frames = append(frames, m)
	}
	return video.WriteFile(o.out, o.clip(frames))
}

// writeSingleClips writes each clip as an animated PNG.
func (o *sampleOptions) writeSingleClips(clips [][]*vision.Image) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for i, frames := range clips {
		if err := video.WriteFile(filepath.Join(o.out, fmt.Sprintf("%03d.png", i)), o.clip(frames)); err != nil {
			return err
		}
	}
	return nil
}

// clip is frames at the rate that was asked for.
func (o *sampleOptions) clip(frames []*vision.Image) *video.Clip {
	c := &video.Clip{Width: frames[0].Width, Height: frames[0].Height, Rate: video.Rate{Num: o.fps, Den: 1}}
	for _, m := range frames {
		c.Frames = append(c.Frames, m.Pix)
	}
	return c
}
