package sample

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
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

// latentsName is the tensor in --latents' file: [pictures, channels, rows, columns], as diffusers' pipelines
// make their latents (before FLUX packs them).
const latentsName = "latents"

// startAt makes pictures start at the file's noise. Where there is no file, it is written.
func (o *options) startAt(p *pipeline.Pipeline, at pipeline.Shape, pictures []pipeline.Picture) error {
	if o.latents == "" {
		return nil
	}
	if _, err := os.Stat(o.latents); errors.Is(err, fs.ErrNotExist) {
		return o.writeLatents(p, at, pictures)
	} else if err != nil {
		return err
	}
	f, err := safetensors.Open(o.latents)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := f.Tensor(latentsName)
	if err != nil {
		return err
	}
	want := append([]int{len(pictures)}, p.LatentShape(at)...)
	if !slices.Equal(t.Shape, want) {
		return exits.Usagef("--latents %s: %q has the shape %v; %d pictures of %d x %d take %v", o.latents, latentsName, t.Shape, len(pictures), at.Width, at.Height, want)
	}
	x, err := t.Float32(nil)
	if err != nil {
		return err
	}
	each := len(x) / len(pictures)
	for i := range pictures {
		if pictures[i].Start, err = p.FromChannelsFirst(x[i*each:(i+1)*each], at); err != nil {
			return fmt.Errorf("%s: picture %d: %w", o.latents, i, err)
		}
	}
	return nil
}

// writeLatents keeps the noise that pictures are drawn from, for other programs.
func (o *options) writeLatents(p *pipeline.Pipeline, at pipeline.Shape, pictures []pipeline.Picture) error {
	var all []float32
	for i := range pictures {
		pictures[i].Start = pipeline.Noise(pictures[i].StartKey, at)
		all = append(all, p.ChannelsFirst(pictures[i].Start, at)...)
	}
	t := safetensors.FromF32(latentsName, append([]int{len(pictures)}, p.LatentShape(at)...), all)
	return safetensors.Write(o.latents, []safetensors.Tensor{t}, map[string]string{"format": "pt"})
}
