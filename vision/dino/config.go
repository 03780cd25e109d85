package dino

import (
	"encoding/json"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of a ViTModel or a Dinov2Model.
type Config struct {
	Kind     string  `json:"model_type"` // "vit" or "dinov2"
	Width    int     `json:"hidden_size"`
	Inner    int     `json:"intermediate_size"` // of a ViTModel
	Ratio    float64 `json:"mlp_ratio"`         // of a Dinov2Model: Inner over Width
	Layers   int     `json:"num_hidden_layers"`
	Heads    int     `json:"num_attention_heads"`
	Act      string  `json:"hidden_act"`
	Eps      float32 `json:"layer_norm_eps"`
	Side     int     `json:"image_size"` // of the pictures that positions were learnt for
	Patch    int     `json:"patch_size"`
	Channels int     `json:"num_channels"`
	Bias     bool    `json:"qkv_bias"`
	SwiGLU   bool    `json:"use_swiglu_ffn"` // of a Dinov2Model
}

// ReadConfig reads a folder's settings.
func ReadConfig(dir string) (Config, error) {
	kind, err := kindOf(dir)
	if err != nil {
		return Config{}, err
	}
	c := Config{Kind: kind, Width: 768, Inner: 3072, Ratio: 4, Layers: 12, Heads: 12, Act: "gelu", Eps: 1e-12, Side: 224, Patch: 16, Channels: 3, Bias: true}
	if kind == "dinov2" {
		c.Eps, c.Patch = 1e-6, 14
	}
	if err := hub.JSON(filepath.Join(dir, "config.json"), &c); err != nil {
		return c, err
	}
	c.Kind = kind
	return c, c.check()
}

// kindOf tells a ViT from a DINOv2.
func kindOf(dir string) (string, error) {
	var said struct {
		Kind          string          `json:"model_type"`
		Architectures json.RawMessage `json:"architectures"`
	}
	if err := hub.Config(dir, &said, "ViTModel", "vit", "Dinov2Model", "dinov2"); err != nil {
		return "", err
	}
	if said.Kind == "dinov2" || said.Kind == "" && string(said.Architectures) == `["Dinov2Model"]` {
		return "dinov2", nil
	}
	return "vit", nil
}

var activations = map[string]kernels.UnaryOp{"gelu": kernels.GELUErf}

func (c *Config) check() error {
	var l hub.Limits
	l.Int("hidden_size", c.Width, 1, 1<<14)
	l.Int("num_hidden_layers", c.Layers, 1, 256)
	l.Int("num_attention_heads", c.Heads, 1, 256)
	l.Must(c.Width%max(c.Heads, 1) == 0, `"hidden_size" %d is not a multiple of num_attention_heads %d`, c.Width, c.Heads)
	l.Int("patch_size", c.Patch, 1, 256)
	l.Int("image_size", c.Side, c.Patch, 1<<13)
	l.Must(c.Channels == 3, `"num_channels" is %d; pictures have 3`, c.Channels)
	_, ok := activations[c.Act]
	l.Must(ok || c.SwiGLU, `"hidden_act" is %q; "gelu" is known`, c.Act)
	l.Must(c.Eps >= 0 && c.Eps < 1, `"layer_norm_eps" is %v`, c.Eps)
	if c.Kind == "dinov2" {
		l.Must(c.Ratio > 0 && c.Ratio <= 64, `"mlp_ratio" is %v; it must lie between 0 and 64`, c.Ratio)
		c.Inner = int(float64(c.Width) * min(max(c.Ratio, 0), 64))
		if c.SwiGLU { // so that the gated form has as many parameters, in multiples of 8
			c.Inner = (c.Inner*2/3 + 7) / 8 * 8
		}
	}
	l.Int("intermediate_size", c.Inner, 1, 1<<16)
	return l.Err()
}
