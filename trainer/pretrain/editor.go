package pretrain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// Editor is how a model that changes pictures is made: a FluxKontextPipeline, trained on pairs of the scenes of
// vision/scenes with a text between them.
type Editor struct {
	Makes   string      `toml:"makes" enum:"pipeline,clip,vlm,motion,edit" doc:"what kind of model this is the recipe of"`
	Name    string      `toml:"name,required" doc:"what the model is called"`
	Seed    uint64      `toml:"seed" doc:"random seed"`
	Data    EditorData  `toml:"data" doc:"what it sees"`
	Eye     string      `toml:"autoencoder" doc:"a folder whose autoencoder is taken: vae and decoder train nothing then"`
	VAE     VAE         `toml:"vae" doc:"the autoencoder between pictures and latents"`
	Decoder Stage       `toml:"decoder" doc:"the decoder once more, on slightly noisy latents, the encoder as it is"`
	Model   EditorModel `toml:"model" doc:"text encoders and transformer"`
	Flow    Flow        `toml:"flow" doc:"how they are trained"`
	Judge   Judging     `toml:"judge" doc:"how the model is judged on the way"`
}

// EditorData says which pairs are seen. Shares are of pairs; the rest of them do as their text says and nothing else.
type EditorData struct {
	Scenes int      `toml:"scenes" range:"[64,inf)" doc:"pictures that the autoencoder sees"`
	Pairs  int      `toml:"pairs" range:"[16,inf)" doc:"how many pairs"`
	Side   int      `toml:"side" range:"[32,64]" doc:"side of the pictures, which are drawn with 64 pixels and made smaller"`
	Verbs  []string `toml:"verbs" doc:"the first words of the texts that are seen: make, remove, move"`
	Redone float64  `toml:"redone" range:"[0,1]" doc:"share that does what its text says and changes everything else, too"`
	Kept   float64  `toml:"kept" range:"[0,1]" doc:"share in which nothing changes"`
	Other  float64  `toml:"other" range:"[0,1]" doc:"share that does what another text says"`
	Clean  int      `toml:"clean" range:"[0,inf)" doc:"updates of flow before the first pair that does not do as its text says, and nothing else"`
	Drop   float64  `toml:"caption_drop" range:"[0,1]" doc:"share of texts left out, for guidance"`
}

// EditorModel is the shape of the text encoders and the transformer.
type EditorModel struct {
	Tokens    int      `toml:"tokens" range:"[5,77]" doc:"length of a text"`
	TextWidth int      `toml:"text_width" range:"[16,1024]" doc:"of both text encoders: T5's heads are 16 wide, CLIP has one"`
	Layers    int      `toml:"layers" range:"[0,38]" doc:"of the transformer that keep text and picture apart"`
	Single    int      `toml:"single_layers" range:"[0,57]" doc:"of the transformer in which they are one stream"`
	Heads     int      `toml:"heads" range:"[1,38]" doc:"of the transformer, 32 wide each"`
	Zero      []string `toml:"zero" doc:"patterns of the transformer's parameters that begin as zeros"`
	Copies    bool     `toml:"copies" doc:"the first head of a single layer begins by looking at its token's place in the source"`
}

// verbs are the first words of the texts of edits.
var verbs = []string{"make", "remove", "move"}

// DefaultEditor is the recipe of an empty file.
func DefaultEditor() Editor {
	stage := Stage{Steps: 600, Batch: 16, LR: 1e-3, Warmup: 20, Betas: [2]float64{0.9, 0.99}, GradClip: 1}
	vae := stage
	vae.Steps, vae.LR, vae.Warmup = 1000, 2e-3, 30
	flow := Stage{Steps: 2000, Batch: 64, LR: 1e-3, Warmup: 100, Betas: [2]float64{0.9, 0.98}, Decay: 0.01, GradClip: 1}
	return Editor{
		Makes:   "edit",
		Seed:    1,
		Data:    EditorData{Scenes: 8192, Pairs: 8192, Side: scenes.Size, Verbs: slices.Clone(verbs), Redone: 0.3, Kept: 0.15, Other: 0.2, Drop: 0.08},
		VAE:     VAE{Stage: vae, Channels: []int{8, 16, 32}, Latent: 8, KL: 1e-3},
		Decoder: stage,
		Model: EditorModel{Tokens: 8, TextWidth: 32, Layers: 1, Single: 5, Heads: 2,
			Zero: []string{`.*norm.*\.linear\..*`, `proj_out\..*`}},
		Flow:  Flow{Stage: flow, Micro: 16, Muon: 3, Tail: 0.3, Shift: 3, Uniform: 0.1, EMA: 0.997, Save: 250},
		Judge: Judging{Every: 500, Prompts: 48, Steps: 8, Guidance: 2},
	}
}

