package vlm

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Config is config.json of a model, in the present layout (text_config, rope_parameters) or
// that of the published checkpoints (flat keys, rope_scaling, in_chans).
type Config struct {
	Family  Family      `json:"-"`
	Text    TextConfig  `json:"text_config"`
	Vision  TowerConfig `json:"vision_config"`
	Tied    bool        `json:"tie_word_embeddings"` // the head is the table of tokens
	Picture int32       `json:"image_token_id"`      // stands for a merged cell of a picture
	Clip    int32       `json:"video_token_id"`
	Begin   int32       `json:"vision_start_token_id"`
	End     int32       `json:"vision_end_token_id"`
	// Plain positions are a token's number on all axes, pictures' cells too: of networks that were
	// trained so.
	Plain bool `json:"-"`
}

// TextConfig is the language model's.
type TextConfig struct {
	Vocabulary int     `json:"vocab_size"`
	Width      int     `json:"hidden_size"`
	Inner      int     `json:"intermediate_size"`
	Layers     int     `json:"num_hidden_layers"`
	Heads      int     `json:"num_attention_heads"`
	KVHeads    int     `json:"num_key_value_heads"`
	HeadDim    int     `json:"head_dim"` // 0: Width / Heads
	Eps        float32 `json:"rms_norm_eps"`
	Act        string  `json:"hidden_act"`
	Theta      float64 `json:"rope_theta"`
	Longest    int     `json:"max_position_embeddings"` // the context of yarn where it says none itself
	Scaling    *rope   `json:"rope_scaling"`
	Parameters *rope   `json:"rope_parameters"`
	Sliding    bool    `json:"use_sliding_window"`
	Bias       *bool   `json:"attention_bias"` // Qwen3-VL's; the others have it on q, k, v alone

	// Qwen3.5: the layers that attend ("full_attention"), and the kind of the others ("linear_attention").
	Kinds      []string `json:"layer_types"`
	Every      int      `json:"full_attention_interval"` // one layer in this many attends, where Kinds is absent
	Taps       int      `json:"linear_conv_kernel_dim"`
	KeyDim     int      `json:"linear_key_head_dim"`
	ValueDim   int      `json:"linear_value_head_dim"`
	KeyHeads   int      `json:"linear_num_key_heads"`
	ValueHeads int      `json:"linear_num_value_heads"`
	// Qwen3-VL-MoE: layers of experts, and those without.
	Experts      int   `json:"num_experts"`
	LocalExperts int   `json:"num_local_experts"` // the same in files of today's library
	Chosen       int   `json:"num_experts_per_tok"`
	ExpertInner  int   `json:"moe_intermediate_size"`
	SparseStep   int   `json:"decoder_sparse_step"`
	Dense        []int `json:"mlp_only_layers"`

	Turning float64 `json:"partial_rotary_factor"` // the share of a head that turns

	Sections    []int `json:"-"` // of a head's turning pairs: time, rows, columns
	Interleaved bool  `json:"-"` // the sections' pairs alternate (Qwen3-VL)
	HeadNorms   bool  `json:"-"` // queries and keys are normalised, head by head (Qwen3-VL)
	Gated       bool  `json:"-"` // attention has a gate of queries' width, and norms' weights lack 1 (Qwen3.5)
}

// TowerConfig is the vision tower's.
type TowerConfig struct {
	Layers    int     `json:"depth"`
	Width     int     `json:"hidden_size"`
	Inner     int     `json:"intermediate_size"`
	Heads     int     `json:"num_heads"`
	Out       int     `json:"out_hidden_size"`
	Patch     int     `json:"patch_size"`
	Merge     int     `json:"spatial_merge_size"`
	Frames    int     `json:"temporal_patch_size"`
	Channels  int     `json:"in_channels"`
	Window    int     `json:"window_size"`           // in pixels; 0: every layer sees a frame
	Whole     []int   `json:"fullatt_block_indexes"` // layers that see a whole frame
	PerSecond float64 `json:"tokens_per_second"`
	Act       string  `json:"hidden_act"`
	Embed     int     `json:"embed_dim"`               // Qwen2-VL: Width, and hidden_size is Out
	Ratio     float64 `json:"mlp_ratio"`               // Qwen2-VL: Inner / Width
	Side      int     `json:"num_position_embeddings"` // Qwen3-VL: rows of its table, a square number
	Deep      []int   `json:"deepstack_visual_indexes"`
}

