package pretrain

import (
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// pair is both towers and the head.
type pair struct {
	*clip.Model
	tokens       *tokenizer.Tokenizer
	length       int
	head         *nn.Linear
	params       []*nn.Params // the towers', the head's
	preprocessor vision.Preprocess
}

func (t *Towers) settings(vocabulary int) map[string]any {
	m := t.Model
	encoder := func(width, layers int) map[string]any {
		return map[string]any{"hidden_act": "gelu", "hidden_size": width, "intermediate_size": 4 * width, "projection_dim": m.Out,
			"num_hidden_layers": layers, "num_attention_heads": width / m.HeadWidth, "layer_norm_eps": 1e-5}
	}
	text, pictures := encoder(m.TextWidth, m.TextLayers), encoder(m.VisionWidth, m.VisionLayers)
	text["model_type"], text["max_position_embeddings"], text["vocab_size"] = "clip_text_model", m.Tokens, vocabulary
	text["bos_token_id"], text["eos_token_id"], text["pad_token_id"] = vocabulary-2, vocabulary-1, vocabulary-1
	pictures["model_type"], pictures["image_size"], pictures["patch_size"], pictures["num_channels"] = "clip_vision_model", scenes.Size, m.Patch, 3
	return map[string]any{"architectures": []string{"CLIPModel"}, "model_type": "clip", "projection_dim": m.Out, "logit_scale_init_value": portable.Log(1 / 0.07),
		"text_config": text, "vision_config": pictures}
}

// writeFrame writes what the folder has beside weights.
func (t *Towers) writeFrame(dir string) error {
	if err := writeTokenizer(dir, t.Model.Tokens, captionWords()); err != nil {
		return err
	}
	k, err := tokenizer.Open(dir)
	if err != nil {
		return err
	}
	p := vision.CLIPPillow(scenes.Size)
	if err := writeJSON(filepath.Join(dir, "preprocessor_config.json"), map[string]any{
		"image_processor_type": "CLIPImageProcessor", "do_resize": true, "size": map[string]int{"shortest_edge": p.Size}, "resample": 3,
		"do_center_crop": true, "crop_size": map[string]int{"height": p.Size, "width": p.Size}, "do_rescale": true, "rescale_factor": 1.0 / 255,
		"do_normalize": true, "image_mean": p.Mean, "image_std": p.Std, "do_convert_rgb": true}); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "config.json"), t.settings(k.Size()))
}

// openTowers opens a folder's towers and head; without a key they are read and stay as they are,
// in fp32; with one they are drawn and trained.
func openTowers(dir string, pool *tensor.Pool, key *rng.Key) (*pair, error) {
	c, err := clip.ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	k, err := tokenizer.Open(dir)
	if err != nil {
		return nil, err
	}
	g := &pair{tokens: k, length: c.Text.Positions, preprocessor: vision.CLIPPillow(c.Vision.Side)}
	for _, name := range []string{"model.safetensors", HeadFile} {
		o := nn.Options{Pool: pool, Math: kernels.MathF32}
		if key != nil {
			o.Math, o.Key, o.Train = kernels.MathBF16, key.With(rng.Purpose(name)), []string{".*"}
		} else {
			f, err := safetensors.Open(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			defer f.Close()
			o.Source = f
		}
		p, err := nn.New(o)
		if err != nil {
			return nil, err
		}
		g.params = append(g.params, p)
	}
	g.Model, g.head = clip.New(g.params[0], c), g.params[1].Linear("layers.0", c.Out, 1, true)
	for _, p := range g.params {
		if err := p.Check(); err != nil {
			return nil, err
		}
	}
	if key == nil {
		return g, nil
	}
	scaled := func(by float32) func(x []float32) {
		return func(x []float32) {
			for i := range x {
				x[i] *= by
			}
		}
	}
	for name, f := range map[string]func(x []float32){
		"text_model.embeddings.token_embedding.weight": scaled(0.02), "text_model.embeddings.position_embedding.weight": scaled(0.02),
		"vision_model.embeddings.position_embedding.weight": scaled(0.02), "vision_model.embeddings.class_embedding": scaled(0.02),
		"logit_scale": func(x []float32) { x[0] = float32(portable.Log(1 / 0.07)) },
	} {
		if err := g.params[0].Set(name, f); err != nil {
			return nil, err
		}
	}
	// Parts of unit vectors are small; the head's weights are large for it.
	return g, g.params[1].Set("layers.0.weight", scaled(8))
}

func (g *pair) free() {
	for _, p := range g.params {
		p.Free()
	}
}

// save writes both files in bf16.
func (g *pair) save(dir string) error {
	for i, name := range []string{"model.safetensors", HeadFile} {
		if err := saveHalved(filepath.Join(dir, name), g.params[i]); err != nil {
			return err
		}
	}
	return nil
}

// groups are what Muon moves, and what AdamW moves.
func (g *pair) groups(muon float64) []optim.Group {
	return groupsOf(slices.Concat(g.params[0].Trained(), g.params[1].Trained()), muon, "embed", "projection", "layers.0.", "logit_scale")
}

// embedPictures and embedCaptions put both into the common space.
func (g *pair) embedPictures(tp *autograd.Tape, list [][]uint8) *autograd.Value {
	var x []float32
	for _, px := range list {
		var err error
		if x, err = g.preprocessor.Apply(x, &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: px}, vision.ChannelsLast); err != nil {
			panic(err) // pictures are all of one size
		}
	}
	return g.Vision.Forward(tp, tp.Upload("pictures", x, len(list), scenes.Size, scenes.Size, 3)).Projected
}

// fixed is a caption of exactly n ids. Captions and their tokenizer are of our making: one that cannot be
// encoded is a mistake in this package.
func fixed(t *tokenizer.Tokenizer, caption string, n int, pad int32) []int32 {
	ids, _, err := t.Fixed(caption, n, pad)
	if err != nil {
		panic(err)
	}
	return ids
}

func (g *pair) embedCaptions(tp *autograd.Tape, list []string) *autograd.Value {
	ids := make([][]int32, len(list))
	end, _ := g.tokens.ID(endToken)
	for i, c := range list {
		ids[i] = fixed(g.tokens, c, g.length, end)
	}
	return g.Text.Forward(tp, ids).Projected
}
