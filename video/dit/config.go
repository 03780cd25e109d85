package dit

import "github.com/darkroom-rl/darkroom/kernels/nn/hub"

// Config is config.json of a WanTransformer3DModel.
type Config struct {
	Patch     []int   `json:"patch_size"` // frames, rows and columns of latents in a token
	Heads     int     `json:"num_attention_heads"`
	HeadDim   int     `json:"attention_head_dim"`
	In        int     `json:"in_channels"`
	Out       int     `json:"out_channels"` // 0: as In
	Text      int     `json:"text_dim"`
	Waves     int     `json:"freq_dim"` // numbers that time becomes
	Inner     int     `json:"ffn_dim"`
	Layers    int     `json:"num_layers"`
	CrossNorm bool    `json:"cross_attn_norm"`
	QKNorm    string  `json:"qk_norm"`
	Eps       float32 `json:"eps"`
	Image     int     `json:"image_dim"`         // of a picture's tokens; null: none are read
	Added     int     `json:"added_kv_proj_dim"` // null: none
	Longest   int     `json:"rope_max_seq_len"`  // tokens along an axis
	// Places are the picture's tokens that have an added place: twice a picture's, since there is
	// a first and a last one. null: none has.
	Places int `json:"pos_embed_seq_len"`
}

// Width is the length of a token.
func (c Config) Width() int { return c.Heads * c.HeadDim }

// Side is that of a token's patch, and Frames are the latents' in it.
func (c Config) Side() int   { return c.Patch[1] }
func (c Config) Frames() int { return c.Patch[0] }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{Patch: []int{1, 2, 2}, Heads: 40, HeadDim: 128, In: 16, Out: 16, Text: 512, Waves: 256, Inner: 13824, Layers: 40,
		CrossNorm: true, QKNorm: acrossHeads, Eps: 1e-6, Longest: 1024}
	if err := hub.Config(dir, &c, "WanTransformer3DModel"); err != nil {
		return c, err
	}
	if c.Out == 0 {
		c.Out = c.In
	}
	return c, c.Check()
}

// acrossHeads is the one norm of queries and keys that published folders have.
const acrossHeads = "rms_norm_across_heads"

// Check reports every setting that makes no sense.
func (c Config) Check() error {
	var l hub.Limits
	l.Must(len(c.Patch) == 3 && c.Patch[0] >= 1 && c.Patch[0] <= 16 && c.Patch[1] >= 1 && c.Patch[1] <= 16 && c.Patch[1] == c.Patch[2],
		`"patch_size" is %v; up to 16 frames and a square, such as [1, 2, 2], are known`, c.Patch)
	l.Int("num_attention_heads", c.Heads, 1, 1024)
	l.Int("attention_head_dim", c.HeadDim, 6, 512)
	l.Must(c.HeadDim%2 == 0, `"attention_head_dim" is %d; it must be even`, c.HeadDim)
	l.Int("in_channels", c.In, 1, 4096)
	l.Int("out_channels", c.Out, 1, 4096)
	l.Int("text_dim", c.Text, 1, 1<<16)
	l.Int("freq_dim", c.Waves, 2, 1<<16)
	l.Must(c.Waves%2 == 0, `"freq_dim" is %d; it must be even`, c.Waves)
	l.Int("ffn_dim", c.Inner, 1, 1<<20)
	l.Int("num_layers", c.Layers, 1, 512)
	l.Must(c.QKNorm == acrossHeads, `"qk_norm" is %q; %q is known`, c.QKNorm, acrossHeads)
	l.Float("eps", float64(c.Eps), 0, 1)
	l.Int("image_dim", c.Image, 0, 1<<16)
	l.Must((c.Image > 0) == (c.Added > 0) && (c.Added == 0 || c.Added == c.Width()),
		`"image_dim" is %d and "added_kv_proj_dim" %d; a picture's tokens have both, the second num_attention_heads x attention_head_dim`, c.Image, c.Added)
	l.Int("rope_max_seq_len", c.Longest, 1, 1<<16)
	l.Int("pos_embed_seq_len", c.Places, 0, 1<<16)
	l.Must(c.Places%2 == 0 && (c.Places == 0 || c.Image > 0), `"pos_embed_seq_len" is %d; it must be even, and "image_dim" be set`, c.Places)
	return l.Err()
}