func (r *Editor) check(doc *config.Document) {
	r.VAE.check(doc)
	if r.Data.Redone+r.Data.Kept+r.Data.Other > 1 && doc.Clean("data") {
		doc.Report("data", "redone, kept and other are more than all pairs together", "what is left of 1 does what its text says")
	}
	for _, verb := range r.Data.Verbs {
		if !slices.Contains(verbs, verb) {
			doc.Report("data.verbs", fmt.Sprintf("no edit begins with %q", verb), "these do: "+strings.Join(verbs, ", "))
		}
	}
	if len(r.Data.Verbs) == 0 {
		doc.Report("data.verbs", "no edit is left", "name some of "+strings.Join(verbs, ", "))
	}
	if side := 1 << len(r.VAE.Channels); doc.Clean("data.side") && r.Data.Side%side != 0 {
		doc.Report("data.side", fmt.Sprintf("%d is not a multiple of %d", r.Data.Side, side), "a token covers that many pixels")
	}
	if doc.Clean("model.text_width") && r.Model.TextWidth%16 != 0 {
		doc.Report("model.text_width", fmt.Sprintf("%d is not a multiple of 16", r.Model.TextWidth), "T5's heads are 16 wide")
	}
}

// Text is the whole recipe.
func (r *Editor) Text() ([]byte, error) { return textOf(r) }

func (r *Editor) run(dir string, h Hooks) error {
	// The autoencoder is that of pictures, on one object and on two.
	eye := Pipeline{Seed: r.Seed, Data: Data{Scenes: r.Data.Scenes, One: 0.2, Relation: 0.8}, VAE: r.VAE, Decoder: r.Decoder, Judge: r.Judge}
	w := &editorRun{Editor: *r, run: &run{Pipeline: eye, Hooks: h, dir: dir, pool: tensor.NewPool(h.Backend), data: eye.dataset()}, key: rng.New(r.Seed)}
	if err := r.writeFrame(dir); err != nil {
		return err
	}
	if err := w.see(); err != nil {
		return err
	}
	if err := w.highest(); err != nil {
		return err
	}
	return h.once(dir, "flow", w.flow)
}

// editorRun is a recipe at work in a folder. The run inside makes its autoencoder.
type editorRun struct {
	Editor
	*run
	key   rng.Key
	pairs []beforeAfter
	clean []int // pairs that do as their texts say, and nothing else
}

// see trains the autoencoder, or takes that of another folder.
func (r *editorRun) see() error {
	if r.Eye != "" {
		return r.Hooks.once(r.dir, "vae", r.borrow)
	}
	if err := r.Hooks.once(r.dir, "vae", r.run.autoencoder); err != nil {
		return err
	}
	return r.Hooks.once(r.dir, "decoder", r.clearer)
}

// clearer trains the decoder once more.
func (r *editorRun) clearer() error {
	if err := r.cacheLatents(); err != nil {
		return err
	}
	err := r.sharpen()
	r.latents = nil
	return err
}

// flow trains the text encoders and the transformer together, from nothing.
func (r *editorRun) flow() error {
	if err := r.cachePairs(); err != nil {
		return err
	}
	g, err := r.retoucher()
	if err != nil {
		return err
	}
	defer g.free()
	seen := order{key: r.key.With("order of flow"), n: r.Editor.Data.Pairs}
	return flowLoop{name: "flow", dir: r.dir, Flow: r.Editor.Flow, Judging: r.Editor.Judge, Hooks: r.Hooks, pool: r.pool, report: r.report,
		pass: func(s *stage, step int) float64 { return r.flowPass(g, s, &seen, step) }}.run(g, g.params[:])
}

