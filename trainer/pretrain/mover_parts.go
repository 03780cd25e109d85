package pretrain

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/video/dit"
	clips "github.com/darkroom-rl/darkroom/video/vae"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// The parts of a WanPipeline.

type clipVAE = *clips.Model

// latentShape is [frames, rows, columns, channels] of a clip's latents.
func (r *WanRecipe) latentShape() []int {
	side := moving.Size / r.VAE.factor()
	return []int{1 + (moving.Frames-1)/r.VAE.frames(), side, side, r.VAE.Latent}
}

// frames is how many frames one of latents stands for, but the first.
func (v WanVAE) frames() int {
	n := 1
	for _, h := range v.Halves {
		if h {
			n *= 2
		}
	}
	return n
}

// factor is how many pixels a side of a latent covers.
func (v WanVAE) factor() int { return v.Patch << (len(v.Times) - 1) }

func (r *WanRecipe) vaePart() part {
	ones, zeros := make([]float32, r.VAE.Latent), make([]float32, r.VAE.Latent)
	for i := range ones {
		ones[i] = 1
	}
	return part{"vae", "diffusion_pytorch_model", map[string]any{
		"_class_name": "AutoencoderKLWan", "_diffusers_version": upstream, "base_dim": r.VAE.Base, "dim_mult": r.VAE.Times,
		"temperal_downsample": append([]bool{}, r.VAE.Halves...), "z_dim": r.VAE.Latent, "num_res_blocks": 1, "attn_scales": []float64{}, "dropout": 0.0,
		"in_channels": 3 * r.VAE.Patch * r.VAE.Patch, "out_channels": 3 * r.VAE.Patch * r.VAE.Patch, "patch_size": r.VAE.Patch, "is_residual": false, "latents_mean": zeros, "latents_std": ones,
		"scale_factor_spatial": r.VAE.factor(), "scale_factor_temporal": (moving.Frames - 1) / (r.latentShape()[0] - 1)}}
}

func (r *WanRecipe) textPart(vocabulary int) part {
	const head = 16
	return part{"text_encoder", "model", map[string]any{
		"architectures": []string{"UMT5EncoderModel"}, "model_type": "umt5", "d_model": r.Model.TextWidth, "d_ff": 2 * r.Model.TextWidth, "d_kv": head,
		"num_heads": r.Model.TextWidth / head, "num_layers": r.Model.TextLayers, "vocab_size": vocabulary, "feed_forward_proj": "gated-gelu",
		"dense_act_fn": "gelu_new", "is_gated_act": true, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
		"layer_norm_epsilon": 1e-6, "pad_token_id": 0, "eos_token_id": 1}}
}

func (r *WanRecipe) transformerPart() part {
	const head = 32
	in := r.VAE.Latent
	if r.Model.Picture {
		in += r.VAE.frames() + r.VAE.Latent
	}
	return part{"transformer", "diffusion_pytorch_model", map[string]any{
		"_class_name": "WanTransformer3DModel", "_diffusers_version": upstream, "attention_head_dim": head, "num_attention_heads": r.Model.Heads,
		"num_layers": r.Model.Layers, "ffn_dim": 3 * head * r.Model.Heads, "freq_dim": 64, "in_channels": in, "out_channels": r.VAE.Latent,
		"text_dim": r.Model.TextWidth, "patch_size": []int{r.Model.Frames, r.Model.Patch, r.Model.Patch}, "cross_attn_norm": true, "qk_norm": acrossHeads, "eps": 1e-6,
		"rope_max_seq_len": 64, "added_kv_proj_dim": nil, "image_dim": nil, "pos_embed_seq_len": nil}}
}

const acrossHeads = "rms_norm_across_heads"

// writeFrame writes what a pipeline has beside weights.
func (r *WanRecipe) writeFrame(dir string) error {
	words := slices.Concat([]string{"a", "moves", "on"}, moving.Colors, moving.Shapes, moving.Headings, moving.Paces, moving.Backgrounds)
	if err := writeWords(filepath.Join(dir, "tokenizer"), r.Model.Tokens, words); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "scheduler"), 0o755); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(dir, "scheduler", "scheduler_config.json"), map[string]any{
		"_class_name": "UniPCMultistepScheduler", "_diffusers_version": upstream, "num_train_timesteps": 1000, "flow_shift": r.Flow.Shift,
		"prediction_type": "flow_prediction", "use_flow_sigmas": true, "solver_order": 2, "solver_type": "bh2", "predict_x0": true,
		"lower_order_final": true, "final_sigmas_type": "zero"}); err != nil {
		return err
	}
	index := map[string]any{
		"_class_name": "WanPipeline", "_diffusers_version": upstream, "boundary_ratio": nil, "expand_timesteps": false,
		"scheduler": []any{"diffusers", "UniPCMultistepScheduler"}, "transformer": []any{"diffusers", "WanTransformer3DModel"},
		"transformer_2": []any{nil, nil}, "vae": []any{"diffusers", "AutoencoderKLWan"},
		"text_encoder": []any{"transformers", "UMT5EncoderModel"}, "tokenizer": []any{"transformers", "PreTrainedTokenizerFast"},
		"_darkroom_text_length": r.Model.Tokens, // in diffusers: max_sequence_length
	}
	if r.Model.Picture {
		index["_class_name"] = "WanImageToVideoPipeline"
		index["image_encoder"], index["image_processor"] = []any{nil, nil}, []any{nil, nil}
	}
	return writeJSON(filepath.Join(dir, "model_index.json"), index)
}

