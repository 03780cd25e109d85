package vlm

import (
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of Qwen2.5-VL, in the present layout (text_config, rope_parameters) or
// that of the published checkpoints (flat keys, rope_scaling, in_chans).
type Config struct {
	Text    TextConfig  `json:"text_config"`
	Vision  TowerConfig `json:"vision_config"`
	Tied    bool        `json:"tie_word_embeddings"` // the head is the table of tokens
	Picture int32       `json:"image_token_id"`
	Clip    int32       `json:"video_token_id"`
}

// TextConfig is the language model's.
type TextConfig struct {
	Vocabulary int     `json:"vocab_size"`
	Width      int     `json:"hidden_size"`
	Inner      int     `json:"intermediate_size"`
	Layers     int     `json:"num_hidden_layers"`
	Heads      int     `json:"num_attention_heads"`
	KVHeads    int     `json:"num_key_value_heads"`
	Eps        float32 `json:"rms_norm_eps"`
	Act        string  `json:"hidden_act"`
	Theta      float64 `json:"rope_theta"`
	Scaling    *rope   `json:"rope_scaling"`
	Parameters *rope   `json:"rope_parameters"`
	Sections   []int   `json:"-"` // of a head's turning pairs: time, rows, columns
}

type rope struct {
	Sections []int    `json:"mrope_section"`
	Theta    *float64 `json:"rope_theta"`
}

// TowerConfig is the vision tower's.
type TowerConfig struct {
	Layers    int     `json:"depth"`
	Width     int     `json:"hidden_size"`
	Inner     int     `json:"intermediate_size"`
	Heads     int     `json:"num_heads"`
	Out       int     `json:"out_hidden_size"`
	Patch     int     `json:"patch_size"`
	Merge     int     `json:"spatial_merge_size"`
	Frames    int     `json:"temporal_patch_size"`
	Channels  int     `json:"in_channels"`
	Window    int     `json:"window_size"`
	Whole     []int   `json:"fullatt_block_indexes"` // layers that see a whole frame
	PerSecond float64 `json:"tokens_per_second"`
	Act       string  `json:"hidden_act"`
}

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, "config.json")
	text := TextConfig{Eps: 1e-6, Act: "silu", Theta: 1e6}
	c := Config{Vision: TowerConfig{Patch: 14, Merge: 2, Frames: 2, Channels: 3, Window: 112, PerSecond: 4, Act: "silu"}}
	if err := hub.Config(dir, &text, "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl"); err != nil {
		return c, err
	}
	c.Text = text
	var flat struct {
		Vision struct {
			Channels *int `json:"in_chans"`
		} `json:"vision_config"`
	}
	for _, into := range []any{&c, &flat} {
		if err := hub.JSON(path, into); err != nil {
			return c, err
		}
	}
	if flat.Vision.Channels != nil {
		c.Vision.Channels = *flat.Vision.Channels
	}
	for _, r := range []*rope{c.Text.Scaling, c.Text.Parameters} {
		if r != nil && r.Sections != nil {
			c.Text.Sections = r.Sections
		}
		if r != nil && r.Theta != nil {
			c.Text.Theta = *r.Theta
		}
	}
	return c, c.check()
}

func (c Config) check() error {
	var l hub.Limits
	t, v := c.Text, c.Vision
	l.Int("vocab_size", t.Vocabulary, 1, 1<<22)
	l.Int("hidden_size", t.Width, 1, 1<<16)
	l.Int("intermediate_size", t.Inner, 1, 1<<18)
	l.Int("num_hidden_layers", t.Layers, 1, 512)
	l.Int("num_attention_heads", t.Heads, 1, 512)
	l.Int("num_key_value_heads", t.KVHeads, 1, 512)
	l.Float("rms_norm_eps", float64(t.Eps), 0, 1)
	l.Float("rope_theta", t.Theta, 1, 1e12)
	l.Int("vision_config.depth", v.Layers, 1, 512)
	l.Int("vision_config.hidden_size", v.Width, 1, 1<<16)
	l.Int("vision_config.intermediate_size", v.Inner, 1, 1<<18)
	l.Int("vision_config.num_heads", v.Heads, 1, 512)
	l.Int("vision_config.patch_size", v.Patch, 1, 256)
	l.Int("vision_config.spatial_merge_size", v.Merge, 1, 16)
	l.Int("vision_config.temporal_patch_size", v.Frames, 1, 16)
	l.Int("vision_config.in_channels", v.Channels, 1, 64)
	l.Int("vision_config.window_size", v.Window, 1, 1<<16)
	l.Float("vision_config.tokens_per_second", v.PerSecond, 0, 1e6)
	l.Must(t.Act == "silu" && v.Act == "silu", `"hidden_act" is %q and %q; "silu" is known`, t.Act, v.Act)
	if err := l.Err(); err != nil {
		return err
	}
	l.Must(t.Width%t.Heads == 0 && t.Heads%t.KVHeads == 0, `"hidden_size" %d, %d heads and %d of keys do not divide`, t.Width, t.Heads, t.KVHeads)
	l.Must(v.Width%(4*v.Heads) == 0, `"vision_config.hidden_size" %d is not %d heads of a multiple of 4`, v.Width, v.Heads)
	l.Must(v.Out == t.Width, `"vision_config.out_hidden_size" is %d, the language model's "hidden_size" %d`, v.Out, t.Width)
	l.Must(v.Window/v.Merge/v.Patch > 0, `"vision_config.window_size" %d holds no cell`, v.Window)
	pairs := 0
	for _, n := range t.Sections {
		l.Must(n >= 0, `"mrope_section" holds %d`, n)
		pairs += n
	}
	l.Must(len(t.Sections) == 3 && 2*pairs*t.Heads == t.Width, `"mrope_section" %v does not divide heads of %d`, t.Sections, t.Width/t.Heads)
	for _, i := range v.Whole {
		l.Must(i >= 0 && i < v.Layers, `"fullatt_block_indexes" names layer %d of %d`, i, v.Layers)
	}
	return l.Err()
}

func (v TowerConfig) whole(layer int) bool { return slices.Contains(v.Whole, layer) }
