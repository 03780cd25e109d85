package flux

import (
	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of a FluxTransformer2DModel.
type Config struct {
	PatchSize int   `json:"patch_size"`
	In        int   `json:"in_channels"`
	Out       int   `json:"out_channels"` // 0: as In
	Layers    int   `json:"num_layers"`
	Single    int   `json:"num_single_layers"`
	Heads     int   `json:"num_attention_heads"`
	HeadDim   int   `json:"attention_head_dim"`
	Context   int   `json:"joint_attention_dim"`
	Pooled    int   `json:"pooled_projection_dim"`
	Guidance  bool  `json:"guidance_embeds"` // the guidance scale is an input (FLUX.1-dev)
	Axes      []int `json:"axes_dims_rope"`  // of a head: index, row, column
}

// Width is the length of a token.
func (c Config) Width() int { return c.Heads * c.HeadDim }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{PatchSize: 1, In: 64, Layers: 19, Single: 38, Heads: 24, HeadDim: 128, Context: 4096, Pooled: 768, Axes: []int{16, 56, 56}}
	if err := hub.Config(dir, &c, "FluxTransformer2DModel"); err != nil {
		return c, err
	}
	if c.Out == 0 {
		c.Out = c.In
	}
	return c, c.check()
}

func (c Config) check() error {
	var l hub.Limits
	l.Int("patch_size", c.PatchSize, 1, 16)
	l.Int("in_channels", c.In, 1, 4096)
	l.Int("out_channels", c.Out, 1, 4096)
	l.Int("num_layers", c.Layers, 0, 512)
	l.Int("num_single_layers", c.Single, 0, 512)
	l.Int("num_attention_heads", c.Heads, 1, 1024)
	l.Int("attention_head_dim", c.HeadDim, 2, 512)
	l.Int("joint_attention_dim", c.Context, 1, 1<<16)
	l.Int("pooled_projection_dim", c.Pooled, 1, 1<<16)
	mmdit.CheckAxes(&l, "axes_dims_rope", c.Axes, c.HeadDim)
	return l.Err()
}
