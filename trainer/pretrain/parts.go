package pretrain

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// A part of a pipeline is written as its settings and a file of weights.
type part struct {
	folder, base string
	settings     map[string]any
}

// upstream is the version of the libraries whose layout is written.
const upstream = "0.35.0"

func (r *Pipeline) latentSide() int { return scenes.Size >> (len(r.VAE.Channels) - 1) }

func (r *Pipeline) vaePart() part {
	down, up := make([]string, len(r.VAE.Channels)), make([]string, len(r.VAE.Channels))
	for i := range down {
		down[i], up[i] = "DownEncoderBlock2D", "UpDecoderBlock2D"
	}
	return part{"vae", "diffusion_pytorch_model", map[string]any{
		"_class_name": "AutoencoderKL", "_diffusers_version": upstream, "act_fn": "silu", "block_out_channels": r.VAE.Channels,
		"down_block_types": down, "up_block_types": up, "force_upcast": true, "in_channels": 3, "out_channels": 3,
		"latent_channels": r.VAE.Latent, "layers_per_block": 1, "mid_block_add_attention": true, "norm_num_groups": 8,
		"sample_size": scenes.Size, "scaling_factor": 1.0, "shift_factor": 0.0, "use_quant_conv": false, "use_post_quant_conv": false}}
}

func (r *Pipeline) textPart(i, vocabulary int) part {
	folder := [2]string{"text_encoder", "text_encoder_2"}[i]
	return part{folder, "model", map[string]any{
		"architectures": []string{"CLIPTextModelWithProjection"}, "model_type": "clip_text_model", "hidden_act": [2]string{"quick_gelu", "gelu"}[i],
		"hidden_size": r.Model.TextWidth, "intermediate_size": 4 * r.Model.TextWidth, "projection_dim": r.Model.TextWidth,
		"num_hidden_layers": r.Model.TextLayers, "num_attention_heads": max(1, r.Model.TextWidth/64), "max_position_embeddings": r.Model.Tokens,
		"layer_norm_eps": 1e-5, "vocab_size": vocabulary, "bos_token_id": vocabulary - 2, "eos_token_id": vocabulary - 1, "pad_token_id": vocabulary - 1}}
}

func (r *Pipeline) transformerPart() part {
	settings := map[string]any{
		"_class_name": "SD3Transformer2DModel", "_diffusers_version": upstream, "attention_head_dim": 64, "num_attention_heads": r.Model.Heads,
		"caption_projection_dim": 64 * r.Model.Heads, "joint_attention_dim": 2 * r.Model.TextWidth, "pooled_projection_dim": 2 * r.Model.TextWidth,
		"in_channels": r.VAE.Latent, "out_channels": r.VAE.Latent, "num_layers": r.Model.Layers, "patch_size": 2,
		"pos_embed_max_size": r.latentSide(), "sample_size": r.latentSide(), "dual_attention_layers": []int{}, "qk_norm": nil}
	if r.Model.QKNorm {
		settings["qk_norm"] = "rms_norm"
	}
	return part{"transformer", "diffusion_pytorch_model", settings}
}

// writeFrame writes a pipeline's files beside weights.
func (r *Pipeline) writeFrame(dir string) error {
	for _, t := range []string{"tokenizer", "tokenizer_2"} {
		if err := writeTokenizer(filepath.Join(dir, t), r.Model.Tokens, captionWords()); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "scheduler"), 0o755); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(dir, "scheduler", "scheduler_config.json"), map[string]any{
		"_class_name": "FlowMatchEulerDiscreteScheduler", "_diffusers_version": upstream, "num_train_timesteps": 1000, "shift": r.Flow.Shift,
		"use_dynamic_shifting": false}); err != nil {
		return err
	}
	none := []any{nil, nil}
	return writeJSON(filepath.Join(dir, "model_index.json"), map[string]any{
		"_class_name": "StableDiffusion3Pipeline", "_diffusers_version": upstream,
		"scheduler": []any{"diffusers", "FlowMatchEulerDiscreteScheduler"}, "transformer": []any{"diffusers", "SD3Transformer2DModel"},
		"vae": []any{"diffusers", "AutoencoderKL"}, "text_encoder": []any{"transformers", "CLIPTextModelWithProjection"},
		"text_encoder_2": []any{"transformers", "CLIPTextModelWithProjection"}, "text_encoder_3": none,
		"tokenizer": []any{"transformers", "CLIPTokenizer"}, "tokenizer_2": []any{"transformers", "CLIPTokenizer"}, "tokenizer_3": none,
		"image_encoder": none, "feature_extractor": none,
		"_darkroom_text_length": 0, // in diffusers: max_sequence_length=0
	})
}

// save writes a part: settings, and weights in bf16.
func (p part) save(dir string, params *nn.Params) error {
	folder := filepath.Join(dir, p.folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(folder, "config.json"), p.settings); err != nil {
		return err
	}
	return saveHalved(filepath.Join(folder, p.base+".safetensors"), params)
}

// saveHalved writes parameters in bf16.
func saveHalved(path string, params *nn.Params) error {
	all, err := params.Stored()
	if err != nil {
		return err
	}
	for i := range all {
		if all[i], err = all[i].Halved(); err != nil {
			return err
		}
	}
	return safetensors.Write(path, all, map[string]string{"format": "pt"})
}

