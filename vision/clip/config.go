package clip

import (
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Encoder has the settings of both towers.
type Encoder struct {
	Width  int     `json:"hidden_size"`
	Inner  int     `json:"intermediate_size"`
	Layers int     `json:"num_hidden_layers"`
	Heads  int     `json:"num_attention_heads"`
	Act    string  `json:"hidden_act"` // "quick_gelu" or "gelu"
	Eps    float32 `json:"layer_norm_eps"`
	Out    int     `json:"projection_dim"` // of the projection, where there is one
}

// TextConfig is the settings of a text tower.
type TextConfig struct {
	Encoder
	Vocabulary int `json:"vocab_size"`
	Positions  int `json:"max_position_embeddings"`
	// End is the token that text is pooled at: the first of them; 2, which published
	// settings have by mistake, means the largest id.
	End int `json:"eos_token_id"`
}

// VisionConfig is the settings of a picture tower.
type VisionConfig struct {
	Encoder
	Side     int `json:"image_size"`
	Patch    int `json:"patch_size"`
	Channels int `json:"num_channels"`
}

// Config is config.json of a folder with both towers.
type Config struct {
	Text   TextConfig   `json:"text_config"`
	Vision VisionConfig `json:"vision_config"`
	Out    int          `json:"projection_dim"`
}

func textDefaults() TextConfig {
	return TextConfig{Encoder: Encoder{Width: 512, Inner: 2048, Layers: 12, Heads: 8, Act: "quick_gelu", Eps: 1e-5, Out: 512}, Vocabulary: 49408, Positions: 77, End: 49407}
}

func visionDefaults() VisionConfig {
	return VisionConfig{Encoder: Encoder{Width: 768, Inner: 3072, Layers: 12, Heads: 12, Act: "quick_gelu", Eps: 1e-5, Out: 512}, Side: 224, Patch: 32, Channels: 3}
}

// ReadTextConfig reads the folder of a text encoder, or the text half of both towers'.
func ReadTextConfig(dir string) (TextConfig, error) {
	var nested struct {
		Text *TextConfig `json:"text_config"`
	}
	c := textDefaults()
	nested.Text = &c
	path := filepath.Join(dir, "config.json")
	var has map[string]any
	if err := hub.Config(dir, &has, "CLIPTextModel", "CLIPTextModelWithProjection", "clip_text_model", "CLIPModel", "clip"); err != nil {
		return c, err
	}
	into := any(&c)
	if has["text_config"] != nil {
		into = &nested
	}
	if err := hub.JSON(path, into); err != nil {
		return c, err
	}
	return c, c.check()
}

// ReadVisionConfig reads the folder of a picture tower alone.
func ReadVisionConfig(dir string) (VisionConfig, error) {
	c := visionDefaults()
	if err := hub.Config(dir, &c, "CLIPVisionModel", "CLIPVisionModelWithProjection", "clip_vision_model"); err != nil {
		return c, err
	}
	return c, c.check()
}

// Tokens is how many a picture has: its class, and its patches.
func (c VisionConfig) Tokens() int { return (c.Side/c.Patch)*(c.Side/c.Patch) + 1 }

// ReadConfig reads a folder of both towers.
func ReadConfig(dir string) (Config, error) {
	c := Config{Text: textDefaults(), Vision: visionDefaults(), Out: 512}
	if err := hub.Config(dir, &c, "CLIPModel", "clip"); err != nil {
		return c, err
	}
	c.Text.Out, c.Vision.Out = c.Out, c.Out
	if err := c.Text.check(); err != nil {
		return c, err
	}
	return c, c.Vision.check()
}

func (e Encoder) check(l *hub.Limits) {
	l.Int("hidden_size", e.Width, 1, 1<<14)
	l.Int("intermediate_size", e.Inner, 1, 1<<16)
	l.Int("num_hidden_layers", e.Layers, 1, 256)
	l.Int("num_attention_heads", e.Heads, 1, 256)
	l.Float("layer_norm_eps", float64(e.Eps), 0, 1)
	l.Int("projection_dim", e.Out, 1, 1<<14)
	l.Must(e.Heads > 0 && e.Width%max(e.Heads, 1) == 0, `"hidden_size" %d is not a multiple of num_attention_heads %d`, e.Width, e.Heads)
	_, ok := activations[e.Act]
	l.Must(ok, `"hidden_act" is %q; "quick_gelu" and "gelu" are known`, e.Act)
}

var activations = map[string]kernels.UnaryOp{"quick_gelu": kernels.QuickGELU, "gelu": kernels.GELUErf}

func (c TextConfig) check() error {
	var l hub.Limits
	c.Check(&l)
	return l.Err()
}

// Check collects settings out of range.
func (c TextConfig) Check(l *hub.Limits) {
	c.Encoder.check(l)
	l.Int("vocab_size", c.Vocabulary, 1, 1<<22)
	l.Int("max_position_embeddings", c.Positions, 1, 1<<16)
}

func (c VisionConfig) check() error {
	var l hub.Limits
	c.Check(&l)
	return l.Err()
}

// Check collects settings out of range.
func (c VisionConfig) Check(l *hub.Limits) {
	c.Encoder.check(l)
	l.Int("patch_size", c.Patch, 1, 256)
	l.Int("image_size", c.Side, c.Patch, 1<<13)
	l.Int("num_channels", c.Channels, 1, 64)
}
