package clip

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Card: the layout of open_clip (mlfoundations), which HPSv2 and LAION's own folders have. The networks are CLIP's;
// the differences are names, and
//
//	attn.in_proj_weight   queries, keys and values stacked in one product
//	visual.proj, text_projection   [width, embed_dim]: multiplied from the right
//	text                  pooled at the largest id
//	activation            gelu by erf, or quick_gelu where the settings say so
//
// Towers of other libraries (timm, Hugging Face), residual networks and poolings other than
// the class token's are refused. Held to neural.hpsv2.

// openFile is open_clip_config.json, or a file of open_clip's model_configs.
type openFile struct {
	Model      *openModel     `json:"model_cfg"`
	Preprocess openPreprocess `json:"preprocess_cfg"`
}

type openPreprocess struct {
	Mean          []float32 `json:"mean"`
	Std           []float32 `json:"std"`
	Interpolation string    `json:"interpolation"`
	Resize        string    `json:"resize_mode"`
}

type openModel struct {
	Out       int            `json:"embed_dim"`
	QuickGELU bool           `json:"quick_gelu"`
	Vision    map[string]any `json:"vision_cfg"`
	Text      map[string]any `json:"text_cfg"`
}

// openTower has the settings of either tower.
type openTower struct {
	Side       int     `json:"image_size"`
	Patch      int     `json:"patch_size"`
	HeadWidth  int     `json:"head_width"`
	Positions  int     `json:"context_length"`
	Vocabulary int     `json:"vocab_size"`
	Width      int     `json:"width"`
	Heads      int     `json:"heads"`
	Layers     int     `json:"layers"`
	Ratio      float64 `json:"mlp_ratio"`
}

// harmless settings change no result here.
var harmless = []string{"patch_dropout", "drop_path"}

// usualOnly are settings with the one value that is known.
var usualOnly = map[string]any{"pool_type": "tok", "final_ln_after_pool": false, "attentional_pool": false, "no_ln_pre": false, "pos_embed_type": "learnable",
	"input_patchnorm": false, "global_average_pool": false, "output_tokens": false, "embed_cls": false, "no_causal_mask": false, "text_mask": "first"}

// towerOf reads one tower's settings over the usual ones.
func towerOf(name string, said map[string]any, c openTower) (openTower, error) {
	var l hub.Limits
	known := map[string]any{}
	for key, v := range said {
		usual, listed := usualOnly[key]
		switch {
		case v == nil:
		case key == "pool_type" && name == "text_cfg" && v == "argmax":
		case listed && v == usual:
		case listed:
			l.Must(false, "%s: %q is %v; only %v is known", name, key, v, usual)
		case slices.Contains(harmless, key):
		default:
			known[key] = v
		}
	}
	for key := range known {
		if !slices.Contains([]string{"image_size", "patch_size", "head_width", "context_length", "vocab_size", "width", "heads", "layers", "mlp_ratio"}, key) {
			l.Must(false, "%s: %q is a setting of networks that are not known", name, key)
		}
	}
	if err := l.Err(); err != nil {
		return c, err
	}
	raw, err := json.Marshal(known)
	if err != nil {
		return c, err
	}
	if err := hub.Decode(name, raw, &c); err != nil {
		return c, err
	}
	return c, nil
}

func (t openTower) encoder(heads int, act string, out int) (Encoder, error) {
	if !(t.Ratio > 0 && t.Ratio <= 64) {
		return Encoder{}, fmt.Errorf("config.json: \"mlp_ratio\" is %v; it must lie between 0 and 64", t.Ratio)
	}
	if t.Width < 1 || t.Width > 1<<14 {
		return Encoder{}, fmt.Errorf("config.json: \"width\" is %d; it must lie between 1 and %d", t.Width, 1<<14)
	}
	return Encoder{Width: t.Width, Inner: int(math.Floor(float64(t.Width) * t.Ratio)), Layers: t.Layers, Heads: heads, Act: act, Eps: 1e-5, Out: out}, nil
}

// openSettings finds a folder's open_clip settings.
func openSettings(dir string) (path string, ok bool) {
	path = filepath.Join(dir, "open_clip_config.json")
	_, err := os.Stat(path)
	return path, err == nil
}

// ReadOpenConfig reads open_clip_config.json.
func ReadOpenConfig(dir string) (Config, error) {
	c, _, err := readOpen(dir)
	return c, err
}

func readOpen(dir string) (c Config, p openPreprocess, err error) {
	path, _ := openSettings(dir)
	var f openFile
	if err = hub.JSON(path, &f); err != nil {
		return c, p, err
	}
	if f.Model == nil || f.Model.Vision == nil || f.Model.Text == nil {
		return c, p, fmt.Errorf("%s: it has no model_cfg with vision_cfg and text_cfg", path)
	}
	if c, err = f.Model.config(); err != nil {
		return c, p, fmt.Errorf("%s: %w", path, err)
	}
	return c, f.Preprocess, nil
}

