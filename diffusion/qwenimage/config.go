package qwenimage

import (
	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of a QwenImageTransformer2DModel.
type Config struct {
	PatchSize int   `json:"patch_size"`
	In        int   `json:"in_channels"`
	Out       int   `json:"out_channels"` // of the unpacked latents
	Layers    int   `json:"num_layers"`
	Heads     int   `json:"num_attention_heads"`
	HeadDim   int   `json:"attention_head_dim"`
	Context   int   `json:"joint_attention_dim"`
	Axes      []int `json:"axes_dims_rope"` // of a head: picture, row, column
	Guidance  bool  `json:"guidance_embeds"`
	// Clean says that pictures that a picture is made of are told the time 0 (Edit-2511).
	Clean   bool `json:"zero_cond_t"`
	Layered bool `json:"use_layer3d_rope"`
	Kinds   bool `json:"use_additional_t_cond"`
}

// Width is the length of a token.
func (c Config) Width() int { return c.Heads * c.HeadDim }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{PatchSize: 2, In: 64, Out: 16, Layers: 60, Heads: 24, HeadDim: 128, Context: 3584, Axes: []int{16, 56, 56}}
	if err := hub.Config(dir, &c, "QwenImageTransformer2DModel"); err != nil {
		return c, err
	}
	if c.Out == 0 {
		c.Out = c.In
	}
	return c, c.Check()
}

// Check reports every setting that makes no sense.
func (c Config) Check() error {
	var l hub.Limits
	l.Int("patch_size", c.PatchSize, 1, 16)
	l.Int("in_channels", c.In, 1, 4096)
	l.Int("out_channels", c.Out, 1, 4096)
	l.Int("num_layers", c.Layers, 1, 512)
	l.Int("num_attention_heads", c.Heads, 1, 1024)
	l.Int("attention_head_dim", c.HeadDim, 2, 512)
	l.Int("joint_attention_dim", c.Context, 1, 1<<16)
	l.Must(len(c.Axes) == 3, `"axes_dims_rope" has %d numbers; 3 are needed`, len(c.Axes))
	mmdit.CheckAxes(&l, "axes_dims_rope", c.Axes, c.HeadDim)
	l.Must(!c.Guidance, `"guidance_embeds" is true; no published Qwen-Image reads a guidance scale`)
	l.Must(!c.Layered && !c.Kinds, `"use_layer3d_rope" or "use_additional_t_cond" is true: Qwen-Image-Layered is not known`)
	return l.Err()
}
