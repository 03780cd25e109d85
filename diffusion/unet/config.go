package unet

import (
	"encoding/json"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of a UNet2DConditionModel.
type Config struct {
	In        int      `json:"in_channels"`
	Out       int      `json:"out_channels"`
	Channels  []int    `json:"block_out_channels"`
	Layers    int      `json:"layers_per_block"`
	Groups    int      `json:"norm_num_groups"`
	Eps       float32  `json:"norm_eps"`
	Context   int      `json:"cross_attention_dim"`
	Heads     perLvl   `json:"attention_head_dim"` // the number of heads, whatever it is called
	NumHeads  perLvl   `json:"num_attention_heads"`
	Depths    perLvl   `json:"transformer_layers_per_block"`
	Down      []string `json:"down_block_types"`
	Up        []string `json:"up_block_types"`
	Mid       string   `json:"mid_block_type"`
	CosFirst  bool     `json:"flip_sin_to_cos"`
	FreqShift float32  `json:"freq_shift"`
	Act       string   `json:"act_fn"`
	Added     string   `json:"addition_embed_type"` // "text_time" (SDXL) or null
	AddedTime int      `json:"addition_time_embed_dim"`
	AddedIn   int      `json:"projection_class_embeddings_input_dim"`
	Scaled    string   `json:"resnet_time_scale_shift"` // "default"
	Linear    bool     `json:"use_linear_projection"`   // how transformers' proj_in and proj_out lie on the disk
}

// perLvl is a number for every level, or one for all.
type perLvl []int

func (p *perLvl) UnmarshalJSON(b []byte) error {
	var one int
	if json.Unmarshal(b, &one) == nil {
		if string(b) != "null" {
			*p = perLvl{one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]int)(p))
}

func (p perLvl) at(i int) int {
	if len(p) == 1 {
		return p[0]
	}
	return p[i]
}

// TimeWidth is the length of the time's embedding.
func (c Config) TimeWidth() int { return 4 * c.Channels[0] }

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	c := Config{In: 4, Out: 4, Channels: []int{320, 640, 1280, 1280}, Layers: 2, Groups: 32, Eps: 1e-5, Context: 1280, Heads: perLvl{8}, Depths: perLvl{1},
		Down: []string{cross, cross, cross, plain}, Up: []string{plainUp, crossUp, crossUp, crossUp}, CosFirst: true, Act: "silu", Scaled: "default", Mid: crossMid}
	if err := hub.Config(dir, &c, "UNet2DConditionModel"); err != nil {
		return c, err
	}
	no := []string{"false"}
	if err := hub.Only(filepath.Join(dir, "config.json"), map[string][]string{
		"attention_type": {`"default"`}, "center_input_sample": no, "class_embed_type": nil, "class_embeddings_concat": no, "conv_in_kernel": {"3"}, "conv_out_kernel": {"3"},
		"cross_attention_norm": nil, "downsample_padding": {"1"}, "dual_cross_attention": no, "encoder_hid_dim": nil, "encoder_hid_dim_type": nil, "mid_block_only_cross_attention": no,
		"mid_block_scale_factor": {"1"}, "num_class_embeds": nil, "only_cross_attention": no, "resnet_out_scale_factor": {"1"}, "resnet_skip_time_act": no,
		"reverse_transformer_layers_per_block": nil, "time_cond_proj_dim": nil, "time_embedding_act_fn": nil, "time_embedding_dim": nil, "time_embedding_type": {`"positional"`}, "timestep_post_act": nil,
	}); err != nil {
		return c, err
	}
	if len(c.NumHeads) > 0 {
		c.Heads = c.NumHeads
	}
	return c, c.check()
}

// The kinds of levels.
const (
	cross, plain     = "CrossAttnDownBlock2D", "DownBlock2D"
	crossUp, plainUp = "CrossAttnUpBlock2D", "UpBlock2D"
	crossMid         = "UNetMidBlock2DCrossAttn"
)

func (c Config) check() error {
	var l hub.Limits
	n := len(c.Channels)
	l.Int("in_channels", c.In, 1, 1024)
	l.Int("out_channels", c.Out, 1, 1024)
	l.Int("layers_per_block", c.Layers, 1, 64)
	l.Int("norm_num_groups", c.Groups, 1, 1024)
	l.Float("norm_eps", float64(c.Eps), 0, 1)
	l.Float("freq_shift", float64(c.FreqShift), -1000, 1000)
	l.Int("cross_attention_dim", c.Context, 1, 1<<16)
	l.Must(n >= 1 && n <= 8, `"block_out_channels" lists %d levels; 1 to 8 are possible`, n)
	l.Must(len(c.Down) == n && len(c.Up) == n, `"down_block_types", "up_block_types" and "block_out_channels" list %d, %d and %d levels`, len(c.Down), len(c.Up), n)
	for key, p := range map[string]perLvl{"attention_head_dim": c.Heads, "transformer_layers_per_block": c.Depths} {
		l.Must(len(p) == 1 || len(p) == n, `%q has %d numbers for %d levels`, key, len(p), n)
		for _, x := range p {
			l.Int(key, x, 1, 1024)
		}
	}
	for i, ch := range c.Channels {
		l.Int("block_out_channels", ch, 1, 1<<14)
		l.Must(c.Groups < 1 || ch%c.Groups == 0, `"block_out_channels": %d is not a multiple of norm_num_groups %d`, ch, c.Groups)
		if len(c.Heads) == 1 || i < len(c.Heads) {
			l.Must(c.Heads.at(i) < 1 || ch%c.Heads.at(i) == 0, `"block_out_channels": %d is not a multiple of %d heads`, ch, c.Heads.at(i))
		}
	}
	for _, t := range append(append([]string{c.Mid}, c.Down...), c.Up...) {
		l.Must(t == cross || t == plain || t == crossUp || t == plainUp || t == crossMid, `blocks of type %q are not known`, t)
	}
	l.Must(c.Act == "silu", `"act_fn" is %q; "silu" is known`, c.Act)
	l.Must(c.Scaled == "default", `"resnet_time_scale_shift" is %q; "default" is known`, c.Scaled)
	l.Must(c.Added == "" || c.Added == "text_time", `"addition_embed_type" is %q; "text_time" and null are known`, c.Added)
	if c.Added != "" {
		l.Int("addition_time_embed_dim", c.AddedTime, 2, 1<<14)
		l.Int("projection_class_embeddings_input_dim", c.AddedIn, 1, 1<<16)
	}
	return l.Err()
}
