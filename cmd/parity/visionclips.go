package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Clips before a vision-language network: which frames are read, their size, times, tokens and patches.

var visionClipOps = map[string]Op{
	"video.preprocess":    clipPatches,
	"video.sample_frames": clipFrames,
	"video.size":          clipSize,
	"video.timestamps":    clipTimes,
	"video.tokens":        clipTokens,
}

func clipFrames(c *Case) {
	f := vlm.Frames{Rule: vlm.FrameRule(c.String("kind")), FPS: numberOr(c, "fps", 0), Count: int(numberOr(c, "num_frames", 0)), Min: c.Int("min_frames"), Max: c.Int("max_frames")}
	total, rate := c.Int("total_frames"), c.Float("video_fps")
	places, err := f.Of(total, rate)
	var past vlm.PastEnd
	switch {
	case errors.As(err, &past):
		c.Put("error", "IndexError", "upstream_indices", past.Places)
	case err != nil:
		c.Put("error", "ValueError")
	default:
		c.Put("indices", places, "sample_fps", float64(len(places))/float64(total)*rate)
	}
}

func clipSize(c *Case) {
	frames, h, w, factor := c.Int("frames"), c.Int("height"), c.Int("width"), c.Int("factor")
	if kind := vlm.FrameRule(c.String("kind")); kind == vlm.VendorFrames {
		w, h, frames = must3(vlm.VendorSize(frames, w, h, factor, c.Int("image_min_cells"), c.Int("frame_min_cells"), c.Int("max_pixels")))
		c.Put("frames", frames)
	} else {
		p := vlm.ClipPixels{Rule: kind, Pixels: vlm.Pixels{Min: c.Int("shortest_edge"), Max: c.Int("longest_edge")}, Cap: c.Bool("cap_pixels_per_frame"), Tokens: c.Int("max_video_tokens")}
		w, h = must2(p.Size(frames, w, h, factor))
	}
	c.Put("height", h, "width", w)
}

func clipTimes(c *Case) {
	times := must(vlm.Timestamps(c.Ints("indices"), c.Float("video_fps"), 2))
	var texts []any
	for _, t := range times {
		texts = append(texts, fmt.Sprintf("<%.1f seconds>", t))
	}
	c.Put("seconds", times, "text", texts)
}

// bounds is an object of two edges.
func bounds(c *Case, name string) vlm.Pixels {
	s := c.Sub(name)
	return vlm.Pixels{Min: s.Int("shortest_edge"), Max: s.Int("longest_edge")}
}

// A clipTalk is a case's conversation about clips on its way to tokens.
type clipTalk struct {
	*Case
	apart    bool // frames are pictures with their times (Qwen3-VL)
	clips    []vlm.Grid
	pictures []vlm.Grid
	times    [][]float64
	seconds  []float64
}

func clipTokens(c *Case) {
	family := c.String("family")
	s := &clipTalk{Case: c, apart: family == "qwen3_vl"}
	s.read()
	t := must(vlm.TemplateNamed(family))
	messages := must(vlm.ReadMessages(c.Text("messages")))
	text := must(t.Render(messages, vlm.Rendering{Generate: strings.HasSuffix(textOut(c), "assistant\n")}))
	c.Put("text", text)
	s.expand(text)
}

// textOut is the recorded text, of which its end alone is read: whether an answer is asked for.
func textOut(c *Case) string {
	text, _ := c.want["text"].(string)
	return text
}

