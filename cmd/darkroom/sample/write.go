package sample

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// writeClips writes a clip, or a sheet of several that play side by side, or each as a file of its own. One
// frame alone is a picture.
func (o *options) writeClips(clips [][]*vision.Image, settings []vision.Setting) error {
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
func (o *options) writeSingleClips(clips [][]*vision.Image) error {
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
func (o *options) clip(frames []*vision.Image) *video.Clip {
	c := &video.Clip{Width: frames[0].Width, Height: frames[0].Height, Rate: video.Rate{Num: o.fps, Den: 1}}
	for _, m := range frames {
		c.Frames = append(c.Frames, m.Pix)
	}
	return c
}

// writePicture writes a picture, or a sheet of several, or each as a file of its own.
func (o *options) writePicture(images []*vision.Image, settings []vision.Setting) error {
	if o.single() {
		return o.writeSingle(images, settings)
	}
	m, err := o.sheet(images)
	if err != nil {
		return err
	}
	return vision.WriteFile(o.out, m, settings...)
}

// writeSingle writes pictures as files of their own, which say where in the call they stood.
func (o *options) writeSingle(images []*vision.Image, settings []vision.Setting) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for i, m := range images {
		own := []vision.Setting{{Key: "prompt", Value: strings.ReplaceAll(o.prompts[i/o.n], "\x00", "")}, {Key: "picture", Value: fmt.Sprint(i)}}
		for _, s := range settings {
			if !strings.HasPrefix(s.Key, "prompt") {
				own = append(own, s)
			}
		}
		if err := vision.WriteFile(filepath.Join(o.out, fmt.Sprintf("%03d.png", i)), m, own...); err != nil {
			return err
		}
	}
	return nil
}

// sheet is a picture, or several side by side.
func (o *options) sheet(images []*vision.Image) (*vision.Image, error) {
	if len(images) == 1 {
		return images[0], nil
	}
	sheet := vision.Sheet{}
	if len(o.prompts) > 1 && o.n > 1 {
		sheet.Columns = o.n
	}
	return sheet.Draw(images)
}
