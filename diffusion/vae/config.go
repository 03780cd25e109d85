package vae

import "github.com/darkroom-rl/darkroom/kernels/nn/hub"

// Config is config.json of an AutoencoderKL.
type Config struct {
	In            int      `json:"in_channels"`
	Out           int      `json:"out_channels"`
	Latent        int      `json:"latent_channels"`
	Channels      []int    `json:"block_out_channels"`
	Layers        int      `json:"layers_per_block"`
	Groups        int      `json:"norm_num_groups"`
	Attention     bool     `json:"mid_block_add_attention"`
	QuantConv     bool     `json:"use_quant_conv"`
	PostQuantConv bool     `json:"use_post_quant_conv"`
	Scaling       float32  `json:"scaling_factor"`
	Shift         float32  `json:"shift_factor"` // null: 0
	Act           string   `json:"act_fn"`
	Down          []string `json:"down_block_types"`
	Up            []string `json:"up_block_types"`
}

// Factor is how many pixels a side of a latent pixel covers.
func (c Config) Factor() int { return 1 << (len(c.Channels) - 1) }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{In: 3, Out: 3, Latent: 4, Channels: []int{64}, Layers: 1, Groups: 32, Attention: true, QuantConv: true, PostQuantConv: true, Scaling: 0.18215, Act: "silu"}
	if err := hub.Config(dir, &c, "AutoencoderKL", "AutoencoderKLFlux2"); err != nil {
		return c, err
	}
	return c, c.Check()
}

// Check reports every setting that makes no sense.
func (c Config) Check() error {
	var l hub.Limits
	l.Int("in_channels", c.In, 1, 64)
	l.Int("out_channels", c.Out, 1, 64)
	l.Int("latent_channels", c.Latent, 1, 1024)
	l.Int("layers_per_block", c.Layers, 1, 64)
	l.Int("norm_num_groups", c.Groups, 1, 1024)
	channels(&l, "block_out_channels", c.Channels, c.Groups)
	l.Must(c.Scaling > 0 || c.Scaling < 0, `"scaling_factor" must be a number other than 0`)
	l.Must(c.Act == "silu" || c.Act == "swish", `"act_fn" is %q; "silu" is known`, c.Act)
	for _, t := range append(c.Down, c.Up...) {
		l.Must(t == "DownEncoderBlock2D" || t == "UpDecoderBlock2D", `blocks of type %q are not known`, t)
	}
	return l.Err()
}

func channels(l *hub.Limits, key string, list []int, groups int) {
	l.Must(len(list) >= 1 && len(list) <= 8, `%q lists %d levels; 1 to 8 are possible`, key, len(list))
	for _, n := range list {
		l.Int(key, n, 1, 1<<14)
		l.Must(groups < 1 || n%groups == 0, `%q: %d channels are not a multiple of %d groups`, key, n, groups)
	}
}

// TinyConfig is config.json of an AutoencoderTiny.
type TinyConfig struct {
	In              int   `json:"in_channels"`
	Out             int   `json:"out_channels"`
	Latent          int   `json:"latent_channels"`
	EncoderChannels []int `json:"encoder_block_out_channels"`
	DecoderChannels []int `json:"decoder_block_out_channels"`
	EncoderBlocks   []int `json:"num_encoder_blocks"`
	DecoderBlocks   []int `json:"num_decoder_blocks"`
	Upsampling      int   `json:"upsampling_scaling_factor"`
}

// ReadTinyConfig reads a folder's config.json.
func ReadTinyConfig(dir string) (TinyConfig, error) {
	c := TinyConfig{In: 3, Out: 3, Latent: 4, EncoderChannels: []int{64, 64, 64, 64}, DecoderChannels: []int{64, 64, 64, 64},
		EncoderBlocks: []int{1, 3, 3, 3}, DecoderBlocks: []int{3, 3, 3, 1}, Upsampling: 2}
	if err := hub.Config(dir, &c, "AutoencoderTiny"); err != nil {
		return c, err
	}
	var l hub.Limits
	l.Int("in_channels", c.In, 1, 64)
	l.Int("out_channels", c.Out, 1, 64)
	l.Int("latent_channels", c.Latent, 1, 1024)
	l.Int("upsampling_scaling_factor", c.Upsampling, 1, 8)
	channels(&l, "encoder_block_out_channels", c.EncoderChannels, 1)
	channels(&l, "decoder_block_out_channels", c.DecoderChannels, 1)
	l.Must(len(c.EncoderBlocks) == len(c.EncoderChannels), `"num_encoder_blocks" and "encoder_block_out_channels" have %d and %d levels`, len(c.EncoderBlocks), len(c.EncoderChannels))
	l.Must(len(c.DecoderBlocks) == len(c.DecoderChannels), `"num_decoder_blocks" and "decoder_block_out_channels" have %d and %d levels`, len(c.DecoderBlocks), len(c.DecoderChannels))
	for _, n := range append(append([]int(nil), c.EncoderBlocks...), c.DecoderBlocks...) {
		l.Int("num_encoder_blocks, num_decoder_blocks", n, 0, 64)
	}
	return c, l.Err()
}