// flowPass leaves the gradient of one update in the parameters and returns the loss.
func (r *editorRun) flowPass(g *retoucher, s *stage, seen *order, step int) (loss float64) {
	n, tokens, width := r.pairLen(), r.tokens(), 4*r.Editor.VAE.Latent
	for lo := 0; lo < s.Batch; lo += r.Editor.Flow.Micro {
		hi := min(lo+r.Editor.Flow.Micro, s.Batch)
		x, target, before := make([]float32, (hi-lo)*n), make([]float32, (hi-lo)*n), make([]float32, 0, (hi-lo)*n)
		times, texts := make([]float32, hi-lo), make([]string, hi-lo)
		for i := range hi - lo {
			at, epoch := seen.at((step-1)*s.Batch + lo + i)
			if step <= r.Editor.Data.Clean {
				at = r.clean[at%len(r.clean)]
			}
			texts[i] = r.textOf(at, epoch)
			k := r.key.With("flow").Iteration(step).Sample(lo + i)
			t := r.Editor.Flow.time(k)
			times[i] = float32(t)
			k.With("noise").Normal(target[i*n:(i+1)*n], 0)
			r.Editor.Flow.noised(r.pairs[at].after, x[i*n:(i+1)*n], target[i*n:(i+1)*n], t)
			before = append(before, r.pairs[at].before...)
		}
		tp := s.tape()
		v := g.velocity(tp, tp.Upload("latents", x, hi-lo, tokens, width), tp.Upload("sources", before, hi-lo, tokens, width), texts, times)
		out := v.F32()
		loss += distance(out, target, float64(s.Batch*n))
		tp.Backward(autograd.Seed{Of: v, Grad: out})
		tp.Reset()
	}
	return loss
}

// report judges the folder as it stands, and leaves sheets of pictures before and after.
func (r *editorRun) report(step int, guidances ...float64) error {
	for _, w := range guidances {
		v, err := JudgeEdits(r.context(), r.pool, r.dir, r.Editor.Data.Verbs, r.Editor.Judge.Prompts, r.Editor.Judge.Steps, w)
		if err != nil {
			return err
		}
		r.Log(fmt.Sprintf("judged at %d, %s", step, v))
		if err := writeGrid(filepath.Join(r.dir, fmt.Sprintf("samples_g%g.png", w)), v.pictures, 12); err != nil {
			return err
		}
	}
	return nil
}

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

// writeFrame writes a pipeline's files beside weights.
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

// retoucher turns texts and pictures into velocities.
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

// borrow copies the autoencoder of another folder.
func (r *editorRun) borrow() error {
	from, err := assets.Resolve(r.Eye)
	if err != nil {
		return fmt.Errorf("autoencoder: %w", err)
	}
	c, err := vae.ReadConfig(filepath.Join(from, "vae"))
	if err != nil {
		return fmt.Errorf("autoencoder: %w", err)
	}
	if levels := len(r.Editor.VAE.Channels); c.Latent != r.Editor.VAE.Latent || len(c.Channels) != levels {
		return fmt.Errorf("the autoencoder of %s has %d latents and %d levels, where vae.latent and vae.channels say %d and %d", r.Eye, c.Latent, len(c.Channels), r.Editor.VAE.Latent, levels)
	}
	to := filepath.Join(r.dir, "vae")
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(from, "vae")))); err != nil {
		return fmt.Errorf("copying the autoencoder of %s: %w", r.Eye, err)
	}
	return nil
}

// An edit is mostly a copy, and a transformer that begins by chance spends most of its updates on learning to copy.
// Here it begins as one that returns its source, whatever the text says:
//
//	tokens    a token's latents are the first numbers of its state; a constant on the others keeps the norms' divisor
//	          nearly the same for all tokens
//	looking   in the first head of every single layer queries and keys are nearly constant, so that their rotary places
//	          alone decide, and a query leads its key by one picture: that of (0, y, x) meets the key of (1, y, x)
//	copying   the first layer writes its first head's view behind the token's own latents
//	output    velocity = lead · (latents - copy), as where every time is 1/lead
//
// Nothing is frozen: all of it is trained as any other weight is.
const (
	lookSharp   = 3    // of the norms of queries and keys, in the numbers that places turn
	lookContent = 0.05 // share that is left of the first head's matrices
	faint       = 0.1  // share that is left of parameters that would disturb the copy
	tokenLevel  = 2.5  // the constant
	tokenSpread = 2    // the norms' divisor that comes of it, for latents of deviation 1
	lead        = 1.25
)

// looking is how a head's constant begins: the numbers of pairs, and their lengths.
func looking(axes []int) map[int]float32 {
	row, column := axes[0], axes[0]+axes[1]
	return map[int]float32{0: 3, row: 2, row + 2: 2, column: 2, column + 2: 2}
}

