package chat

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: videos of a prompt, as transformers reads them for the model's family. Frames are chosen by rule
// (vlm.Frames), a number a second, and resized within bounds (vlm.ClipPixels: the folder's
// video_preprocessor_config.json, or transformers' values without it); two become one of patches.
//
//	Qwen2-VL, Qwen2.5-VL   a clip has one mark; of the second, positions count the seconds between its frames
//	Qwen3-VL, Qwen3.5      each frame comes after its time: <0.4 seconds>
//
// Where the places of Qwen2-VL's rule end past the clip, the last is left out; upstream fails there. Tools that pick
// frames (select_frames, frame) pick among those that were read of the first clip. Invariants (tests): Eval's
// log-probabilities of an episode about a clip have the bits of Roll; an episode that travelled has the clip that it
// had.

// Videos are those of a prompt as the network reads them.
type Videos struct {
	Patches vlm.Patches // a grid a clip, or of Qwen3-VL a frame
	seconds []float64   // between frames of patches, of each clip; nil: positions do not count them
	Times   [][]float64 // of each clip's frames; nil: they are not written
	frames  []*vision.Image
}

// LoadVideos reads clips; nil without any. order, which may be nil, says in which order the frames of a clip come.
func (k *VLM) LoadVideos(clips []*video.Clip, how experiment.Clips, order func(clip, frames int) []int) (*Videos, error) {
	if len(clips) == 0 {
		return nil, nil
	}
	f, apart := &Videos{}, k.Model.Rule().ByFrame
	rule := vlm.Frames{Rule: vlm.Qwen2Frames, FPS: how.FPS, Count: how.Count, Min: how.Min, Max: how.Max}
	if apart {
		rule.Rule = vlm.Qwen3Frames
	}
	bounds, err := k.clipPixels(rule.Rule, how)
	if err != nil {
		return nil, err
	}
	for i, c := range clips {
		of := func(frames int) []int { return nil }
		if order != nil {
			of = func(frames int) []int { return order(i, frames) }
		}
		if err := f.add(k, c, rule, bounds, of); err != nil {
			return nil, fmt.Errorf("clip %d: %w", i+1, err)
		}
	}
	if apart {
		var grids []vlm.Grid
		for _, g := range f.Patches.Grids {
			grids = append(grids, vlm.FrameGrids(g)...)
		}
		f.Patches.Grids, f.seconds = grids, nil
	} else {
		f.Times = nil
	}
	return f, nil
}

func (f *Videos) add(k *VLM, c *video.Clip, rule vlm.Frames, bounds vlm.ClipPixels, order func(frames int) []int) error {
	rate := c.Rate.FPS()
	if rate == 0 {
		return errors.New("its frames a second are not known: name a file that says them (.gif, .y4m, .mp4)")
	}
	places, err := rule.Of(len(c.Frames), rate)
	var past vlm.PastEnd
	if errors.As(err, &past) {
		places, err = past.Places[:len(past.Places)-1], nil
	}
	if err != nil {
		return err
	}
	var read []*vision.Image
	var rasters []*vision.Raster
	for _, at := range places {
		m := &vision.Image{Width: c.Width, Height: c.Height, Pix: c.Frames[at]}
		read, rasters = append(read, m), append(rasters, m.Raster())
	}
	if turned := order(len(read)); turned != nil {
		read, rasters = trainer.Pick(read, turned), trainer.Pick(rasters, turned)
	}
	p, err := k.Processor.Clip(bounds, rasters...)
	if err != nil {
		return err
	}
	times, err := vlm.Timestamps(places, rate, k.Processor.Frames)
	if err != nil {
		return err
	}
	if f.frames == nil {
		f.frames = read
	}
	f.Patches.Values, f.Patches.Grids = append(f.Patches.Values, p.Values...), append(f.Patches.Grids, p.Grids...)
	sampled := float64(len(places)) / float64(len(c.Frames)) * rate
	f.seconds, f.Times = append(f.seconds, float64(float32(float64(k.Processor.Frames)/sampled))), append(f.Times, times)
	return nil
}

// clipPixels bounds the area of frames.
func (k *VLM) clipPixels(rule vlm.FrameRule, how experiment.Clips) (vlm.ClipPixels, error) {
	cell := 28 * 28
	if rule == vlm.Qwen3Frames {
		cell = 32 * 32
	}
	b := vlm.ClipPixels{Rule: rule, Pixels: vlm.Pixels{Min: 128 * cell, Max: 768 * cell}}
	switch p, err := vlm.OpenProcessorFile(filepath.Join(k.Dir, "video_preprocessor_config.json")); {
	case err == nil:
		b.Pixels = p.Pixels
	case !errors.Is(err, fs.ErrNotExist):
		return b, err
	}
	if how.Least > 0 {
		b.Min = how.Least
	}
	if how.Most > 0 {
		b.Max = how.Most
	}
	return b, nil
}

// MarkTimes is a text with its clips' marks as the family writes them.
func (f *Videos) MarkTimes(text string) (string, error) {
	if f == nil || f.Times == nil {
		return text, nil
	}
	return vlm.FramesApart(text, f.Times)
}

// WriteTimes are messages whose clips have their marks as the family writes them: as marked does to a text.
func (f *Videos) WriteTimes(messages []vlm.Message) ([]vlm.Message, error) {
	if f == nil || f.Times == nil {
		return messages, nil
	}
	const mark = "<|vision_start|><|video_pad|><|vision_end|>"
	out, seen := slices.Clone(messages), 0
	for i := range out {
		out[i].Content = slices.Clone(out[i].Content)
		for k, part := range out[i].Content {
			if part.Kind != vlm.ClipPart {
				continue
			}
			text, err := vlm.FramesApart(mark, f.Times[seen:seen+1])
			if err != nil {
				return nil, err
			}
			out[i].Content[k] = vlm.Part{Text: text}
			seen++
		}
	}
	return out, nil
}

// Grids are how the clips are cut into patches.
func (f *Videos) Grids() []vlm.Grid {
	if f == nil {
		return nil
	}
	return f.Patches.Grids
}

// AddTo adds the clips to the first stretch.
func (f *Videos) AddTo(s *vlm.Stretch) (grids []vlm.Grid) {
	if f == nil {
		return nil
	}
	s.Clips, s.Seconds = f.Patches, f.seconds
	return f.Patches.Grids
}

// ToolFrames are the frames that tools pick from.
func (f *Videos) ToolFrames() []*vision.Image {
	if f == nil {
		return nil
	}
	return f.frames
}
