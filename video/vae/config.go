package vae

import "github.com/darkroom-rl/darkroom/kernels/nn/hub"

// Config is config.json of an AutoencoderKLWan.
type Config struct {
	Base        int       `json:"base_dim"`
	DecoderBase int       `json:"decoder_base_dim"` // null: Base
	Latent      int       `json:"z_dim"`
	Times       []int     `json:"dim_mult"` // channels of each level, in Bases
	Blocks      int       `json:"num_res_blocks"`
	Attention   []float64 `json:"attn_scales"`
	Halves      []bool    `json:"temperal_downsample"` // whether a level halves time, too
	Mean        []float32 `json:"latents_mean"`
	Deviation   []float32 `json:"latents_std"`
	Shortcuts   bool      `json:"is_residual"` // levels have shortcuts (Wan 2.2)
	In          int       `json:"in_channels"`
	Out         int       `json:"out_channels"`
	Pictures    int       `json:"input_channels"` // Qwen-Image's name of both
	Patch       int       `json:"patch_size"`     // pixels a side that become channels first; null: 1
}

// Factor is how many pixels a side of a latent pixel covers.
func (c Config) Factor() int { return c.Patch << (len(c.Times) - 1) }

// Frames is how many frames a later frame of latents covers; the first covers one.
func (c Config) Frames() int {
	n := 1
	for _, halves := range c.Halves {
		if halves {
			n *= 2
		}
	}
	return n
}

// Channels are a picture's, before pixels become channels.
func (c Config) Channels() int { return c.Out / (c.Patch * c.Patch) }

// ReadConfig reads a folder's config.json. An AutoencoderKLQwenImage is the same network, for pictures,
// and has another name for the number of a picture's channels.
func ReadConfig(dir string) (Config, error) {
	c := Config{Base: 96, Latent: 16, Times: []int{1, 2, 4, 4}, Blocks: 2, Halves: []bool{false, true, true}, In: 3, Out: 3,
		Mean: []float32{-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517, -0.3632,
			-0.1922, -0.9497, 0.2503, -0.2921},
		Deviation: []float32{2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579,
			1.6382, 1.1253, 2.8251, 1.9160}}
	if err := hub.Config(dir, &c, "AutoencoderKLWan", "AutoencoderKLQwenImage"); err != nil {
		return c, err
	}
	if c.Pictures > 0 {
		c.In, c.Out = c.Pictures, c.Pictures
	}
	if c.DecoderBase == 0 {
		c.DecoderBase = c.Base
	}
	if c.Patch == 0 {
		c.Patch = 1
	}
	return c, c.Check()
}

// Check reports every setting that makes no sense.
func (c Config) Check() error {
	var l hub.Limits
	l.Int("base_dim", c.Base, 1, 1<<13)
	l.Int("decoder_base_dim", c.DecoderBase, 1, 1<<13)
	l.Int("z_dim", c.Latent, 1, 1024)
	l.Int("num_res_blocks", c.Blocks, 1, 64)
	l.Int("in_channels", c.In, 1, 1024)
	l.Int("out_channels", c.Out, 1, 1024)
	l.Int("patch_size", c.Patch, 1, 16)
	l.Must(c.Out == c.In && c.Patch > 0 && c.Out%(c.Patch*c.Patch) == 0,
		`"in_channels" is %d and "out_channels" %d: they must be equal, and multiples of patch_size² = %d`, c.In, c.Out, c.Patch*c.Patch)
	l.Must(len(c.Times) >= 1 && len(c.Times) <= 8, `"dim_mult" lists %d levels; 1 to 8 are possible`, len(c.Times))
	for _, n := range c.Times {
		l.Int("dim_mult", n, 1, 64)
	}
	l.Must(len(c.Halves) == len(c.Times)-1, `"temperal_downsample" lists %d levels; one fewer than "dim_mult", %d, is needed`, len(c.Halves), len(c.Times)-1)
	l.Must(len(c.Attention) == 0, `"attn_scales" is %v; attention in the levels is not known`, c.Attention)
	l.Must(len(c.Mean) == c.Latent && len(c.Deviation) == c.Latent,
		`"latents_mean" and "latents_std" list %d and %d numbers; "z_dim" is %d`, len(c.Mean), len(c.Deviation), c.Latent)
	for _, d := range c.Deviation {
		l.Must(d > 0, `"latents_std" holds %v; each must be positive`, d)
	}
	if !c.Shortcuts {
		for _, n := range c.Times {
			l.Must(n*c.DecoderBase%2 == 0, `"dim_mult" x "decoder_base_dim" gives %d channels; the decoder halves them`, n*c.DecoderBase)
		}
	}
	return l.Err()
}
