package experiment

import "fmt"

// Clips is [episode.clips]: how clips that questions name (meta.clip) are read.
type Clips struct {
	FPS   float64 `toml:"fps" range:"[0,240]" doc:"frames that are read a second; 0: count of each clip"`
	Count int     `toml:"count" range:"[0,4096]" doc:"frames that are read of each clip, where fps is 0"`
	Min   int     `toml:"min" range:"[1,4096]" doc:"frames that fps reads of a clip, at least"`
	Max   int     `toml:"max" range:"[1,4096]" doc:"and at most"`
	Least int     `toml:"least_pixels" range:"[0,1e9]" doc:"of a frame (of the whole clip for Qwen3-VL and Qwen3.5), to which clips are resized; 0: as the model's video_preprocessor_config.json has it"`
	Most  int     `toml:"most_pixels" range:"[0,1e9]" doc:"and the most"`
}

// SetDefaults is transformers' of Qwen's clips.
func (c *Clips) SetDefaults() { *c = Clips{FPS: 2, Min: 4, Max: 768} }

func (c *Clips) check(r report) {
	switch {
	case c == nil:
	case c.FPS == 0 && c.Count == 0:
		r("episode.clips.fps", "no frame of a clip is read", "fps = 2, or count = 16")
	case c.FPS > 0 && c.Count > 0:
		r("episode.clips.count", fmt.Sprintf("fps = %v says how many frames are read", c.FPS), "leave it out, or write fps = 0")
	case c.Min > c.Max:
		r("episode.clips.min", fmt.Sprintf("at least %d frames, and at most %d", c.Min, c.Max), "write a smaller one")
	case c.Most > 0 && c.Least > c.Most:
		r("episode.clips.least_pixels", fmt.Sprintf("at least %d pixels, and at most %d", c.Least, c.Most), "write a smaller one")
	}
}