// maker opens parts: drawn, or read from a folder where they were saved.
type maker struct {
	dir  string
	pool *tensor.Pool
	key  rng.Key
}

// open begins a part's parameters. Without train, weights are frozen.
func (m maker) open(p part, drawn bool, train ...string) (*nn.Params, func(), error) {
	o := nn.Options{Pool: m.pool, Math: kernels.MathBF16, Key: m.key.With(rng.Purpose(p.folder)), Train: train}
	release := func() {}
	if !drawn {
		f, err := safetensors.Open(filepath.Join(m.dir, p.folder, p.base+".safetensors"))
		if err != nil {
			return nil, nil, err
		}
		o.Source, release = f, func() { f.Close() }
	}
	params, err := nn.New(o)
	return params, release, err
}

// autoencoder opens the VAE.
func (m maker) autoencoder(r *Pipeline, drawn bool, train ...string) (*vae.KL, *nn.Params, error) {
	p := r.vaePart()
	if drawn {
		if err := (part{folder: p.folder, settings: p.settings}).frame(m.dir); err != nil {
			return nil, nil, err
		}
	}
	return m.readAutoencoder(p, drawn, train...)
}

// saved opens a folder's frozen autoencoder.
func (m maker) saved() (*vae.KL, *nn.Params, error) {
	return m.readAutoencoder(part{folder: "vae", base: "diffusion_pytorch_model"}, false)
}

func (m maker) readAutoencoder(p part, drawn bool, train ...string) (*vae.KL, *nn.Params, error) {
	c, err := vae.ReadConfig(filepath.Join(m.dir, p.folder))
	if err != nil {
		return nil, nil, err
	}
	params, release, err := m.open(p, drawn, train...)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	v := vae.New(params, c)
	return v, params, params.Check()
}

// frame writes a part's settings alone, so that drawn models are made by the code that reads
// folders.
func (p part) frame(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, p.folder), 0o755); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, p.folder, "config.json"), p.settings)
}

// painter turns captions into velocities.
type painter struct {
	tokens      *tokenizer.Tokenizer
	text        [2]*clip.Text
	transformer *mmdit.Model
	parts       [3]part
	params      [3]*nn.Params
	release     [3]func() // closes the files that parameters came from
	length      int
}

// painter draws text encoders and the transformer, or reads those that were saved.
func (m maker) painter(r *Pipeline, drawn bool) (*painter, error) {
	t, err := tokenizer.Open(filepath.Join(m.dir, "tokenizer"))
	if err != nil {
		return nil, err
	}
	g := &painter{tokens: t, length: r.Model.Tokens}
	open := func(i int) error {
		p, release, err := m.open(g.parts[i], drawn, ".*")
		if err != nil {
			return err
		}
		g.params[i], g.release[i] = p, release
		return nil
	}
	for i := range g.text {
		g.parts[i] = r.textPart(i, t.Size())
		if err := g.parts[i].frame(m.dir); err != nil {
			return nil, err
		}
		c, err := clip.ReadTextConfig(filepath.Join(m.dir, g.parts[i].folder))
		if err != nil {
			return nil, err
		}
		if err := open(i); err != nil {
			return nil, err
		}
		g.text[i] = clip.NewText(g.params[i], c, true)
		if err := g.params[i].Check(); err != nil {
			return nil, err
		}
	}
	g.parts[2] = r.transformerPart()
	if err := g.parts[2].frame(m.dir); err != nil {
		return nil, err
	}
	c, err := mmdit.ReadConfig(filepath.Join(m.dir, g.parts[2].folder))
	if err != nil {
		return nil, err
	}
	if err := open(2); err != nil {
		return nil, err
	}
	g.transformer = mmdit.New(g.params[2], c)
	if err := g.params[2].Check(); err != nil {
		return nil, err
	}
	if !drawn {
		return g, nil
	}
	// Embeddings begin small, as CLIP's do.
	for _, p := range g.params[:len(g.text)] {
		if err := shrunk(p); err != nil {
			return nil, err
		}
	}
	return g, zero(g.params[2], r.Model.Zero)
}

// shrunk makes a drawn CLIP's embeddings small.
func shrunk(text *nn.Params) error {
	for _, name := range []string{"token_embedding", "position_embedding"} {
		if err := text.Set("text_model.embeddings."+name+".weight", func(x []float32) {
			for j := range x {
				x[j] *= 0.02
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// zero makes parameters of a transformer that match begin as zeros.
func zero(params *nn.Params, patterns []string) error {
	for _, pattern := range patterns {
		re, err := regexp.Compile("^(?:" + pattern + ")$")
		if err != nil {
			return fmt.Errorf("model.zero: %w", err)
		}
		matched := false
		for _, p := range params.All() {
			if re.MatchString(p.Name) {
				matched = true
				p.Value.Pool().Backend().Fill(p.Value.Span(), 0)
				p.Updated()
			}
		}
		if !matched {
			return fmt.Errorf("model.zero: %q matches no parameter of the transformer", pattern)
		}
	}
	return nil
}

func (g *painter) save(dir string) error {
	for i, p := range g.parts {
		if err := p.save(dir, g.params[i]); err != nil {
			return err
		}
	}
	return nil
}