// setting collects the writes to parameters, up to the first error.
type setting struct {
	params *nn.Params
	err    error
}

func (s *setting) set(name string, f func(x []float32)) {
	if s.err == nil {
		s.err = s.params.Set(name, f)
	}
}

// copies makes a drawn transformer begin as one that copies.
func copies(p *nn.Params, c flux.Config) error {
	w := c.Width()
	if c.HeadDim < c.In || w < 2*c.In || c.Single == 0 {
		return fmt.Errorf("model.copies: heads of %d numbers and tokens of %d cannot hold latents of %d twice, in single layers", c.HeadDim, w, c.In)
	}
	s := &setting{params: p}
	s.set("x_embedder.weight", func(x []float32) {
		scale(x, faint)
		diagonal(x, c.In, 0, 0, c.In, 1)
	})
	s.set("x_embedder.bias", func(x []float32) { copy(x, constant(w, c.In)) })
	for i := range c.Single {
		at := fmt.Sprintf("single_transformer_blocks.%d.", i)
		s.looks(at+"attn.", c)
		gate := float32(faint)
		if i == 0 {
			gate = 1
			s.writes(at, c)
		}
		s.set(at+"norm.linear.bias", func(x []float32) {
			for j := range x {
				x[j] = 0
				if j >= 2*w {
					x[j] = gate
				}
			}
		})
	}
	s.set("proj_out.weight", func(x []float32) {
		clear(x)
		diagonal(x, w, 0, 0, c.In, lead*tokenSpread)
		diagonal(x, w, 0, c.In, c.In, -lead*tokenSpread)
	})
	s.set("proj_out.bias", func(x []float32) {
		for j, level := range constant(w, c.In)[c.In : 2*c.In] {
			x[j] = lead * level
		}
	})
	return s.err
}

// looks makes the first head of a layer look at its token's place in the source.
func (s *setting) looks(at string, c flux.Config) {
	pairs := looking(c.Axes)
	for name, angle := range map[string]float64{"q": 1, "k": 0} {
		s.set(at+"to_"+name+".bias", func(x []float32) {
			for n, long := range pairs {
				x[n], x[n+1] = long, 0
			}
			x[0], x[1] = pairs[0]*float32(portable.Cos(angle)), pairs[0]*float32(portable.Sin(angle))
		})
		s.set(at+"to_"+name+".weight", func(x []float32) { soften(x, c, pairs) })
		s.set(at+"norm_"+name+".weight", func(x []float32) {
			for n := range pairs {
				x[n], x[n+1] = lookSharp, lookSharp
			}
		})
	}
}

// writes makes a layer write its first head's view behind a token's own latents.
func (s *setting) writes(at string, c flux.Config) {
	w := c.Width()
	s.set(at+"attn.to_v.weight", func(x []float32) {
		clear(x[:c.HeadDim*w])
		diagonal(x, w, 0, 0, c.In, tokenSpread)
	})
	s.set(at+"attn.to_v.bias", func(x []float32) { clear(x[:c.HeadDim]) })
	s.set(at+"proj_out.weight", func(x []float32) {
		scale(x, faint)
		for row := range w {
			clear(x[row*5*w : row*5*w+c.HeadDim])
		}
		diagonal(x, 5*w, c.In, 0, c.In, 1)
	})
}

func scale(x []float32, by float32) {
	for j := range x {
		x[j] *= by
	}
}

// diagonal writes n equal numbers from a row and a column on, into rows of some width; the rest of the square of
// these rows and columns is 0.
func diagonal(x []float32, width, row, column, n int, value float32) {
	for i := range n {
		clear(x[(row+i)*width+column : (row+i)*width+column+n])
		x[(row+i)*width+column+i] = value
	}
}

// constant is a token's state where its latents are 0: levels of both signs behind the first numbers.
func constant(width, from int) []float32 {
	x := make([]float32, width)
	for j := from; j < width; j++ {
		x[j] = tokenLevel * float32(1-2*(j%2))
	}
	return x
}

// soften leaves little of the first head's rows, and takes the norms' additions from the others'.
func soften(x []float32, c flux.Config, pairs map[int]float32) {
	w := c.Width()
	for row := range w {
		share, n := float32(1), row%c.HeadDim
		if _, placed := pairs[n&^1]; placed {
			share = 1.0 / (lookSharp * lookSharp)
		}
		if row < c.HeadDim {
			share = lookContent
		}
		scale(x[row*w:(row+1)*w], share)
	}
}

