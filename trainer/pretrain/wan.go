package pretrain

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/config"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
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
	Clips int     `toml:"clips" range:"[16,inf)" doc:"how many"`
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
	Frames     int      `toml:"frames" range:"[1,5]" doc:"of latents that are one token"`
	Zero       []string `toml:"zero" doc:"patterns of the transformer's parameters that begin as zeros"`
	Picture    bool     `toml:"picture" doc:"whether clips begin with a picture that the transformer reads, as of Wan's image-to-video models"`
}

// DefaultWan is the recipe of an empty file.
func DefaultWan() WanRecipe {
	stage := Stage{Steps: 800, Batch: 8, LR: 3e-3, Warmup: 30, Betas: [2]float64{0.9, 0.99}, GradClip: 1}
	flow := Stage{Steps: 2000, Batch: 32, LR: 1e-3, Warmup: 100, Betas: [2]float64{0.9, 0.98}, Decay: 0.01, GradClip: 1}
	return WanRecipe{
		Makes: "motion",
		Seed:  1,
		Data:  WanData{Clips: 2048, Noise: 0.4, Drop: 0.08},
		VAE:   WanVAE{Stage: stage, Patch: 1, Base: 8, Times: []int{1, 2, 4}, Halves: []bool{true, true}, Latent: 8, KL: 1e-3, Whiten: 1},
		Model: WanModel{Tokens: 12, TextWidth: 64, TextLayers: 2, Layers: 4, Heads: 3, Patch: 2, Frames: 1,
			Zero: []string{`blocks\..*\.scale_shift_table`, `scale_shift_table`, `condition_embedder\.time_proj\..*`, `proj_out\..*`}},
		Flow:  Flow{Stage: flow, Micro: 32, Muon: 3, Tail: 0.3, Shift: 3, Uniform: 0.1, EMA: 0.995, Save: 250},
		Judge: Judging{Every: 500, Prompts: 32, Steps: 8, Guidance: 3},
	}
}

// Pace is the length of a phase and its rate, with a new optimiser.
type Pace struct {
	Steps int     `toml:"steps,required" range:"[1,inf)" doc:"updates"`
	LR    float64 `toml:"lr" range:"(0,1)" doc:"learning rate, the highest of the phase"`
}

// SetDefaults is a phase before its keys are read.
func (p *Pace) SetDefaults() { *p = Pace{LR: 1e-3} }

// check reports what does not go together.
func (r *WanRecipe) check(doc *config.Document) {
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
	if f := r.VAE.factor() * r.Model.Patch; moving.Size%f != 0 && doc.Clean("vae") && doc.Clean("model") {
		doc.Report("vae.times", fmt.Sprintf("a token covers %d pixels a side, which do not divide a clip of %d", f, moving.Size), "fewer levels, or smaller patches")
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
	return w.flows()
}

// flows trains on latents, phase after phase.
func (r *wanRun) flows() error {
	last := "flow"
	if n := len(r.Then); n > 0 {
		last = phaseName(n - 1)
	}
	if finished(r.dir, last) {
		r.Say(last + ": done before")
		return nil
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
		if err := r.once(r.dir, phaseName(n), func() error { return r.learn(phaseName(n), f, r.key.With("phase").Iteration(n), false) }); err != nil {
			return err
		}
	}
	return nil
}

// wanRun is a recipe at work in a folder.
type wanRun struct {
	WanRecipe
	Hooks
	dir     string
	pool    *tensor.Pool
	key     rng.Key
	latents []float32 // of every clip, once there is an autoencoder
	beside  []float32 // what the transformer reads of every clip's first frame; empty: nothing
}
