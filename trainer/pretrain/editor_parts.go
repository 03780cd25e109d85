package pretrain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// The parts of a FluxKontextPipeline.

// editWords are the words of edits.
func editWords() []string {
	return slices.Concat(strings.Fields("make remove move the up down left right"), scenes.Colors, scenes.Shapes)
}

func (r *Editor) clipPart(vocabulary int) part {
	return part{"text_encoder", "model", map[string]any{
		"architectures": []string{"CLIPTextModel"}, "model_type": "clip_text_model", "hidden_act": "quick_gelu", "hidden_size": r.Model.TextWidth,
		"intermediate_size": 2 * r.Model.TextWidth, "projection_dim": r.Model.TextWidth, "num_hidden_layers": 2, "num_attention_heads": 1,
		"max_position_embeddings": r.Model.Tokens, "layer_norm_eps": 1e-5, "vocab_size": vocabulary, "bos_token_id": vocabulary - 2,
		"eos_token_id": vocabulary - 1, "pad_token_id": vocabulary - 1}}
}

func (r *Editor) t5Part(vocabulary int) part {
	const head = 16
	return part{"text_encoder_2", "model", map[string]any{
		"architectures": []string{"T5EncoderModel"}, "model_type": "t5", "d_model": r.Model.TextWidth, "d_ff": 2 * r.Model.TextWidth, "d_kv": head,
		"num_heads": r.Model.TextWidth / head, "num_layers": 2, "vocab_size": vocabulary, "feed_forward_proj": "gated-gelu",
		"dense_act_fn": "gelu_new", "is_gated_act": true, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
		"layer_norm_epsilon": 1e-6, "pad_token_id": 0, "eos_token_id": 1}}
}

func (r *Editor) fluxPart() part {
	return part{"transformer", "diffusion_pytorch_model", map[string]any{
		"_class_name": "FluxTransformer2DModel", "_diffusers_version": upstream, "attention_head_dim": 32, "num_attention_heads": r.Model.Heads,
		"axes_dims_rope": []int{8, 12, 12}, "guidance_embeds": false, "in_channels": 4 * r.VAE.Latent, "out_channels": nil, "patch_size": 1,
		"joint_attention_dim": r.Model.TextWidth, "pooled_projection_dim": r.Model.TextWidth, "num_layers": r.Model.Layers, "num_single_layers": r.Model.Single}}
}

// writeFrame writes what a pipeline has beside weights.
func (r *Editor) writeFrame(dir string) error {
	if err := writeTokenizer(filepath.Join(dir, "tokenizer"), r.Model.Tokens, editWords()); err != nil {
		return err
	}
	if err := writeWords(filepath.Join(dir, "tokenizer_2"), r.Model.Tokens, editWords()); err != nil {
		return err
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
		"_class_name": "FluxKontextPipeline", "_diffusers_version": upstream,
		"scheduler": []any{"diffusers", "FlowMatchEulerDiscreteScheduler"}, "transformer": []any{"diffusers", "FluxTransformer2DModel"},
		"vae": []any{"diffusers", "AutoencoderKL"}, "text_encoder": []any{"transformers", "CLIPTextModel"},
		"text_encoder_2": []any{"transformers", "T5EncoderModel"}, "tokenizer": []any{"transformers", "CLIPTokenizer"},
		"tokenizer_2": []any{"transformers", "PreTrainedTokenizerFast"}, "image_encoder": none, "feature_extractor": none,
		"_darkroom_text_length": r.Model.Tokens, // in diffusers: max_sequence_length
		"_darkroom_side":        r.Data.Side,    // in diffusers: height, width, max_area, _auto_resize=False
	})
}

// retoucher is what turns texts and pictures into velocities.
type retoucher struct {
	words       [2]*tokenizer.Tokenizer
	clip        *clip.Text
	t5          *t5.Model
	transformer *flux.Model
	parts       [3]part
	params      [3]*nn.Params
	length      int
	places      [][]float32 // of the tokens of the picture that is made, and of its source
}

// retoucher draws text encoders and the transformer.
func (r *editorRun) retoucher() (*retoucher, error) {
	g := &retoucher{length: r.Editor.Model.Tokens}
	side := r.pairSide() / 2
	g.places = slices.Concat(flux.Grid(0, side, side), flux.Grid(1, side, side))
	for i, name := range []string{"tokenizer", "tokenizer_2"} {
		var err error
		if g.words[i], err = tokenizer.Open(filepath.Join(r.dir, name)); err != nil {
			return nil, err
		}
	}
	g.parts = [3]part{r.clipPart(g.words[0].Size()), r.t5Part(g.words[1].Size()), r.fluxPart()}
	for i, p := range g.parts {
		if err := p.frame(r.dir); err != nil {
			return nil, err
		}
		params, _, err := r.maker().open(p, true, ".*") // drawn: there is no file to close
		if err != nil {
			return nil, err
		}
		g.params[i] = params
	}
	texts, err := clip.ReadTextConfig(filepath.Join(r.dir, g.parts[0].folder))
	if err != nil {
		return nil, err
	}
	states, err := t5.ReadConfig(filepath.Join(r.dir, g.parts[1].folder))
	if err != nil {
		return nil, err
	}
	c, err := flux.ReadConfig(filepath.Join(r.dir, g.parts[2].folder))
	if err != nil {
		return nil, err
	}
	g.clip, g.t5, g.transformer = clip.NewText(g.params[0], texts, false), t5.New(g.params[1], states), flux.New(g.params[2], c)
	for _, p := range g.params {
		if err := p.Check(); err != nil {
			return nil, err
		}
	}
	if err := shrunk(g.params[0]); err != nil {
		return nil, err
	}
	if err := zero(g.params[2], r.Editor.Model.Zero); err != nil || !r.Editor.Model.Copies {
		return g, err
	}
	return g, copies(g.params[2], g.transformer.Config)
}

// velocity is the network's output at latents. T5 sees padding, as upstream has it for FLUX.1.
func (g *retoucher) velocity(tp *autograd.Tape, latents, sources *autograd.Value, texts []string, times []float32) *autograd.Value {
	var ids [2][][]int32
	end, _ := g.words[0].ID(endToken)
	for _, text := range texts {
		for i, pad := range []int32{end, 0} {
			ids[i] = append(ids[i], fixed(g.words[i], text, g.length, pad))
		}
	}
	return g.transformer.Forward(tp, flux.Inputs{Latents: latents, Sources: sources, Text: g.t5.Forward(tp, ids[1], nil),
		Pooled: g.clip.Forward(tp, ids[0]).Pooled, Time: times, Places: g.places, TextPlaces: flux.Nowhere(g.length)})
}

// groups leave the last matrix to AdamW, and other layers' proj_out to Muon.
func (g *retoucher) groups(muon float64) []optim.Group {
	all := g.all()
	at := slices.IndexFunc(all, func(p *autograd.Param) bool { return p.Name == "proj_out.weight" })
	groups := groupsOf(slices.Concat(all[:at], all[at+1:]), muon, "embed", "shared", "relative_attention_bias")
	groups[0].Params = append(groups[0].Params, all[at])
	return groups
}

func (g *retoucher) all() []*autograd.Param {
	return slices.Concat(g.params[0].Trained(), g.params[1].Trained(), g.params[2].Trained())
}

func (g *retoucher) save(dir string) error {
	for i, p := range g.parts {
		if err := p.save(dir, g.params[i]); err != nil {
			return err
		}
	}
	return nil
}

func (g *retoucher) free() {
	for _, p := range g.params {
		p.Free()
	}
}