// Pairs of scenes, each a function of its number.

// edit is the edit of pair i's text: of no scene whose caption is held out.
func (r *editorRun) edit(i int) scenes.Edit {
	for try := 0; ; try++ {
		e := scenes.RandomEdit(r.key.With("edit").Sample(i).Attempt(try).Draw())
		if !scenes.HeldOut(e.Before.Prompt) && e.Begins(r.Editor.Data.Verbs) {
			return e
		}
	}
}

// made is the content of pair i.
func (d EditorData) made(u float64) scenes.Made {
	switch {
	case u < d.Redone:
		return scenes.Redone
	case u < d.Redone+d.Kept:
		return scenes.Kept
	case u < d.Redone+d.Kept+d.Other:
		return scenes.Other
	}
	return scenes.Requested
}

// beforeAfter is latents of pictures before and after, as the network reads them.
type beforeAfter struct{ before, after []float32 }

// drawn is pair i's pictures, as numbers between -1 and 1, one after the other.
func (r *editorRun) drawn(i int) ([]float32, error) {
	before, after := r.edit(i).Pair(r.kind(i), r.key.With("pair").Sample(i).Draw())
	side := r.Editor.Data.Side
	x := make([]float32, 2*3*side*side)
	for at, px := range [][]uint8{before, after} {
		small, err := resized(px, scenes.Size, side)
		if err != nil {
			return nil, err
		}
		toFloats(small, x[at*len(x)/2:])
	}
	return x, nil
}

// kind is the content of pair i beside its text.
func (r *editorRun) kind(i int) scenes.Made {
	return r.Editor.Data.made(r.key.With("kind of pair").Sample(i).Draw().Float64())
}

// resized is a square picture with another side.
func resized(px []uint8, from, to int) ([]uint8, error) {
	if from == to {
		return px, nil
	}
	m, err := (&vision.Image{Width: from, Height: from, Pix: px}).Resize(to, to, vision.Lanczos)
	if err != nil {
		return nil, err
	}
	return m.Pix, nil
}

// textOf is pair i's text at some epoch: sometimes nothing.
func (r *editorRun) textOf(i, epoch int) string {
	if r.key.With("text").Iteration(epoch).Sample(i).Draw().Float64() < r.Editor.Data.Drop {
		return ""
	}
	return r.edit(i).Text
}

// pairSide is the side of a pair's latents.
func (r *editorRun) pairSide() int { return r.latentSide() * r.Editor.Data.Side / scenes.Size }

// pairLen is how many numbers the latents of one of its pictures have.
func (r *editorRun) pairLen() int { return r.pairSide() * r.pairSide() * r.Editor.VAE.Latent }

// tokens is how many tokens a picture's latents are.
func (r *editorRun) tokens() int { return r.pairSide() * r.pairSide() / 4 }

// cachePairs encodes every pair by the autoencoder as it was saved.
func (r *editorRun) cachePairs() error {
	v, params, err := r.maker().saved()
	if err != nil {
		return err
	}
	defer params.Free()
	const each = 32
	n := r.pairLen()
	for lo := 0; lo < r.Editor.Data.Pairs; lo += each {
		if err := r.stopped(); err != nil {
			return err
		}
		var x []float32
		for i := lo; i < min(lo+each, r.Editor.Data.Pairs); i++ {
			px, err := r.drawn(i)
			if err != nil {
				return err
			}
			x = append(x, px...)
			if r.kind(i) == scenes.Requested {
				r.clean = append(r.clean, i)
			}
		}
		for z := r.encoded(v, x, r.Editor.Data.Side); len(z) > 0; z = z[2*n:] {
			r.pairs = append(r.pairs, beforeAfter{r.packed(z[:n]), r.packed(z[n : 2*n])})
		}
	}
	if len(r.clean) == 0 && r.Editor.Data.Clean > 0 {
		return fmt.Errorf("data.clean: not one of %d pairs does what its text says, and nothing else", r.Editor.Data.Pairs)
	}
	r.Log(fmt.Sprintf("pairs: %d encoded, %d of them clean", len(r.pairs), len(r.clean)))
	return nil
}

