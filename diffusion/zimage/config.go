package zimage

import (
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of a ZImageTransformer2DModel.
type Config struct {
	Patches []int   `json:"all_patch_size"`
	Frames  []int   `json:"all_f_patch_size"`
	In      int     `json:"in_channels"`
	Width   int     `json:"dim"`
	Layers  int     `json:"n_layers"`
	Refine  int     `json:"n_refiner_layers"`
	Heads   int     `json:"n_heads"`
	KVHeads int     `json:"n_kv_heads"`
	Eps     float32 `json:"norm_eps"`
	QKNorm  bool    `json:"qk_norm"`
	Caption int     `json:"cap_feat_dim"`
	Sight   *int    `json:"siglip_feat_dim"`
	Theta   float64 `json:"rope_theta"`
	Times   float64 `json:"t_scale"`
	Axes    []int   `json:"axes_dims"` // of a head: caption or picture, row, column
	Longest []int   `json:"axes_lens"` // places along each of them
}

// Patch is the side of a token in latents.
func (c Config) Patch() int { return c.Patches[0] }

// timeWidth is the length of what modulations read of the time.
func (c Config) timeWidth() int { return min(c.Width, 256) }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{Patches: []int{2}, Frames: []int{1}, In: 16, Width: 3840, Layers: 30, Refine: 2, Heads: 30, KVHeads: 30, Eps: 1e-5, QKNorm: true,
		Caption: 2560, Theta: 256, Times: 1000, Axes: []int{32, 48, 48}, Longest: []int{1024, 512, 512}}
	if err := hub.Config(dir, &c, "ZImageTransformer2DModel"); err != nil {
		return c, err
	}
	return c, c.Check()
}

// Check reports every setting that makes no sense.
func (c Config) Check() error {
	var l hub.Limits
	l.Int("in_channels", c.In, 1, 1024)
	l.Int("dim", c.Width, 1, 1<<16)
	l.Int("n_layers", c.Layers, 0, 512)
	l.Int("n_refiner_layers", c.Refine, 0, 512)
	l.Int("n_heads", c.Heads, 1, 1024)
	l.Int("cap_feat_dim", c.Caption, 1, 1<<16)
	l.Float("norm_eps", float64(c.Eps), 0, 1)
	l.Float("rope_theta", c.Theta, 1.001, 1e9)
	l.Float("t_scale", c.Times, 1e-3, 1e6)
	l.Must(len(c.Patches) == 1 && slices.Equal(c.Frames, []int{1}) && c.Patches[0] >= 1 && c.Patches[0] <= 16,
		`"all_patch_size" is %v and "all_f_patch_size" %v; one patch of pictures is known`, c.Patches, c.Frames)
	l.Must(c.KVHeads == c.Heads, `"n_kv_heads" is %d and "n_heads" %d; they must be equal`, c.KVHeads, c.Heads)
	l.Must(c.Sight == nil, `"siglip_feat_dim" is set: Z-Image-Omni, which sees pictures, is not known`)
	l.Must(len(c.Axes) == 3 && len(c.Longest) == 3, `"axes_dims" and "axes_lens" have %d and %d numbers; 3 are needed`, len(c.Axes), len(c.Longest))
	if err := l.Err(); err != nil {
		return err
	}
	l.Must(c.Width%c.Heads == 0, `"dim" %d is no multiple of "n_heads" %d`, c.Width, c.Heads)
	mmdit.CheckAxes(&l, "axes_dims", c.Axes, c.Width/c.Heads)
	for _, n := range c.Longest {
		l.Int("axes_lens", n, 1, 1<<20)
	}
	return l.Err()
}