func (m *openModel) config() (c Config, err error) {
	v, err := towerOf("vision_cfg", m.Vision, openTower{Side: 224, Patch: 16, HeadWidth: 64, Width: 768, Layers: 12, Ratio: 4})
	if err != nil {
		return c, err
	}
	t, err := towerOf("text_cfg", m.Text, openTower{Positions: 77, Vocabulary: 49408, Width: 512, Heads: 8, Layers: 12, Ratio: 4})
	if err != nil {
		return c, err
	}
	act := "gelu"
	if m.QuickGELU {
		act = "quick_gelu"
	}
	if v.HeadWidth < 1 {
		return c, fmt.Errorf("config.json: \"head_width\" is %d; it must be at least 1", v.HeadWidth)
	}
	c = Config{Out: m.Out, Vision: VisionConfig{Side: v.Side, Patch: v.Patch, Channels: 3}, Text: TextConfig{Vocabulary: t.Vocabulary, Positions: t.Positions, End: 2}}
	if c.Vision.Encoder, err = v.encoder(v.Width/v.HeadWidth, act, m.Out); err != nil {
		return c, err
	}
	if c.Text.Encoder, err = t.encoder(t.Heads, act, m.Out); err != nil {
		return c, err
	}
	if err := c.Text.check(); err != nil {
		return c, err
	}
	return c, c.Vision.check()
}

// newOpen asks p for the towers by the names of open_clip; without texts, for that of pictures alone.
func newOpen(p *nn.Params, c Config, texts bool) *Model {
	m := &Model{Vision: newOpenVision(p.Sub("visual"), c)}
	if !texts {
		p.Ignore("(?:text|transformer|token_embedding|ln_final)\\..*", "positional_embedding", "text_projection", "logit_scale", "attn_mask")
		return m
	}
	m.Text, m.scale = newOpenText(p, c), p.Vector("logit_scale")
	return m
}

func newOpenText(p *nn.Params, c Config) *Text {
	if p.Has("text.token_embedding.weight") { // custom_text
		p = p.Sub("text")
	}
	p.Ignore("attn_mask")
	w := c.Text.Width
	return &Text{TextConfig: c.Text, tokens: p.Embedding("token_embedding", c.Text.Vocabulary, w), positions: p.Vector("positional_embedding", c.Text.Positions, w),
		layers: newOpenLayers(p, c.Text.Encoder), final: p.LayerNorm("ln_final", w, c.Text.Eps),
		projection: p.LinearAs(nn.Stored{Weight: "text_projection", In: w, Out: c.Out, Right: true})}
}

func newOpenVision(p *nn.Params, c Config) *Vision {
	w, grid := c.Vision.Width, c.Vision.Side/c.Vision.Patch
	return &Vision{VisionConfig: c.Vision, class: p.Vector("class_embedding", w), patch: p.Conv("conv1", nn.Square(3, w, c.Vision.Patch, c.Vision.Patch, 0), false),
		positions: p.Vector("positional_embedding", grid*grid+1, w), pre: p.LayerNorm("ln_pre", w, c.Vision.Eps), layers: newOpenLayers(p, c.Vision.Encoder),
		post: p.LayerNorm("ln_post", w, c.Vision.Eps), projection: p.LinearAs(nn.Stored{Weight: "proj", In: w, Out: c.Out, Right: true})}
}

func newOpenLayers(p *nn.Params, c Encoder) []*layer {
	layers := make([]*layer, c.Layers)
	for i := range layers {
		l := p.At("transformer.resblocks", i)
		w := c.Width
		layers[i] = &layer{
			before: l.LayerNorm("ln_1", w, c.Eps), between: l.LayerNorm("ln_2", w, c.Eps),
			attention: &stacked{heads: c.Heads, in: l.LinearAs(nn.Stored{Weight: "attn.in_proj_weight", Bias: "attn.in_proj_bias", In: w, Out: 3 * w}),
				out: l.Linear("attn.out_proj", w, w, true)},
			mlp: &nn.MLP{Up: l.Linear("mlp.c_fc", w, c.Inner, true), Down: l.Linear("mlp.c_proj", c.Inner, w, true), Act: activations[c.Act]},
		}
	}
	return layers
}

// stacked is attention to itself whose three operands are one product.
type stacked struct {
	heads   int
	in, out *nn.Linear
}

// Apply attends; the context is x.
func (s *stacked) Apply(tp *autograd.Tape, x, _ *autograd.Value, at autograd.Attend, o autograd.With) *autograd.Value {
	wide := s.in.Apply(tp, x, autograd.With{})
	qkv := tp.Chunk(wide, 3)
	at.Heads = s.heads
	h := tp.Attention(qkv[0], qkv[1], qkv[2], at)
	tp.Release(append(qkv, wide)...)
	y := s.out.Apply(tp, h, o)
	tp.Release(h)
	return y
}