// packed is latents, channels last, as tokens of 2 x 2 patches.
func (r *editorRun) packed(z []float32) []float32 {
	c, side := r.Editor.VAE.Latent, r.pairSide()
	first := make([]float64, len(z))
	for i, v := range z {
		first[i%c*side*side+i/c] = float64(v)
	}
	tokens, _, err := diffusion.Pack(first, c, side, side)
	if err != nil {
		panic(err) // the recipe's sides are even
	}
	out := make([]float32, len(z))
	for i, v := range tokens {
		out[i] = float32(v)
	}
	return out
}

// Retouched says how a model of edits does held-out ones.
type Retouched struct {
	Guidance float64 `json:"guidance"`
	Edits    int     `json:"edits"`
	Done     float64 `json:"done"` // means of scenes.Edit.Score
	Kept     float64 `json:"kept"`
	Reward   float64 `json:"reward"` // the mean of done times kept

	pictures [][]uint8 // before and after, by turns
}

func (v *Retouched) String() string {
	return fmt.Sprintf("guidance %g: done %.3f, kept %.3f, done times kept %.3f of %d edits", v.Guidance, v.Done, v.Kept, v.Reward, v.Edits)
}

// JudgeEdits edits n pictures of held-out scenes with a folder's model.
func JudgeEdits(ctx context.Context, pool *tensor.Pool, dir string, verbs []string, n, steps int, guidance float64) (*Retouched, error) {
	p, err := pipeline.Open(dir, pipeline.Options{Pool: pool, Precision: pipeline.BF16})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	side, _ := p.SizeFor(vision.New(scenes.Size, scenes.Size))
	at, err := p.Shape(side, side)
	if err != nil {
		return nil, err
	}
	v, prompts := &Retouched{Guidance: guidance, Edits: n}, []string{""}
	var edits []scenes.Edit
	var given []*pipeline.Given
	for i := range n {
		e, before, _ := heldOutEdit(i, verbs)
		g, err := p.Source(ctx, &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: before})
		if err != nil {
			return nil, err
		}
		edits, given, prompts, v.pictures = append(edits, e), append(given, g), append(prompts, e.Text), append(v.pictures, before, nil)
	}
	finals, err := drawn(ctx, p, at, prompts, given, steps, guidance)
	if err != nil {
		return nil, err
	}
	for i, e := range edits {
		raw, err := p.Decode(finals[i], at)
		if err != nil {
			return nil, err
		}
		after, err := resized(toBytes(raw), side, scenes.Size)
		if err != nil {
			return nil, err
		}
		v.pictures[2*i+1] = after
		if err := v.add(e, v.pictures[2*i], after); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// add takes one edit in.
func (v *Retouched) add(e scenes.Edit, before, after []uint8) error {
	done, kept, err := e.Score(before, after)
	n := float64(v.Edits)
	v.Done += done / n
	v.Kept += kept / n
	v.Reward += float64(done*kept) / n
	return err
}

// heldOutEdit is edit i of scenes whose captions are held out, and its pictures.
func heldOutEdit(i int, verbs []string) (e scenes.Edit, before, after []uint8) {
	for try := 0; ; try++ {
		e = scenes.RandomEdit(rng.New(1).With("held-out edit").Sample(i).Attempt(try).Draw())
		if scenes.HeldOut(e.Before.Prompt) && e.Begins(verbs) {
			break
		}
	}
	before, after = e.Pair(scenes.Requested, rng.New(1).With("held-out pair").Sample(i).Draw())
	return e, before, after
}

// highest is an autoencoder's limit for a perfect model: pictures afterwards, there and back, against those before.
func (r *editorRun) highest() error {
	v, params, err := r.maker().saved()
	if err != nil {
		return err
	}
	defer params.Free()
	best := &Retouched{Guidance: 1, Edits: r.Editor.Judge.Prompts}
	for i := range best.Edits {
		e, before, after := heldOutEdit(i, r.Editor.Data.Verbs)
		side := r.Editor.Data.Side
		small, err := resized(after, scenes.Size, side)
		if err != nil {
			return err
		}
		x := make([]float32, len(small))
		toFloats(small, x)
		if after, err = resized(toBytes(passThrough(r.pool, v, x, 1, side)), side, scenes.Size); err != nil {
			return err
		}
		if err := best.add(e, before, after); err != nil {
			return err
		}
	}
	r.Log(fmt.Sprintf("autoencoder, of pictures that are edited perfectly: done %.3f, kept %.3f, done times kept %.3f", best.Done, best.Kept, best.Reward))
	return nil
}
