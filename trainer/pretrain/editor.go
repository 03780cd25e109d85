package pretrain

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/config"
	"github.com/darkroom-rl/darkroom/vision/scenes"
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

// EditorData says which pairs are seen. Shares are of pairs;
// what is left of one does what its text says and nothing else.
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
	Copies    bool     `toml:"copies" doc:"the first head of a single layer begins by looking at its token's place in the source (editor_copies.go)"`
}

// verbs are what the texts of edits begin with.
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
	clean []int // pairs that do what their texts say, and nothing else
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
		r.Say(fmt.Sprintf("judged at %d, %s", step, v))
		if err := writeGrid(filepath.Join(r.dir, fmt.Sprintf("samples_g%g.png", w)), v.pictures, 12); err != nil {
			return err
		}
	}
	return nil
}
