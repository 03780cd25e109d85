package pretrain

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/dit"
	"github.com/darkroom-rl/darkroom/video/flow"
	clips "github.com/darkroom-rl/darkroom/video/vae"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// WanRecipe is how a text-to-clip model is made: a WanPipeline, trained on the scenes of vision/scenes/moving.
type WanRecipe struct {
	Makes string   `toml:"makes" enum:"pipeline,clip,vlm,motion,edit" doc:"what kind of model this is the recipe of"`
	Name  string   `toml:"name,required" doc:"what the model is called"`
	Seed  uint64   `toml:"seed" doc:"random seed"`
	Data  WanData  `toml:"data" doc:"what it sees"`
	VAE   WanVAE   `toml:"vae" doc:"the autoencoder between clips and latents"`
	Model WanModel `toml:"model" doc:"text encoder and transformer"`
	Flow  Flow     `toml:"flow" doc:"how they are trained"`
	Then  []Pace   `toml:"then" doc:"how they are trained on, one phase after another"`
	Judge Judging  `toml:"judge" doc:"how the model is judged on the way"`
}

// WanData says which clips are seen.
type WanData struct {
	Clips int     `toml:"clips" range:"[4,inf)" doc:"how many"`
	Size  int     `toml:"size" range:"[32,64]" doc:"a frame's side: 32, of which clips have five, or 64, of which they have nine"`
	Turns float64 `toml:"turns" range:"[0,1]" doc:"share of clips whose things turn half way"`
	Away  float64 `toml:"away" range:"[0,16]" doc:"the furthest of things from the middle, in pixels; 0: a little"`
	Noise float64 `toml:"caption_noise" range:"[0,1]" doc:"share of captions with another heading or pace, as the web's are"`
	Drop  float64 `toml:"caption_drop" range:"[0,1]" doc:"share of captions left out, for guidance"`
}

// WanVAE is the autoencoder and its training.
type WanVAE struct {
	Stage
	Patch  int     `toml:"patch" range:"[1,8]" doc:"pixels a side that become channels first, as in Wan 2.2"`
	Base   int     `toml:"base" range:"[4,256]" doc:"channels of the first level"`
	Times  []int   `toml:"times" range:"[1,16]" doc:"channels of each level, in bases; each but the last halves the frame"`
	Halves []bool  `toml:"halves" doc:"whether a level halves time, too"`
	Latent int     `toml:"latent" range:"[1,64]" doc:"channels of a latent"`
	KL     float64 `toml:"kl" range:"[0,1]" doc:"weight of the latents' distance from the normal distribution"`
	Motion float64 `toml:"motion" range:"[0,1000]" doc:"how much more a number weighs in the loss that changes by 1 from frame to frame"`
	Whiten float64 `toml:"whiten" range:"[0,1]" doc:"how far channels of latents are made alike: 1 sees each with a deviation of 1, 0 as they lie beside each other"`
	Linear bool    `toml:"linear" doc:"whether it is computed, not trained: the principal components of patches, frame by frame"`
}

// WanModel is the shape of the text encoder and the transformer.
type WanModel struct {
	Tokens     int      `toml:"tokens" range:"[9,512]" doc:"length of a caption"`
	TextWidth  int      `toml:"text_width" range:"[16,1024]" doc:"of the text encoder, whose heads are 16 wide"`
	TextLayers int      `toml:"text_layers" range:"[1,24]" doc:"of the text encoder"`
	Layers     int      `toml:"layers" range:"[1,40]" doc:"of the transformer"`
	Heads      int      `toml:"heads" range:"[1,40]" doc:"of the transformer, 32 wide each"`
	Patch      int      `toml:"patch" range:"[1,2]" doc:"latents a side that are one token"`
	Frames     int      `toml:"frames" range:"[1,9]" doc:"of latents that are one token"`
	Zero       []string `toml:"zero" doc:"patterns of the transformer's parameters that begin as zeros"`
	Contrast   float64  `toml:"contrast" range:"[0,1]" doc:"of the words of headings, and of paces, in the finished model: how far their embeddings lie from their mean, beside the trained ones; 1: as they are"`
	Picture    bool     `toml:"picture" doc:"whether clips begin with a picture that the transformer reads, as of Wan's image-to-video models"`
}

// DefaultWan is the recipe of an empty file.
func DefaultWan() WanRecipe {
	stage := Stage{Steps: 800, Batch: 8, LR: 3e-3, Warmup: 30, Betas: [2]float64{0.9, 0.99}, GradClip: 1}
	flow := Stage{Steps: 2000, Batch: 32, LR: 1e-3, Warmup: 100, Betas: [2]float64{0.9, 0.98}, Decay: 0.01, GradClip: 1}
	return WanRecipe{
		Makes: "motion",
		Seed:  1,
		Data:  WanData{Clips: 2048, Size: moving.Small.Size, Noise: 0.4, Drop: 0.08},
		VAE:   WanVAE{Stage: stage, Patch: 1, Base: 8, Times: []int{1, 2, 4}, Halves: []bool{true, true}, Latent: 8, KL: 1e-3, Whiten: 1},
		Model: WanModel{Tokens: 12, TextWidth: 64, TextLayers: 2, Layers: 4, Heads: 3, Patch: 2, Frames: 1, Contrast: 1,
			Zero: []string{`blocks\..*\.scale_shift_table`, `scale_shift_table`, `condition_embedder\.time_proj\..*`, `proj_out\..*`}},
		Flow:  Flow{Stage: flow, Micro: 32, Muon: 3, Tail: 0.3, Shift: 3, Uniform: 0.1, EMA: 0.995, Save: 250},
		Judge: Judging{Every: 500, Prompts: 32, Steps: 8, Guidance: 3},
	}
}

