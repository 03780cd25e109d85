package t5

import "github.com/darkroom-rl/darkroom/kernels/nn/hub"

// Config is config.json of an encoder.
type Config struct {
	Width      int     `json:"d_model"`
	Inner      int     `json:"d_ff"`
	HeadDim    int     `json:"d_kv"`
	Heads      int     `json:"num_heads"`
	Layers     int     `json:"num_layers"`
	Vocabulary int     `json:"vocab_size"`
	Buckets    int     `json:"relative_attention_num_buckets"`
	Distance   int     `json:"relative_attention_max_distance"`
	Eps        float32 `json:"layer_norm_epsilon"`
	FeedFwd    string  `json:"feed_forward_proj"` // "gated-gelu" or "relu"
	ModelType  string  `json:"model_type"`        // "umt5": every layer has its own positions
}

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{Width: 512, Inner: 2048, HeadDim: 64, Heads: 8, Layers: 6, Vocabulary: 32128, Buckets: 32, Distance: 128, Eps: 1e-6, FeedFwd: "relu"}
	if err := hub.Config(dir, &c, "T5EncoderModel", "T5ForConditionalGeneration", "T5Model", "UMT5EncoderModel", "UMT5ForConditionalGeneration", "UMT5Model", "t5", "umt5"); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c Config) check() error {
	var l hub.Limits
	l.Int("d_model", c.Width, 1, 1<<15)
	l.Int("d_ff", c.Inner, 1, 1<<17)
	l.Int("d_kv", c.HeadDim, 1, 1024)
	l.Int("num_heads", c.Heads, 1, 1024)
	l.Int("num_layers", c.Layers, 1, 512)
	l.Int("vocab_size", c.Vocabulary, 1, 1<<22)
	l.Int("relative_attention_num_buckets", c.Buckets, 4, 1<<16)
	l.Int("relative_attention_max_distance", c.Distance, c.Buckets/4+1, 1<<20)
	l.Float("layer_norm_epsilon", float64(c.Eps), 0, 1)
	l.Must(c.FeedFwd == "gated-gelu" || c.FeedFwd == "relu", `"feed_forward_proj" is %q; "gated-gelu" and "relu" are known`, c.FeedFwd)
	return l.Err()
}