// ReadConfig reads a folder's config.json.
func ReadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, "config.json")
	data, err := hub.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	return readConfig(path, data)
}

func readConfig(path string, data []byte) (Config, error) {
	var said struct {
		Classes   []string `json:"architectures"`
		Kind      string   `json:"model_type"`
		Quantised any      `json:"quantization_config"`
		Text      struct {
			Tied *bool `json:"tie_word_embeddings"`
		} `json:"text_config"`
		Vision struct {
			Channels *int `json:"in_chans"`
		} `json:"vision_config"`
		Tied *bool `json:"tie_word_embeddings"`
	}
	if err := hub.Decode(path, data, &said); err != nil {
		return Config{}, err
	}
	family, ok := familyOf(said.Kind, said.Classes)
	switch {
	case !ok:
		return Config{}, fmt.Errorf("%s: model_type %q, architectures %q: %s are known", path, said.Kind, said.Classes, knownFamilies())
	case said.Quantised != nil:
		return Config{}, fmt.Errorf("%s: weights that are quantised (quantization_config) are not known: use the unquantised folder", path)
	}
	c := family.defaults()
	for _, into := range []any{&c.Text, &c} { // flat keys, then nested ones
		if err := hub.Decode(path, data, into); err != nil {
			return Config{}, err
		}
	}
	if said.Vision.Channels != nil {
		c.Vision.Channels = *said.Vision.Channels
	}
	if said.Tied == nil && said.Text.Tied != nil {
		c.Tied = *said.Text.Tied
	}
	c.settle()
	if err := c.check(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// settle derives missing settings from others.
func (c *Config) settle() {
	t, v := &c.Text, &c.Vision
	t.settleRope()
	t.Interleaved, t.HeadNorms, t.Gated = c.Family.third(), c.Family.third(), c.Family == FamilyQwen35
	t.settleDelta()
	t.settleExperts(c.Family)
	if t.HeadDim == 0 && t.Heads > 0 {
		t.HeadDim = t.Width / t.Heads
	}
	if c.Family == FamilyQwen2VL {
		v.Out, v.Width = v.Width, v.Embed
		if inner := v.Ratio * float64(v.Width); inner >= 1 && inner <= maxWidth {
			v.Inner = int(inner)
		}
	}
	if c.Family != FamilyQwen25VL {
		v.Window, v.Whole, v.PerSecond = 0, nil, 0
	}
	if !c.Family.third() {
		v.Side = 0
	}
	if !c.Family.deep() {
		v.Deep = nil
	}
}

// maxWidth is more than any layer has.
const maxWidth = 1 << 18

// Acts of towers.
var towerActs = [...]string{FamilyQwen2VL: "quick_gelu", FamilyQwen25VL: "silu", FamilyQwen3VL: "gelu_pytorch_tanh", FamilyQwen35: "gelu_pytorch_tanh", FamilyQwen3VLMoE: "gelu_pytorch_tanh"}

func (c Config) check() error {
	var l hub.Limits
	t, v := c.Text, c.Vision
	l.Int("vocab_size", t.Vocabulary, 1, 1<<22)
	l.Int("hidden_size", t.Width, 1, 1<<16)
	l.Int("intermediate_size", t.Inner, 1, maxWidth)
	l.Int("num_hidden_layers", t.Layers, 1, 512)
	l.Int("num_attention_heads", t.Heads, 1, 512)
	l.Int("num_key_value_heads", t.KVHeads, 1, 512)
	l.Int("head_dim", t.HeadDim, 2, 1024)
	l.Float("rms_norm_eps", float64(t.Eps), 0, 1)
	t.checkRope(&l)
	l.Int("vision_config.depth", v.Layers, 1, 512)
	l.Int("vision_config.hidden_size", v.Width, 1, 1<<16)
	l.Int("vision_config.intermediate_size", v.Inner, 1, maxWidth)
	l.Int("vision_config.num_heads", v.Heads, 1, 512)
	l.Int("vision_config.patch_size", v.Patch, 1, 256)
	l.Int("vision_config.spatial_merge_size", v.Merge, 1, 16)
	l.Int("vision_config.temporal_patch_size", v.Frames, 1, 16)
	l.Int("vision_config.in_channels", v.Channels, 1, 64)
	l.Int("vision_config.window_size", v.Window, 0, 1<<16)
	l.Int("vision_config.num_position_embeddings", v.Side, 0, 1<<14)
	l.Float("vision_config.tokens_per_second", v.PerSecond, 0, 1e6)
	for _, id := range []int32{c.Picture, c.Clip} {
		l.Must(id >= 0 && int(id) < t.Vocabulary, `"image_token_id" %d and "video_token_id" %d are not both below "vocab_size" %d`, c.Picture, c.Clip, t.Vocabulary)
	}
	l.Must(c.Picture != c.Clip, `"image_token_id" and "video_token_id" are both %d`, c.Clip)
	l.Must(t.Act == "silu", `"hidden_act" is %q; "silu" is known`, t.Act)
	l.Must(v.Act == towerActs[c.Family], `"vision_config.hidden_act" is %q; %q is known of %v`, v.Act, towerActs[c.Family], c.Family)
	l.Must(!t.Sliding, `"use_sliding_window" is true; attention to all that came before is known`)
	l.Must(t.Bias == nil || !*t.Bias || !c.Family.third(), `"attention_bias" is true; %v without is known`, c.Family)
	for _, r := range []*rope{t.Scaling, t.Parameters} {
		l.Must(r == nil || r.Interleaved == nil || *r.Interleaved == t.Interleaved, `"mrope_interleaved" does not fit %v`, c.Family)
	}
	if err := l.Err(); err != nil {
		return err
	}
	t.checkDelta(&l)
	t.checkExperts(&l)
	l.Must(t.Heads%t.KVHeads == 0, `%d heads and %d of keys do not divide`, t.Heads, t.KVHeads)
	l.Must(v.Width%(4*v.Heads) == 0, `"vision_config.hidden_size" %d is not %d heads of a multiple of 4`, v.Width, v.Heads)
	l.Must(v.Out == t.Width, `the tower's states have %d numbers, the language model's "hidden_size" is %d`, v.Out, t.Width)
	l.Must(c.Family != FamilyQwen25VL || v.Window/v.Merge/v.Patch > 0, `"vision_config.window_size" %d holds no cell`, v.Window)
	pairs := 0
	for _, n := range t.Sections {
		l.Must(n >= 0 && n <= t.HeadDim, `"mrope_section" holds %d`, n)
		pairs += n
	}
	l.Must(len(t.Sections) == 3 && (2*pairs == t.turning() || t.Interleaved && t.turning()%2 == 0), `"mrope_section" %v does not divide heads that turn by %d`, t.Sections, t.turning())
	for name, list := range map[string][]int{"fullatt_block_indexes": v.Whole, "deepstack_visual_indexes": v.Deep} {
		for _, i := range list {
			l.Must(i >= 0 && i < v.Layers, `%q names layer %d of %d`, name, i, v.Layers)
		}
	}
	l.Must(!c.Family.third() || v.side()*v.side() == v.Side && v.Side > 0, `"num_position_embeddings" %d is not a square number`, v.Side)
	return l.Err()
}

func (v TowerConfig) whole(layer int) bool { return v.Window == 0 || slices.Contains(v.Whole, layer) }

// side is that of the square table of positions.
func (v TowerConfig) side() int {
	n := 0
	for (n+1)*(n+1) <= v.Side {
		n++
	}
	return n
}

// Rule is how the model counts positions. Behind a clip the original code is followed, which the
// published weights were trained with.
func (c Config) Rule() PositionRule {
	return PositionRule{Merge: c.Vision.Merge, PerSecond: c.Vision.PerSecond, ByFrame: c.Family.third(), Largest: true}
}

// A Family is one of the published architectures.
type Family int

const (
	FamilyQwen2VL Family = iota
	FamilyQwen25VL
	FamilyQwen3VL
	FamilyQwen35
	FamilyQwen3VLMoE
)

// families are the names of config.json: of the class, and of model_type.
var families = [...]struct{ class, kind string }{
	FamilyQwen2VL:    {"Qwen2VLForConditionalGeneration", "qwen2_vl"},
	FamilyQwen25VL:   {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl"},
	FamilyQwen3VL:    {"Qwen3VLForConditionalGeneration", "qwen3_vl"},
	FamilyQwen35:     {"Qwen3_5ForConditionalGeneration", "qwen3_5"},
	FamilyQwen3VLMoE: {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe"},
}

func (f Family) String() string {
	if f < 0 || int(f) >= len(families) {
		return fmt.Sprintf("family %d", int(f))
	}
	return families[f].kind
}

// third says that a family has Qwen3's language model and tower.
func (f Family) third() bool { return f.deep() || f == FamilyQwen35 }

// deep says that states of lower layers of the tower are added, too.
func (f Family) deep() bool { return f == FamilyQwen3VL || f == FamilyQwen3VLMoE }

// familyOf finds the family that a config.json names.
func familyOf(kind string, classes []string) (Family, bool) {
	for f, n := range families {
		if kind == n.kind {
			return Family(f), true
		}
	}
	for _, c := range classes {
		for f, n := range families {
			if c == n.class {
				return Family(f), true
			}
		}
	}
	return 0, false
}

// defaults are the reference's values for missing settings.
func (f Family) defaults() Config {
	c := Config{Family: f, Picture: 151655, Clip: 151656, Begin: 151652, End: 151653}
	c.Text = TextConfig{Eps: 1e-6, Act: "silu", Theta: 1e6}
	c.Vision = TowerConfig{Patch: 14, Merge: 2, Frames: 2, Channels: 3, Heads: 16}
	v := &c.Vision
	switch f {
	case FamilyQwen2VL:
		v.Layers, v.Act, v.Embed, v.Ratio = 32, "quick_gelu", 1280, 4
	case FamilyQwen25VL:
		v.Layers, v.Act, v.Inner, v.Window, v.PerSecond = 32, "silu", 3420, 112, 4
		v.Whole = []int{7, 15, 23, 31}
	case FamilyQwen35:
		c.Picture, c.Clip, c.Begin, c.End = 248056, 248057, 248053, 248054
		c.Text.Theta, c.Text.HeadDim, c.Text.Turning = 1e4, 256, 0.25
		c.Text.Taps, c.Text.KeyDim, c.Text.ValueDim, c.Text.KeyHeads, c.Text.ValueHeads = 4, 128, 128, 16, 32
		v.Layers, v.Act, v.Inner, v.Patch, v.Side = 27, "gelu_pytorch_tanh", 4304, 16, 2304
	case FamilyQwen3VL, FamilyQwen3VLMoE:
		c.Text.Experts, c.Text.Chosen, c.Text.ExpertInner, c.Text.SparseStep = 60, 4, 1408, 1
		c.Text.Theta = 5e5
		v.Layers, v.Act, v.Inner, v.Patch, v.Side = 27, "gelu_pytorch_tanh", 4304, 16, 2304
		v.Deep = []int{8, 16, 24}
	}
	return c
}