// Pace is the length of a phase and its rate, with a new optimiser.
type Pace struct {
	Steps int     `toml:"steps,required" range:"[1,inf)" doc:"updates"`
	LR    float64 `toml:"lr" range:"(0,1)" doc:"learning rate, the highest of the phase"`
	Noise float64 `toml:"caption_noise" range:"[0,1]" doc:"share of captions with another heading or pace; 0: as before"`
	Keep  float64 `toml:"keep" range:"[0,1]" doc:"share of the weights before the phase in those after it (WiSE-FT); 0: none"`
}

// SetDefaults is a phase before its keys are read.
func (p *Pace) SetDefaults() { *p = Pace{LR: 1e-3} }

// check reports settings that contradict each other.
func (r *WanRecipe) check(doc *config.Document) {
	if _, ok := moving.Sized(r.Data.Size); !ok && doc.Clean("data.size") {
		doc.Report("data.size", fmt.Sprintf("no scenes of %d pixels are drawn", r.Data.Size), "32 or 64")
		return
	}
	if n := len(r.VAE.Times); (n == 0 || len(r.VAE.Halves) != n-1) && doc.Clean("vae.times") && doc.Clean("vae.halves") {
		doc.Report("vae.halves", fmt.Sprintf("%d levels have %d answers whether they halve time", n, len(r.VAE.Halves)), "every level but the last has one")
		return
	}
	if v := r.VAE; v.Linear && (len(v.Times) != 1 || v.Base <= v.Latent || v.Latent > 3*v.Patch*v.Patch) && doc.Clean("vae") {
		doc.Report("vae.linear", fmt.Sprintf("%d components of %d numbers do not fit into one level of %d channels", v.Latent, 3*v.Patch*v.Patch, v.Base),
			"times = [1], halves = [], and base above latent")
	}
	if n := r.latentShape()[0]; n%r.Model.Frames != 0 && doc.Clean("vae") && doc.Clean("model") {
		doc.Report("model.frames", fmt.Sprintf("a token covers %d of %d frames of latents, which do not divide them", r.Model.Frames, n), "1, or all of them")
	}
	if n := r.Model.Frames * r.Model.Patch * r.Model.Patch * r.VAE.Latent; n > headWidth*r.Model.Heads && doc.Clean("vae") && doc.Clean("model") {
		doc.Report("model.heads", fmt.Sprintf("a token is %d numbers of latents, and the transformer %d wide: it predicts their noise, which has to pass through it", n, headWidth*r.Model.Heads),
			fmt.Sprintf("%d heads and more, or fewer channels of latents, frames or latents a token", (n+headWidth-1)/headWidth))
	}
	if f := r.VAE.factor() * r.Model.Patch; r.Data.Size%f != 0 && doc.Clean("vae") && doc.Clean("model") {
		doc.Report("vae.times", fmt.Sprintf("a token covers %d pixels a side, which do not divide a clip of %d", f, r.Data.Size), "fewer levels, or smaller patches")
	}
}

// Text is the whole recipe.
func (r *WanRecipe) Text() ([]byte, error) { return textOf(r) }

func (r *WanRecipe) run(dir string, h Hooks) error {
	w := &wanRun{WanRecipe: *r, Hooks: h, dir: dir, pool: tensor.NewPool(h.Backend), key: rng.New(r.Seed)}
	if err := w.writeFrame(dir); err != nil {
		return err
	}
	stage := w.autoencoder
	if r.VAE.Linear {
		stage = w.linear
	}
	if err := h.once(dir, "vae", stage); err != nil {
		return err
	}
	if err := h.once(dir, "reconstruction", w.reportAutoencoder); err != nil {
		return err
	}
	if err := w.flows(); err != nil || r.Model.Contrast == 1 {
		return err
	}
	return h.once(dir, "contrast", w.contrast)
}

// flows trains on latents, phase after phase.
func (r *wanRun) flows() error {
	last := "flow"
	if n := len(r.Then); n > 0 {
		last = phaseName(n - 1)
		if r.Then[n-1].Keep > 0 {
			last += ".keep"
		}
	}
	if finished(r.dir, last) {
		r.Log(last + ": done before")
		return r.dropStarts()
	}
	if err := r.cacheLatents(); err != nil {
		return err
	}
	if err := r.once(r.dir, "flow", func() error { return r.learn("flow", r.Flow, r.key, true) }); err != nil {
		return err
	}
	for n, p := range r.Then {
		f := r.Flow
		f.Steps, f.LR = p.Steps, p.LR
		if p.Noise > 0 {
			r.Data.Noise = p.Noise
		}
		if p.Keep > 0 {
			if err := r.before(n); err != nil {
				return err
			}
		}
		if err := r.once(r.dir, phaseName(n), func() error { return r.learn(phaseName(n), f, r.key.With("phase").Iteration(n), false) }); err != nil {
			return err
		}
		if p.Keep > 0 {
			if err := r.once(r.dir, phaseName(n)+".keep", func() error { return r.keep(n) }); err != nil {
				return err
			}
			if err := r.dropStarts(); err != nil {
				return err
			}
		}
	}
	return nil
}

