package mmdit

import "github.com/darkroom-rl/darkroom/kernels/nn/hub"

// Config is config.json of an SD3Transformer2DModel.
type Config struct {
	SampleSize    int     `json:"sample_size"` // of latents it was trained on: the scale of positions
	PatchSize     int     `json:"patch_size"`
	In            int     `json:"in_channels"`
	Out           int     `json:"out_channels"` // 0: as In
	Layers        int     `json:"num_layers"`
	Heads         int     `json:"num_attention_heads"`
	HeadDim       int     `json:"attention_head_dim"`
	Context       int     `json:"joint_attention_dim"`
	ContextWidth  int     `json:"caption_projection_dim"`
	Pooled        int     `json:"pooled_projection_dim"`
	PositionsSide int     `json:"pos_embed_max_size"`
	Dual          []int   `json:"dual_attention_layers"` // layers with a second attention of the picture alone
	QKNorm        *string `json:"qk_norm"`               // "rms_norm" or null
}

// Width is the length of a token.
func (c Config) Width() int { return c.Heads * c.HeadDim }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{SampleSize: 128, PatchSize: 2, In: 16, Layers: 18, Heads: 18, HeadDim: 64, Context: 4096, ContextWidth: 1152, Pooled: 2048, PositionsSide: 96}
	if err := hub.Config(dir, &c, "SD3Transformer2DModel"); err != nil {
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
	l.Int("in_channels", c.In, 1, 1024)
	l.Int("out_channels", c.Out, 1, 1024)
	l.Int("num_layers", c.Layers, 1, 512)
	l.Int("num_attention_heads", c.Heads, 1, 1024)
	l.Int("attention_head_dim", c.HeadDim, 1, 512)
	l.Int("joint_attention_dim", c.Context, 1, 1<<16)
	l.Int("pooled_projection_dim", c.Pooled, 1, 1<<16)
	l.Int("pos_embed_max_size", c.PositionsSide, 1, 4096)
	l.Must(c.ContextWidth == c.Width(), `"caption_projection_dim" is %d; joint attention needs num_attention_heads x attention_head_dim = %d`, c.ContextWidth, c.Width())
	l.Must(c.QKNorm == nil || *c.QKNorm == "rms_norm", `"qk_norm" may be "rms_norm" or null`)
	for _, i := range c.Dual {
		l.Must(i >= 0 && i < c.Layers, `"dual_attention_layers" names layer %d of %d`, i, c.Layers)
	}
	return l.Err()
}