// writeWords writes a tokenizer of T5's kind whose pieces are words, and letters for all others.
func writeWords(dir string, length int, words []string) error {
	vocabulary := [][]any{{"<pad>", 0.0}, {"</s>", 0.0}, {"<unk>", 0.0}, {"▁", -6.0}}
	for _, w := range words {
		vocabulary = append(vocabulary, []any{"▁" + w, -2.0})
	}
	for c := 'a'; c <= 'z'; c++ {
		vocabulary = append(vocabulary, []any{string(c), -8.0})
	}
	special := func(id int, text string) map[string]any {
		return map[string]any{"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
	}
	space := map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}
	end := map[string]any{"SpecialToken": map[string]any{"id": "</s>", "type_id": 0}}
	text := map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(dir, "tokenizer.json"), map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "pre_tokenizer": space, "decoder": space,
		"added_tokens": []any{special(0, "<pad>"), special(1, "</s>"), special(2, "<unk>")},
		"post_processor": map[string]any{"type": "TemplateProcessing", "single": []any{text, end}, "pair": []any{text, end},
			"special_tokens": map[string]any{"</s>": map[string]any{"id": "</s>", "ids": []int{1}, "tokens": []string{"</s>"}}}},
		"model": map[string]any{"type": "Unigram", "unk_id": 2, "vocab": vocabulary, "byte_fallback": false},
	}); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "tokenizer_config.json"), map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": length,
		"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "clean_up_tokenization_spaces": false})
}

func (r *wanRun) maker() maker { return maker{dir: r.dir, pool: r.pool, key: r.key} }

// openVAE opens the autoencoder.
func (r *wanRun) openVAE(drawn bool, train ...string) (clipVAE, *nn.Params, error) {
	p := r.vaePart()
	if drawn {
		if err := p.frame(r.dir); err != nil {
			return nil, nil, err
		}
	}
	c, err := clips.ReadConfig(filepath.Join(r.dir, p.folder))
	if err != nil {
		return nil, nil, err
	}
	params, release, err := r.maker().open(p, drawn, train...)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	v := clips.New(params, c)
	return v, params, params.Check()
}

// clipPainter is what turns captions into velocities of clips.
type clipPainter struct {
	tokens      *tokenizer.Tokenizer
	text        *t5.Model
	transformer *dit.Model
	parts       [2]part
	params      [2]*nn.Params
	release     [2]func()
	length      int
}

// painter draws the text encoder and the transformer, or opens what was saved.
func (r *wanRun) painter(drawn bool) (*clipPainter, error) {
	t, err := tokenizer.Open(filepath.Join(r.dir, "tokenizer"))
	if err != nil {
		return nil, err
	}
	g := &clipPainter{tokens: t, length: r.Model.Tokens, parts: [2]part{r.textPart(t.Size()), r.transformerPart()}}
	for i, p := range g.parts {
		if err := p.frame(r.dir); err != nil {
			return nil, err
		}
		if g.params[i], g.release[i], err = r.maker().open(p, drawn, ".*"); err != nil {
			return nil, err
		}
	}
	texts, err := t5.ReadConfig(filepath.Join(r.dir, g.parts[0].folder))
	if err != nil {
		return nil, err
	}
	c, err := dit.ReadConfig(filepath.Join(r.dir, g.parts[1].folder))
	if err != nil {
		return nil, err
	}
	g.text, g.transformer = t5.New(g.params[0], texts), dit.New(g.params[1], c)
	for _, p := range g.params {
		if err := p.Check(); err != nil {
			return nil, err
		}
	}
	if !drawn {
		return g, nil
	}
	return g, zero(g.params[1], r.Model.Zero)
}

// velocity is the network's output at latents. Padding's states are zeros, as the pipeline has them.
func (g *clipPainter) velocity(tp *autograd.Tape, latents *autograd.Value, captions []string, times []float32) *autograd.Value {
	ids, lengths := make([][]int32, len(captions)), make([]int32, len(captions))
	width := g.text.Width
	mask := make([]float32, len(captions)*g.length*width)
	for i, c := range captions {
		row, seen, err := g.tokens.Fixed(c, g.length, 0)
		if err != nil {
			panic(err) // captions are of the tokenizer's words
		}
		ids[i], lengths[i] = row, int32(seen)
		for k := range seen * width {
			mask[i*g.length*width+k] = 1
		}
	}
	states := tp.Mul(g.text.Forward(tp, ids, lengths), tp.Upload("texts without padding", mask, len(captions), g.length, width))
	return g.transformer.Forward(tp, dit.Inputs{Latents: latents, Text: states, Time: times})
}

func (g *clipPainter) groups(muon float64) []optim.Group {
	return groupsOf(g.all(), muon, "shared", "relative_attention_bias", "proj_out", "patch_embedding")
}

func (g *clipPainter) all() []*autograd.Param {
	return slices.Concat(g.params[0].Trained(), g.params[1].Trained())
}

func (g *clipPainter) save(dir string) error {
	for i, p := range g.parts {
		if err := p.save(dir, g.params[i]); err != nil {
			return err
		}
	}
	return nil
}

func (g *clipPainter) free() {
	for i, p := range g.params {
		p.Free()
		g.release[i]()
	}
}
