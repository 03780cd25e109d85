package pretrain

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/config"
)

// Editor is how a model that changes pictures is made: a FluxKontextPipeline, trained on pairs of the scenes of
// vision/scenes with a text between them.
type Editor struct {
	Makes   string      `toml:"makes" enum:"pipeline,clip,vlm,motion,edit" doc:"what kind of model this is the recipe of"`
	Name    string      `toml:"name,required" doc:"what the model is called"`
	Seed    uint64      `toml:"seed" doc:"of everything that is drawn"`
	Data    EditorData  `toml:"data" doc:"what it sees"`
	VAE     VAE         `toml:"vae" doc:"the autoencoder between pictures and latents"`
	Decoder Stage       `toml:"decoder" doc:"the decoder once more, on slightly noisy latents, the encoder as it is"`
	Model   EditorModel `toml:"model" doc:"text encoders and transformer"`
	Flow    Flow        `toml:"flow" doc:"how they are trained"`
	Judge   Judging     `toml:"judge" doc:"how the model is judged on the way"`
}

// EditorData says which pairs are seen. Shares are of pairs; what is left of one does what its text says and nothing else.
type EditorData struct {
	Scenes int     `toml:"scenes" range:"[64,inf)" doc:"pictures that the autoencoder sees"`
	Pairs  int     `toml:"pairs" range:"[16,inf)" doc:"how many pairs"`
	Redone float64 `toml:"redone" range:"[0,1]" doc:"share that does what its text says and changes everything else, too"`
	Kept   float64 `toml:"kept" range:"[0,1]" doc:"share in which nothing changes"`
	Other  float64 `toml:"other" range:"[0,1]" doc:"share that does what another text says"`
	Drop   float64 `toml:"caption_drop" range:"[0,1]" doc:"share of texts left out, for guidance"`
}

// EditorModel is the shape of the text encoders and the transformer.
type EditorModel struct {
	Tokens    int      `toml:"tokens" range:"[5,77]" doc:"length of a text"`
	TextWidth int      `toml:"text_width" range:"[16,1024]" doc:"of both text encoders: T5's heads are 16 wide, CLIP has one"`
	Layers    int      `toml:"layers" range:"[0,38]" doc:"of the transformer that keep text and picture apart"`
	Single    int      `toml:"single_layers" range:"[0,57]" doc:"of the transformer in which they are one stream"`
	Heads     int      `toml:"heads" range:"[1,38]" doc:"of the transformer, 32 wide each"`
	Zero      []string `toml:"zero" doc:"patterns of the transformer's parameters that begin as zeros"`
}

// DefaultEditor is the recipe of an empty file.
func DefaultEditor() Editor {
	stage := Stage{Steps: 600, Batch: 16, LR: 1e-3, Warmup: 20, Betas: [2]float64{0.9, 0.99}, GradClip: 1}
	vae := stage
	vae.Steps, vae.LR, vae.Warmup = 1000, 2e-3, 30
	flow := Stage{Steps: 2000, Batch: 64, LR: 1e-3, Warmup: 100, Betas: [2]float64{0.9, 0.98}, Decay: 0.01, GradClip: 1}
	return Editor{
		Makes:   "edit",
		Seed:    1,
		Data:    EditorData{Scenes: 8192, Pairs: 8192, Redone: 0.3, Kept: 0.15, Other: 0.2, Drop: 0.08},
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
	if err := h.once(dir, "vae", w.run.autoencoder); err != nil {
		return err
	}
	if err := h.once(dir, "decoder", w.clearer); err != nil {
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
	pairs [][2][]float32 // latents before and after, as the network reads them
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
	n, tokens, width := r.latentLen(), r.tokens(), 4*r.Editor.VAE.Latent
	for lo := 0; lo < s.Batch; lo += r.Editor.Flow.Micro {
		hi := min(lo+r.Editor.Flow.Micro, s.Batch)
		x, target, before := make([]float32, (hi-lo)*n), make([]float32, (hi-lo)*n), make([]float32, 0, (hi-lo)*n)
		times, texts := make([]float32, hi-lo), make([]string, hi-lo)
		for i := range hi - lo {
			at, epoch := seen.at((step-1)*s.Batch + lo + i)
			texts[i] = r.textOf(at, epoch)
			k := r.key.With("flow").Iteration(step).Sample(lo + i)
			t := r.Editor.Flow.time(k)
			times[i] = float32(t)
			k.With("noise").Normal(target[i*n:(i+1)*n], 0)
			r.Editor.Flow.noised(r.pairs[at][1], x[i*n:(i+1)*n], target[i*n:(i+1)*n], t)
			before = append(before, r.pairs[at][0]...)
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
	ctx := r.Context
	if ctx == nil {
		ctx = context.Background()
	}
	for _, w := range guidances {
		v, err := JudgeEdits(ctx, r.pool, r.dir, r.Editor.Judge.Prompts, r.Editor.Judge.Steps, w)
		if err != nil {
			return err
		}
		r.Say(fmt.Sprintf("judged at %d, %s", step, v))
		if err := writeGrid(filepath.Join(r.dir, fmt.Sprintf("samples_g%g.png", w)), v.pictures, 12); err != nil {
			return err
		}
	}
	return nil
}
