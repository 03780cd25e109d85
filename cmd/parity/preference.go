package main

import (
	"github.com/darkroom-rl/darkroom/rewards/preference"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Reward networks on Qwen2-VL: what they are asked, and what they see.

var preferenceOps = map[string]Op{
	"qwen2vl.frame_indices":      preferenceFrames,
	"qwen2vl.hpsv3":              func(c *Case) { preferenceNetwork(c, false) },
	"qwen2vl.hpsv3_prompt":       preferencePicturePrompt,
	"qwen2vl.image_size":         preferenceSize,
	"qwen2vl.video_size":         preferenceSize,
	"qwen2vl.videoreward":        func(c *Case) { preferenceNetwork(c, true) },
	"qwen2vl.videoreward_prompt": preferenceVideoPrompt,
}

func preferenceFrames(c *Case) {
	e := c.Sub("ele")
	r := preference.Reading{FPS: numberOr(e, "fps", 0), Count: int(numberOr(e, "nframes", 0)), Least: int(numberOr(e, "min_frames", 0)), Most: int(numberOr(e, "max_frames", 0)),
		MultiPoints: e.String("sample_type") == "multi_pts"}
	frames, err := r.Of(c.Int("total_frames"), c.Float("video_fps"))
	if err != nil {
		c.Put("error", "ValueError")
		return
	}
	c.Put("indices", frames)
}

func preferencePicturePrompt(c *Case) {
	text := preference.PlainPicturePrompt()
	if c.Bool("use_special_tokens") {
		text = preference.PicturePrompt(c.String("prompt"))
	}
	c.Put("text", text)
}

func preferenceSize(c *Case) {
	p := vlm.Pixels{Min: int(numberOr(c, "min_pixels", 0)), Max: int(numberOr(c, "max_pixels", 0))}
	if c.Has("pixels") {
		p = vlm.Pixels{Min: c.Int("pixels"), Max: c.Int("pixels")}
	}
	w, h := must2(p.MostFirst(c.Int("width"), c.Int("height"), 28))
	c.Put("height", h, "width", w, "tokens", h/28*(w/28))
}

func preferenceVideoPrompt(c *Case) {
	dimensions := []string{"Overall"}
	if _, ok := c.Raw("dimension").(string); !ok {
		dimensions = c.Strings("dimension")
	}
	c.Put("text", must(preference.VideoPrompt(c.String("template"), c.String("prompt"), dimensions...)))
}