// read chooses frames, and sizes them and pictures.
func (s *clipTalk) read() {
	rule := map[bool]vlm.FrameRule{true: vlm.Qwen3Frames, false: vlm.Qwen2Frames}[s.apart]
	totals, rates, patch := s.Ints("total_frames"), s.Floats("video_fps"), s.Int("patch_size")
	var read [][]int
	for i, size := range groups(s.Case, "video_hw", 2) {
		places := times(totals[i], func(k int) int { return k })
		rate := rates[i]
		if s.Bool("do_sample_frames") {
			f := vlm.Frames{Rule: rule, FPS: s.Float("fps"), Min: s.Int("min_frames"), Max: 768}

			places = must(f.Of(totals[i], rate))
			rate *= float64(len(places)) / float64(totals[i])
		}
		read = append(read, places)
		w, h := must2(vlm.ClipPixels{Rule: rule, Pixels: bounds(s.Case, "video_size")}.Size(len(places), size[1], size[0], 2*patch))
		s.clips = append(s.clips, vlm.Grid{Frames: (len(places) + 1) / 2, Rows: h / patch, Columns: w / patch})
		times := must(vlm.Timestamps(places, rates[i], 2))
		s.times, s.seconds = append(s.times, times), append(s.seconds, float64(float32(2/rate)))
	}
	p := vlm.NewProcessor()
	p.Patch, p.Pixels = patch, bounds(s.Case, "image_size")
	for _, size := range groups(s.Case, "image_hw", 2) {
		s.pictures = append(s.pictures, must(p.Grid(size[1], size[0])))
	}
	s.Put("frames_indices", read, "video_grid_thw", gridRows(s.clips), "image_grid_thw", gridRows(s.pictures))
	s.Put("second_per_grid_ts", s.seconds)
}

// expand makes tokens of the text, and their places.
func (s *clipTalk) expand(text string) {
	t := vlmTokens(s.Case)
	marks := must(vlm.MarksOf(t))
	cells, rule := s.clips, vlm.PositionRule{Merge: 2, PerSecond: numberOr(s.Case, "tokens_per_second", 0)}
	sequence := vlm.Sequence{Pictures: s.pictures, Clips: s.clips, Seconds: s.seconds}
	if s.apart {
		text = must(vlm.FramesInside(text, s.times))
		cells = nil
		for _, g := range s.clips {
			cells = append(cells, vlm.FrameGrids(g)...)
		}
		rule = vlm.PositionRule{Merge: 2, ByFrame: true}
		s.Put("expanded_text", repeated(repeated(text, "<|video_pad|>", cells), "<|image_pad|>", s.pictures))
	}
	ids, kinds := must2(marks.Expand(must(t.Encode(text)).IDs, s.pictures, cells, 2))
	s.Put("input_ids", to[int](ids), "mm_token_type_ids", kinds)
	sequence.Kinds = kinds
	at, delta := must2(rule.Positions(sequence))
	s.Put("position_ids", at[:], "rope_delta", delta)
}

// repeated is a text whose marks stand as often as their grids have merged cells.
func repeated(text, mark string, grids []vlm.Grid) string {
	parts := strings.Split(text, mark)
	out := parts[0]
	for i, part := range parts[1:] {
		out += strings.Repeat(mark, grids[i].Tokens(2)) + part
	}
	return out
}

// clipPatches reads the folder's settings of clips, which have the form of pictures'.
func clipPatches(c *Case) {
	p := must(vlm.OpenProcessorFile(filepath.Join(c.Dir(), "video_preprocessor_config.json")))
	pixels := vlm.ClipPixels{Rule: map[bool]vlm.FrameRule{true: vlm.Qwen3Frames, false: vlm.Qwen2Frames}[c.String("family") == "qwen3_vl"], Pixels: bounds(c, "video_size")}
	var values []float32
	var grids []vlm.Grid
	lists, _ := c.Raw("frames_indices").([]any)
	for i := range lists {
		a, err := arrayOf(lists[i])
		if err != nil {
			a = Array{Data: nil}
			for _, v := range lists[i].([]any) {
				a.Data = append(a.Data, v.(float64))
			}
		}
		clip := c.Array(fmt.Sprintf("clip.%d", i))
		each := len(clip.Data) / clip.Shape[0]
		var frames []*vision.Raster
		for _, k := range a.Data {
			r := vision.NewRaster(clip.Shape[2], clip.Shape[1], 3)
			for j, v := range clip.Data[int(k)*each : (int(k)+1)*each] {
				r.Pix[j] = uint8(v)
			}
			frames = append(frames, r)
		}
		out := must(p.Clip(pixels, frames...))
		values, grids = append(values, out.Values...), append(grids, out.Grids...)
	}
	width := 3 * p.Frames * p.Patch * p.Patch
	c.Put("pixel_values_videos", Array{[]int{len(values) / width, width}, to[float64](values)})
	c.Put("video_grid_thw", gridRows(grids))
}
