package flux2

import (
	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of a Flux2Transformer2DModel.
type Config struct {
	PatchSize int     `json:"patch_size"`
	In        int     `json:"in_channels"`
	Out       int     `json:"out_channels"` // 0: as In
	Layers    int     `json:"num_layers"`
	Single    int     `json:"num_single_layers"`
	Heads     int     `json:"num_attention_heads"`
	HeadDim   int     `json:"attention_head_dim"`
	Context   int     `json:"joint_attention_dim"`
	Waves     int     `json:"timestep_guidance_channels"`
	Ratio     float64 `json:"mlp_ratio"`
	Axes      []int   `json:"axes_dims_rope"` // of a head: picture, row, column, word
	Theta     float64 `json:"rope_theta"`
	Eps       float32 `json:"eps"`
	Guidance  bool    `json:"guidance_embeds"` // the guidance scale is an input
}

// Width is the length of a token.
func (c Config) Width() int { return c.Heads * c.HeadDim }

// Inner is the width of an MLP.
func (c Config) Inner() int { return int(float64(c.Width()) * c.Ratio) }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{PatchSize: 1, In: 128, Layers: 8, Single: 48, Heads: 48, HeadDim: 128, Context: 15360, Waves: 256, Ratio: 3,
		Axes: []int{32, 32, 32, 32}, Theta: 2000, Eps: 1e-6, Guidance: true}
	if err := hub.Config(dir, &c, "Flux2Transformer2DModel"); err != nil {
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
	l.Int("patch_size", c.PatchSize, 1, 1)
	l.Int("in_channels", c.In, 1, 4096)
	l.Int("out_channels", c.Out, 1, 4096)
	l.Int("num_layers", c.Layers, 0, 512)
	l.Int("num_single_layers", c.Single, 0, 512)
	l.Int("num_attention_heads", c.Heads, 1, 1024)
	l.Int("attention_head_dim", c.HeadDim, 2, 512)
	l.Int("joint_attention_dim", c.Context, 1, 1<<17)
	l.Int("timestep_guidance_channels", c.Waves, 2, 4096)
	l.Float("mlp_ratio", c.Ratio, 0.01, 64)
	l.Float("rope_theta", c.Theta, 1.001, 1e9)
	l.Float("eps", float64(c.Eps), 0, 1)
	l.Must(c.Waves%2 == 0, `"timestep_guidance_channels" is %d; it must be even`, c.Waves)
	l.Must(len(c.Axes) == 4, `"axes_dims_rope" has %d numbers; 4 are needed`, len(c.Axes))
	mmdit.CheckAxes(&l, "axes_dims_rope", c.Axes, c.HeadDim)
	return l.Err()
}