// contrast moves the embeddings of words that exclude each other towards their mean: the model is then unsure which of
// them a caption says, and frames stay as crisp as they were. Trained on wrong captions they do not (LOG.md).
func (r *wanRun) contrast() error {
	t, err := tokenizer.Open(filepath.Join(r.dir, "tokenizer"))
	if err != nil {
		return err
	}
	if err := r.textPart(t.Size()).rewrite(r.dir, "contrast", r.Model.Contrast, func(w safetensors.Tensor) (safetensors.Tensor, error) {
		if w.Name != "shared.weight" {
			return w, nil
		}
		return r.nearer(w, t)
	}); err != nil {
		return err
	}
	return r.report(r.Flow.Steps, 1)
}

// start is the folder of the weights before phase n, of which some are kept.
func (r *wanRun) start(n int) string { return filepath.Join(r.dir, phaseName(n)+".start") }

// before copies the weights before phase n, once.
func (r *wanRun) before(n int) error {
	return r.once(r.dir, phaseName(n)+".start", func() error {
		for _, p := range r.trainedParts() {
			name := filepath.Join(p.folder, p.base+".safetensors")
			text, err := os.ReadFile(filepath.Join(r.dir, name))
			if err != nil {
				return err
			}
			to := filepath.Join(r.start(n), name)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(to, text, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropStarts removes the weights before phases of which some are kept by now.
func (r *wanRun) dropStarts() error {
	for n := range r.Then {
		if finished(r.dir, phaseName(n)+".keep") {
			if err := os.RemoveAll(r.start(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep puts weights after phase n between those before it and those that it trained (WiSE-FT; Wortsman et al., 2022).
func (r *wanRun) keep(n int) error {
	share := r.Then[n].Keep
	for _, p := range r.trainedParts() {
		f, err := safetensors.Open(filepath.Join(r.start(n), p.folder, p.base+".safetensors"))
		if err != nil {
			return err
		}
		err = p.rewrite(r.dir, phaseName(n)+".keep", share, func(w safetensors.Tensor) (safetensors.Tensor, error) {
			old, err := f.Tensor(w.Name)
			if err != nil {
				return w, err
			}
			a, err := old.Float32(nil)
			if err != nil {
				return w, err
			}
			b, err := w.Float32(nil)
			if err != nil {
				return w, err
			}
			for i := range b {
				b[i] = float32(float64(share*float64(a[i])) + float64((1-share)*float64(b[i])))
			}
			return safetensors.FromF32(w.Name, w.Shape, b).Halved()
		})
		f.Close()
		if err != nil {
			return err
		}
	}
	return r.report(r.Then[n].Steps, 1)
}

// trainedParts are the text encoder and the transformer.
func (r *wanRun) trainedParts() []part { return []part{r.textPart(0), r.transformerPart()} }

// rewrite changes a part's saved weights, once: the file remembers it for a run that was stopped before its mark.
func (p part) rewrite(dir, key string, by float64, change func(safetensors.Tensor) (safetensors.Tensor, error)) error {
	path := filepath.Join(dir, p.folder, p.base+".safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Metadata[key] != "" {
		return nil
	}
	all, metadata := make([]safetensors.Tensor, len(f.Names())), maps.Clone(f.Metadata)
	for i, name := range f.Names() {
		if all[i], err = f.Tensor(name); err == nil {
			all[i], err = change(all[i])
		}
		if err != nil {
			return err
		}
	}
	if metadata == nil {
		metadata = map[string]string{}
	}
	metadata[key] = fmt.Sprint(by)
	return safetensors.Write(path, all, metadata)
}

// nearer are embeddings of less contrast.
func (r *wanRun) nearer(w safetensors.Tensor, t *tokenizer.Tokenizer) (safetensors.Tensor, error) {
	x, err := w.Float32(nil)
	if err != nil {
		return w, err
	}
	width := w.Shape[1]
	for _, words := range [][]string{moving.Headings, moving.Paces} {
		var rows [][]float32
		for _, word := range words {
			id, ok := t.ID("▁" + word)
			if !ok {
				return w, fmt.Errorf("contrast: the tokenizer has no word %q", word)
			}
			rows = append(rows, x[int(id)*width:][:width])
		}
		for k := range width {
			sum := 0.0
			for _, row := range rows {
				sum += float64(row[k])
			}
			mean := sum / float64(len(rows))
			for _, row := range rows {
				row[k] = float32(mean + float64(r.Model.Contrast*(float64(row[k])-mean)))
			}
		}
	}
	return safetensors.FromF32(w.Name, w.Shape, x).Halved()
}

// wanRun is a recipe at work in a folder.
type wanRun struct {
	WanRecipe
	Hooks
	dir     string
	pool    *tensor.Pool
	key     rng.Key
	latents []float32 // of every clip, once there is an autoencoder
	beside  []float32 // the transformer's input from every clip's first frame; empty: nothing
}

// The parts of a WanPipeline.

type clipVAE = *clips.Model

// format is that of its clips.
func (r *WanRecipe) format() moving.Format {
	f, _ := moving.Sized(r.Data.Size) // checked
	if r.Data.Away > 0 {
		f.Away = r.Data.Away
	}
	return f
}

// latentShape is [frames, rows, columns, channels] of a clip's latents.
func (r *WanRecipe) latentShape() []int {
	side := r.Data.Size / r.VAE.factor()
	return []int{1 + (r.format().Frames-1)/r.VAE.frames(), side, side, r.VAE.Latent}
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
		"scale_factor_spatial": r.VAE.factor(), "scale_factor_temporal": r.VAE.frames()}}
}

func (r *WanRecipe) textPart(vocabulary int) part {
	const head = 16
	return part{"text_encoder", "model", map[string]any{
		"architectures": []string{"UMT5EncoderModel"}, "model_type": "umt5", "d_model": r.Model.TextWidth, "d_ff": 2 * r.Model.TextWidth, "d_kv": head,
		"num_heads": r.Model.TextWidth / head, "num_layers": r.Model.TextLayers, "vocab_size": vocabulary, "feed_forward_proj": "gated-gelu",
		"dense_act_fn": "gelu_new", "is_gated_act": true, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
		"layer_norm_epsilon": 1e-6, "pad_token_id": 0, "eos_token_id": 1}}
}

// headWidth is that of the transformer's heads.
const headWidth = 32

func (r *WanRecipe) transformerPart() part {
	in := r.VAE.Latent
	if r.Model.Picture {
		in += r.VAE.frames() + r.VAE.Latent
	}
	return part{"transformer", "diffusion_pytorch_model", map[string]any{
		"_class_name": "WanTransformer3DModel", "_diffusers_version": upstream, "attention_head_dim": headWidth, "num_attention_heads": r.Model.Heads,
		"num_layers": r.Model.Layers, "ffn_dim": 3 * headWidth * r.Model.Heads, "freq_dim": 64, "in_channels": in, "out_channels": r.VAE.Latent,
		"text_dim": r.Model.TextWidth, "patch_size": []int{r.Model.Frames, r.Model.Patch, r.Model.Patch}, "cross_attn_norm": true, "qk_norm": acrossHeads, "eps": 1e-6,
		"rope_max_seq_len": 64, "added_kv_proj_dim": nil, "image_dim": nil, "pos_embed_seq_len": nil}}
}

const acrossHeads = "rms_norm_across_heads"

// writeFrame writes a pipeline's files beside weights.
func (r *WanRecipe) writeFrame(dir string) error {
	words := slices.Concat(r.grammar(), moving.Colors, moving.Shapes, moving.Headings, moving.Paces, moving.Backgrounds)
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

// grammar are the words of captions beside those of their things.
func (r *WanRecipe) grammar() []string {
	if r.Data.Turns > 0 {
		return []string{"a", "moves", "then", "on"}
	}
	return []string{"a", "moves", "on"}
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

// clipPainter turns captions into velocities of clips.
type clipPainter struct {
	tokens      *tokenizer.Tokenizer
	text        *t5.Model
	transformer *dit.Model
	parts       [2]part
	params      [2]*nn.Params
	release     [2]func()
	length      int
}

// painter draws the text encoder and the transformer, or opens the saved ones.
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

// The clips that a text-to-clip model sees, and their captions: of a seed, drawn again wherever they are needed.

// scene is the scene of clip i: none whose caption is held out.
func (r *wanRun) scene(i int) moving.Scene {
	for try := 0; ; try++ {
		draw := r.key.With("scene").Sample(i).Attempt(try).Draw()
		s := moving.Random(draw)
		if r.Data.Turns > 0 && draw.Float64() < r.Data.Turns {
			s = s.Turned(draw)
		}
		if !moving.HeldOut(s.Prompt()) {
			return s
		}
	}
}

// clip is clip i, as numbers between -1 and 1.
func (r *wanRun) clip(i int) []float32 {
	return clipFloats(r.film(r.scene(i), r.format().Jitter(r.key.With("jitter").Sample(i).Draw())))
}

// film is the clip of a scene: one whose first frame does not say where the thing goes, where that frame is given.
func (r *wanRun) film(s moving.Scene, at moving.Place) *video.Clip {
	if r.Model.Picture {
		return r.format().Begin(s, at)
	}
	return r.format().Draw(s, at)
}

func clipFloats(c *video.Clip) []float32 {
	x := make([]float32, len(c.Frames)*len(c.Frames[0]))
	for t, px := range c.Frames {
		toFloats(px, x[t*len(px):])
	}
	return x
}

// caption is the caption of clip i at some epoch: sometimes wrong, sometimes nothing.
func (r *wanRun) caption(i, epoch int) string {
	if r.key.With("caption").Iteration(epoch).Sample(i).Draw().Float64() < r.Data.Drop {
		return ""
	}
	s := r.scene(i)
	if wrong := r.key.With("caption noise").Sample(i).Draw(); wrong.Float64() < r.Data.Noise {
		s = s.Corrupt(wrong)
	}
	return s.Prompt()
}

// Latents of clips: the autoencoder's latents, computed once and kept for the flow.

// encoded are the means of clips' latents, scaled as the autoencoder says.
func (r *wanRun) encoded(v clipVAE, from, to int) []float32 {
	var all []float32
	for i := from; i < to; i++ {
		all = append(all, r.latentsOf(v, r.clip(i))...)
	}
	return all
}

// latentsOf are the means of a clip's latents, scaled.
func (r *wanRun) latentsOf(v clipVAE, clip []float32) []float32 {
	tp := (&stage{pool: r.pool}).tape()
	defer tp.Reset()
	mu, _ := v.Encode(tp, tp.Upload("clip", clip, r.clipShape()...))
	return v.Scaled(tp, mu).F32()
}

// settled measures each channel of the latents, so that diffusion sees it with mean 0, and all of them with a mean
// square of 1. A channel whose latents have the deviation d is seen with one of d^(1-whiten), beside the others.
func (r *wanRun) settled(v clipVAE) part {
	c := r.VAE.Latent
	sum, squares := make([]float64, c), make([]float64, c)
	all := r.encoded(v, 0, min(r.Data.Clips, 256))
	for i, z := range all {
		sum[i%c] += float64(z)
		squares[i%c] += float64(float64(z) * float64(z))
	}
	n := float64(len(all) / c)
	p := r.vaePart()
	means, deviations := make([]float32, c), make([]float64, c)
	for i := range c {
		m := sum[i] / n
		means[i], deviations[i] = float32(m), math.Sqrt(squares[i]/n-float64(m*m))
	}
	p.settings["latents_mean"], p.settings["latents_std"] = means, divisors(deviations, r.VAE.Whiten)
	return p
}

// divisors are the divisors of channels of these deviations.
func divisors(deviations []float64, whiten float64) []float32 {
	square := 0.0
	for _, d := range deviations {
		square += portable.Pow(d, 2*(1-whiten)) / float64(len(deviations))
	}
	out := make([]float32, len(deviations))
	for i, d := range deviations {
		out[i] = float32(portable.Pow(d, whiten) * math.Sqrt(square))
	}
	return out
}

// cacheLatents encodes every clip by the autoencoder as it was saved.
func (r *wanRun) cacheLatents() error {
	v, params, err := r.openVAE(false)
	if err != nil {
		return err
	}
	defer params.Free()
	for at := 0; at < r.Data.Clips; at += 64 {
		if err := r.stopped(); err != nil {
			return err
		}
		r.latents = append(r.latents, r.encoded(v, at, min(at+64, r.Data.Clips))...)
	}
	if !r.Model.Picture {
		return nil
	}
	each := 3 * r.Data.Size * r.Data.Size
	for i := range r.Data.Clips {
		x := r.clip(i)
		clear(x[each:]) // gray
		r.beside = append(r.beside, pipeline.Beside(r.latentsOf(v, x), r.shape(), r.VAE.frames(), false)...)
	}
	return nil
}

// joined is latents of clip i with the inputs beside each number of them.
func (r *wanRun) joined(latents []float32, i int) (x []float32) {
	if r.beside == nil {
		return latents
	}
	c, n := r.VAE.Latent, len(r.beside)/r.Data.Clips
	beside := r.beside[i*n : (i+1)*n]
	wide := n * c / len(latents)
	for at := range len(latents) / c {
		x = append(append(x, latents[at*c:(at+1)*c]...), beside[at*wide:(at+1)*wide]...)
	}
	return x
}

// clipShape is that of a clip's pixels.
func (r *WanRecipe) clipShape() []int { return []int{r.format().Frames, r.Data.Size, r.Data.Size, 3} }

// shape is that of latents, as a pipeline has it.
func (r *WanRecipe) shape() pipeline.Shape {
	s := r.latentShape()
	return pipeline.Shape{Width: r.Data.Size, Height: r.Data.Size, Frames: r.format().Frames, Times: s[0], Rows: s[1], Cols: s[2], Latents: s}
}

// How a text-to-clip model learns: its autoencoder on clips, then text encoder and transformer on the autoencoder's
// latents by flow matching (Lipman et al., 2022; Liu et al., 2022): x_t = (1 - t) x_0 + t noise, target noise - x_0.

// autoencoder trains the VAE, as that of pictures is. Clips go through one by one.
func (r *wanRun) autoencoder() error {
	v, params, err := r.openVAE(true, ".*")
	if err != nil {
		return err
	}
	defer params.Free()
	if err := params.Set("quant_conv.bias", func(x []float32) {
		for i := r.VAE.Latent; i < len(x); i++ {
			x[i] = -6 // it begins with little posterior noise
		}
	}); err != nil {
		return err
	}
	s := r.VAE.Stage.begin("vae", r.pool, r.Log, optim.Group{Params: params.Trained(), Rate: 1})
	defer s.mover.Free()
	state := &progress{dir: r.dir, stage: "vae", params: []*nn.Params{params}, mover: s.mover, shadow: &optim.Shadow{}}
	from, err := state.load()
	if err != nil {
		return err
	}
	seen := order{key: r.key.With("order of the autoencoder"), n: r.Data.Clips}
	var l1, divergence mean
	for step := from + 1; step <= s.Steps; step++ {
		if err := r.stopped(); err != nil {
			return state.orSave(err, step-1)
		}
		for i := range s.Batch {
			n, _ := seen.at((step-1)*s.Batch + i)
			x, tp := r.clip(n), s.tape()
			mu, logVar := v.Encode(tp, tp.Upload("clip", x, r.clipShape()...))
			abs, kl := backThrough(tp, mu, logVar, v.Decode, x, r.moved(x), r.key.With("posterior").Iteration(step).Sample(i), r.VAE.KL, 1/float32(s.Batch))
			l1.add(abs)
			divergence.add(kl)
		}
		if _, err := s.mover.Step(s.rate(step, 0.05)); err != nil {
			return fmt.Errorf("vae, step %d: %w", step, err)
		}
		if step%25 == 0 || step == s.Steps {
			s.say(step, s.Steps, "l1 %.4f  kl %.3f", l1.take(), divergence.take())
		}
		if step%r.Flow.Save == 0 {
			if err := state.save(step); err != nil {
				return err
			}
		}
	}
	return r.settled(v).save(r.dir, params)
}

// moved are the weights of a clip's numbers in the autoencoder's loss, with a mean of 1; nil: all alike. Of most pixels
// the ground is right soon, and the motion is in few.
func (r *wanRun) moved(x []float32) (w []float32) {
	if r.VAE.Motion == 0 {
		return nil
	}
	w, sum, each := make([]float32, len(x)), 0.0, len(x)/r.format().Frames
	for i := range x {
		other := i - each // the frame before; of the first one the frame after
		if other < 0 {
			other = i + each
		}
		w[i] = 1 + float32(r.VAE.Motion*math.Abs(float64(x[i])-float64(x[other])))
		sum += float64(w[i])
	}
	for i := range w {
		w[i] *= float32(float64(len(x)) / sum)
	}
	return w
}

// learn trains the text encoder and the transformer together, from nothing (drawn) or from the saved weights.
func (r *wanRun) learn(name string, f Flow, key rng.Key, drawn bool) error {
	g, err := r.painter(drawn)
	if err != nil {
		return err
	}
	defer g.free()
	seen := order{key: key.With("order of flow"), n: r.Data.Clips}
	return flowLoop{name: name, dir: r.dir, Flow: f, Judging: r.Judge, Hooks: r.Hooks, pool: r.pool, report: r.report,
		pass: func(s *stage, step int) float64 { return r.flowPass(g, s, &seen, key, step) }}.run(g, g.params[:])
}

// flowPass leaves the gradient of one update in the parameters and returns the loss.
func (r *wanRun) flowPass(g *clipPainter, s *stage, seen *order, key rng.Key, step int) (loss float64) {
	n, shape := len(r.latents)/r.Data.Clips, r.latentShape()
	for lo := 0; lo < s.Batch; lo += r.Flow.Micro {
		hi := min(lo+r.Flow.Micro, s.Batch)
		x, target := make([]float32, (hi-lo)*n), make([]float32, (hi-lo)*n)
		var asked []float32
		times, captions := make([]float32, hi-lo), make([]string, hi-lo)
		for i := range hi - lo {
			at, epoch := seen.at((step-1)*s.Batch + lo + i)
			captions[i] = r.caption(at, epoch)
			k := key.With("flow").Iteration(step).Sample(lo + i)
			t := r.Flow.time(k)
			times[i] = float32(1000 * t)
			k.With("noise").Normal(target[i*n:(i+1)*n], 0)
			r.Flow.noised(r.latents[at*n:(at+1)*n], x[i*n:(i+1)*n], target[i*n:(i+1)*n], t)
			asked = append(asked, r.joined(x[i*n:(i+1)*n], at)...)
		}
		tp := s.tape()
		v := g.velocity(tp, tp.Upload("latents", asked, hi-lo, shape[0], shape[1], shape[2], len(asked)*shape[3]/len(x)), captions, times)
		out := v.F32()
		loss += distance(out, target, float64(s.Batch*n))
		tp.Backward(autograd.Seed{Of: v, Grad: out})
		tp.Reset()
	}
	return loss
}

// report judges the folder as it stands, and leaves a sheet of clips.
func (r *wanRun) report(step int, guidances ...float64) error {
	for _, w := range guidances {
		v, err := r.judgeMoves(w, r.heldOutMoves(r.Judge.Prompts), func(i int) moving.Place {
			return r.format().Jitter(rng.New(1).With("judge").Sample(i).Draw())
		})
		if err != nil {
			return err
		}
		r.Log(fmt.Sprintf("judged at %d, %s", step, v))
		if err := v.write(filepath.Join(r.dir, fmt.Sprintf("samples_g%g.png", w))); err != nil {
			return err
		}
	}
	return nil
}

// Card: an AutoencoderKLWan whose weights are computed, not trained. A latent is the first principal components of a
// patch of a frame:
//
//	z = Pᵀ(x - m)   and   y = P·z + m
//
// A network with an RMS norm and SiLU before its last convolution is nearly linear this way: beside the n - 1
// channels of components there is one of a large constant c, which makes the norm nearly √n/c for all pixels, and the
// rest of a component a is so small, a√n/c, that SiLU is nearly its half: silu(x) = x/2 + x²/4 - … Blocks and
// attention pass on their input (their layers are zeros), and of a causal kernel only the middle of its last frame is
// not zero.
//
// Differences from Wan's: nothing is compressed over time. Trained for some hundred updates, an autoencoder this
// small lost the thing that moves (LOG.md).
// Invariant (test): rewards of a decoded clip are nearly those of the drawn one.

// overwhelming is c. The components of a patch have lengths up to √48.
const overwhelming = 2048

// linear computes the autoencoder and measures its latents.
func (r *wanRun) linear() error {
	if err := r.write(r.components()); err != nil {
		return err
	}
	v, params, err := r.openVAE(false)
	if err != nil {
		return err
	}
	defer params.Free()
	return r.settled(v).frame(r.dir)
}

// write writes an autoencoder of computed weights.
func (r *wanRun) write(c patches) error {
	_, params, err := r.openVAE(true, ".*")
	if err != nil {
		return err
	}
	defer params.Free()
	all, err := params.Stored()
	if err != nil {
		return err
	}
	for i, t := range all {
		if all[i], err = safetensors.FromF32(t.Name, t.Shape, c.weights(t.Name, t.Shape)).Halved(); err != nil {
			return err
		}
	}
	p := r.vaePart()
	return safetensors.Write(filepath.Join(r.dir, p.folder, p.base+".safetensors"), all, map[string]string{"format": "pt"})
}

// patches are an autoencoder of one level: the mean of patches and their components.
type patches struct {
	mean       []float64
	components [][]float64
}

// components measures the patches of clips.
func (r *wanRun) components() patches {
	p := r.VAE.Patch
	size, n := 3*p*p, 0.0
	sum, products := make([]float64, size), make([]float64, size*size)
	for i := range min(r.Data.Clips, 256) {
		x := r.clip(i)
		for top := 0; top < r.format().Frames*r.Data.Size; top += p {
			for left := 0; left < r.Data.Size; left += p {
				add(patch(x, r.Data.Size, top, left, p), sum, products)
				n++
			}
		}
	}
	for i := range size {
		sum[i] /= n
	}
	for i := range size {
		for j := range size {
			products[i*size+j] = products[i*size+j]/n - float64(sum[i]*sum[j])
		}
	}
	return patches{sum, principal(products, size, r.VAE.Latent)}
}

// patch is a patch of a clip in the order of channels that the network folds it into. Frames come below each other.
func patch(x []float32, side, top, left, p int) []float64 {
	out := make([]float64, 0, 3*p*p)
	for c := range 3 {
		for col := range p {
			for row := range p {
				out = append(out, float64(x[3*((top+row)*side+left+col)+c]))
			}
		}
	}
	return out
}

// add adds a patch, and the products of its numbers.
func add(x, sum, products []float64) {
	for i, a := range x {
		sum[i] += a
		row := products[i*len(x) : (i+1)*len(x)]
		for j, b := range x {
			row[j] += float64(a * b)
		}
	}
}

// kernel is a convolution's weight on the disk, [out, in, frames, rows, columns], of which only the middle of the last
// frame is set.
type kernel struct {
	of                    []float32
	in, frames, row, cols int
}

func (k kernel) set(out, in int, to float64) {
	k.of[(((out*k.in+in)*k.frames+k.frames-1)*k.row+k.row/2)*k.cols+k.cols/2] = float32(to)
}

// weights fills in a parameter of the autoencoder: zeros but for the layers on the way.
func (c patches) weights(name string, shape []int) []float32 {
	n := 1
	for _, d := range shape {
		n *= d
	}
	x, z := make([]float32, n), len(c.components)
	var k kernel
	if len(shape) == 5 {
		k = kernel{x, shape[1], shape[2], shape[3], shape[4]}
	}
	switch {
	case strings.HasSuffix(name, ".gamma"):
		for i := range x {
			x[i] = 1
		}
	case name == "quant_conv.weight", name == "post_quant_conv.weight":
		for i := range shape[0] {
			k.set(i, i, 1)
		}
	case name == "encoder.conv_in.weight":
		for i, v := range c.components {
			for j, w := range v {
				k.set(i, j, w)
			}
		}
	case name == "encoder.conv_in.bias":
		for i, v := range c.components {
			at := 0.0
			for j, w := range v {
				at += float64(w * c.mean[j])
			}
			x[i] = float32(-at)
		}
		x[len(x)-1] = overwhelming
	case name == "decoder.conv_in.weight":
		for i := range z {
			k.set(i, i, 1)
		}
	case name == "decoder.conv_in.bias":
		x[len(x)-1] = overwhelming
	case name == "encoder.conv_out.weight":
		for i := range z {
			k.set(i, i, 2*overwhelming/math.Sqrt(float64(shape[1])))
		}
	case name == "encoder.conv_out.bias":
		for i := range z {
			x[z+i] = -6 // a posterior without noise
		}
	case name == "decoder.conv_out.weight":
		s := 2 * overwhelming / math.Sqrt(float64(shape[1]))
		for i, v := range c.components {
			for j, w := range v {
				k.set(j, i, float64(w*s))
			}
		}
	case name == "decoder.conv_out.bias":
		for j, m := range c.mean {
			x[j] = float32(m)
		}
	}
	return x
}

// Moves says how a model of clips follows held-out captions.
type Moves struct {
	Guidance  float64 `json:"guidance"`
	Clips     int     `json:"clips"`
	Heading   float64 `json:"heading"`   // the mean of motion.Heading's value
	Agreement float64 `json:"agreement"` // of its motion with the caption's, borne out by frames or not
	Thing     float64 `json:"thing"`     // the mean worth of a frame, as of moving.Look
	Right     float64 `json:"right"`     // the share that agrees with its caption by more than a half

	format moving.Format
	clips  []*video.Clip
}

func (v *Moves) String() string {
	return fmt.Sprintf("guidance %g: heading %.3f, agreement %.3f, thing %.3f, %.0f %% of %d clips as asked", v.Guidance, v.Heading, v.Agreement, v.Thing, 100*v.Right, v.Clips)
}

// heldOutMoves are n scenes whose captions are held out.
func (r *WanRecipe) heldOutMoves(n int) (list []moving.Scene) {
	var all []moving.Scene
	of := moving.All()
	if r.Data.Turns > 0 {
		of = moving.Turning()
	}
	for _, s := range of {
		if moving.HeldOut(s.Prompt()) {
			all = append(all, s)
		}
	}
	for i := range n {
		list = append(list, all[i%len(all)])
	}
	return list
}

// judgeMoves draws clips of captions with the folder's model.
func (r *wanRun) judgeMoves(guidance float64, list []moving.Scene, place func(i int) moving.Place) (*Moves, error) {
	ctx, n, f := r.context(), len(list), r.format()
	p, err := pipeline.Open(r.dir, pipeline.Options{Pool: r.pool, Precision: pipeline.BF16})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	at, err := p.ClipShape(f.Frames, f.Size, f.Size)
	if err != nil {
		return nil, err
	}
	prompts := []string{""}
	var given []*pipeline.Given
	for i, s := range list {
		prompts = append(prompts, s.Prompt())
		if may, _, _, _ := p.Gives(); may {
			first := f.Begin(s, place(i)).Frames[0]
			g, err := p.Give(ctx, at, &vision.Image{Width: f.Size, Height: f.Size, Pix: first}, nil)
			if err != nil {
				return nil, err
			}
			given = append(given, g)
		}
	}
	finals, err := drawn(ctx, p, at, prompts, given, r.Judge.Steps, guidance)
	if err != nil {
		return nil, err
	}
	v := &Moves{Guidance: guidance, Clips: n, format: f}
	for i, scene := range list {
		raw, err := p.Decode(finals[i], at)
		if err != nil {
			return nil, err
		}
		if err := v.add(ctx, scene, toBytes(raw)); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// add measures a clip, the pixels of its frames one after another.
func (v *Moves) add(ctx context.Context, s moving.Scene, px []uint8) error {
	c := &video.Clip{Width: v.format.Size, Height: v.format.Size, Rate: video.Rate{Num: moving.Rate, Den: 1}}
	n, each := float64(v.Clips), len(px)/v.format.Frames
	for ; len(px) > 0; px = px[each:] {
		c.Frames = append(c.Frames, px[:each])
		v.Thing += v.format.Look(s, px).Value / float64(v.Clips*v.format.Frames)
	}
	steps, err := motion.StepsOf(ctx, c, flow.Farneback{})
	if err != nil {
		return err
	}
	h := steps.Heading(s.Legs()...)
	v.Heading, v.Agreement = v.Heading+h.Value/n, v.Agreement+h.Agreement/n
	if h.Value > 0.5 {
		v.Right += 1 / n
	}
	v.clips = append(v.clips, c)
	return nil
}

// reportAutoencoder prints rewards of drawn clips that went through the autoencoder.
func (r *wanRun) reportAutoencoder() error {
	seen, err := r.reconstructed()
	if err != nil {
		return err
	}
	r.Log(fmt.Sprintf("reconstructed: heading %.3f, thing %.3f", seen.Heading, seen.Thing))
	return seen.write(filepath.Join(r.dir, "reconstruction.png"))
}

// reconstructed measures drawn clips of held-out captions that went through the autoencoder.
func (r *wanRun) reconstructed() (*Moves, error) {
	v, params, err := r.openVAE(false)
	if err != nil {
		return nil, err
	}
	defer params.Free()
	seen := &Moves{Clips: r.Judge.Prompts, format: r.format()}
	for i, s := range r.heldOutMoves(seen.Clips) {
		x := clipFloats(r.film(s, r.format().Jitter(r.key.With("judge").Sample(i).Draw())))
		tp := (&stage{pool: r.pool}).tape()
		mu, _ := v.Encode(tp, tp.Upload("clip", x, r.clipShape()...))
		y := v.Decode(tp, v.Scaled(tp, mu)).F32()
		tp.Reset()
		if err := seen.add(r.context(), s, toBytes(y)); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// context stops judgement.
func (h Hooks) context() context.Context {
	if h.Context == nil {
		return context.Background()
	}
	return h.Context
}

// write is the clips beside each other, as a PNG that plays.
func (v *Moves) write(path string) error {
	out := &video.Clip{Rate: video.Rate{Num: moving.Rate, Den: 1}}
	for t := range v.format.Frames {
		var cells []*vision.Image
		for _, c := range v.clips {
			cells = append(cells, &vision.Image{Width: c.Width, Height: c.Height, Pix: c.Frames[t]})
		}
		sheet, err := vision.Sheet{Columns: 8, Padding: 4, Scale: 2}.Draw(cells)
		if err != nil {
			return err
		}
		out.Width, out.Height, out.Frames = sheet.Width, sheet.Height, append(out.Frames, sheet.Pix)
	}
	var b bytes.Buffer
	if err := video.EncodeAPNG(&b, out); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
