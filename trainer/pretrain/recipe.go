package pretrain

import (
	"bytes"
	"fmt"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Recipe is how a model is made: a *Pipeline, *Towers, *Talker, *WanRecipe, *Editor or *Detector.
type Recipe interface {
	// Text is the whole recipe, every default written out: for the file beside the model.
	Text() ([]byte, error)
	run(dir string, h Hooks) error
}

// Pipeline is how a text-to-picture model is made.
type Pipeline struct {
	Makes   string  `toml:"makes" enum:"pipeline,clip,vlm,motion,edit,detector" doc:"what kind of model this is the recipe of"`
	Name    string  `toml:"name,required" doc:"what the model is called"`
	Seed    uint64  `toml:"seed" doc:"random seed"`
	Data    Data    `toml:"data" doc:"what it sees"`
	VAE     VAE     `toml:"vae" doc:"the autoencoder between pictures and latents"`
	Decoder Stage   `toml:"decoder" doc:"the decoder once more, on slightly noisy latents, the encoder as it is"`
	Model   Model   `toml:"model" doc:"text encoders and transformer"`
	Flow    Flow    `toml:"flow" doc:"how they are trained"`
	Then    []Phase `toml:"then" doc:"how they are trained on, one phase after another"`
	Judge   Judging `toml:"judge" doc:"how the model is judged on the way"`
}

// Data says which scenes are seen.
type Data struct {
	Scenes   int     `toml:"scenes" range:"[64,inf)" doc:"how many pictures"`
	Noise    float64 `toml:"caption_noise" range:"[0,1]" doc:"share of captions with one wrong attribute, as the web's are"`
	Drop     float64 `toml:"caption_drop" range:"[0,1]" doc:"share of captions left out, for guidance"`
	One      float64 `toml:"one" range:"[0,inf)" doc:"weight of scenes of one object"`
	Relation float64 `toml:"relation" range:"[0,inf)" doc:"weight of two related objects"`
	Count    float64 `toml:"count" range:"[0,inf)" doc:"weight of two to four equal objects"`
	Word     float64 `toml:"word" range:"[0,inf)" doc:"weight of words"`
	HeldOut  bool    `toml:"held_out" doc:"whether the captions kept for evaluation are seen too"`
}

// Mix is the families' weights.
func (d Data) Mix() scenes.Mix {
	return scenes.Mix{One: d.One, Relation: d.Relation, Count: d.Count, Word: d.Word}
}

// Stage is the length and pace of a stage.
type Stage struct {
	Steps    int        `toml:"steps" range:"[0,inf)" doc:"updates"`
	Batch    int        `toml:"batch" range:"[1,4096]" doc:"pictures an update"`
	LR       float64    `toml:"lr" range:"(0,1)" doc:"learning rate, the highest of the stage"`
	Warmup   int        `toml:"warmup" range:"[0,inf)" doc:"updates over which it rises"`
	Betas    [2]float64 `toml:"betas" range:"[0,1)" doc:"AdamW's"`
	Decay    float64    `toml:"weight_decay" range:"[0,1]" doc:"share of a weight that a step with lr 1 would take away"`
	GradClip float64    `toml:"grad_clip" range:"[0,inf)" doc:"largest norm of the gradient; 0 does not clip"`
}

// VAE is the autoencoder and its training.
type VAE struct {
	Stage
	Channels []int   `toml:"channels" range:"[8,512]" doc:"channels of each level, multiples of 8; each but the last halves the picture"`
	Latent   int     `toml:"latent" range:"[1,64]" doc:"channels of a latent"`
	KL       float64 `toml:"kl" range:"[0,1]" doc:"weight of the latents' distance from the normal distribution"`
}

// Model is the shape of the text encoders and the transformer.
type Model struct {
	Tokens     int      `toml:"tokens" range:"[8,77]" doc:"length of a caption"`
	TextWidth  int      `toml:"text_width" range:"[32,1024]" doc:"of both text encoders"`
	TextLayers int      `toml:"text_layers" range:"[2,24]" doc:"of both text encoders"`
	Layers     int      `toml:"layers" range:"[1,38]" doc:"of the transformer"`
	Heads      int      `toml:"heads" range:"[1,38]" doc:"of the transformer, 64 wide each"`
	QKNorm     bool     `toml:"qk_norm" doc:"norms of queries and keys, as SD3.5 has"`
	Zero       []string `toml:"zero" doc:"patterns of the transformer's parameters that begin as zeros"`
}

// Flow is the training of text encoders and transformer.
type Flow struct {
	Stage
	Micro   int     `toml:"micro" range:"[1,4096]" doc:"pictures a pass; the result does not depend on it"`
	Muon    float64 `toml:"muon" range:"[0,100]" doc:"Muon's learning rate for hidden matrices, beside lr; 0 leaves them to AdamW"`
	Tail    float64 `toml:"tail" range:"(0,1]" doc:"share of the steps over which the rate falls to nothing"`
	Shift   float64 `toml:"shift" range:"(0,100]" doc:"of times, in training and sampling"`
	Uniform float64 `toml:"uniform" range:"[0,1]" doc:"share of times drawn evenly, the others are logit-normal"`
	EMA     float64 `toml:"ema" range:"[0,1)" doc:"how much of the averaged weights is kept at most"`
	Save    int     `toml:"save_every" range:"[1,inf)" doc:"steps between two saved states"`
}

// Phase trains the saved weights on, with a new optimiser, on other captions.
type Phase struct {
	Steps int     `toml:"steps,required" range:"[1,inf)" doc:"updates"`
	LR    float64 `toml:"lr" range:"(0,1)" doc:"learning rate, the highest of the phase"`
	Word  float64 `toml:"word" range:"[0,1]" doc:"share of words; the other families keep their weights to each other"`
	Plain float64 `toml:"plain" range:"[0,1]" doc:"share of captions that do not say what the background is"`
}

// SetDefaults is a phase before its keys are read.
func (p *Phase) SetDefaults() { *p = Phase{LR: 5e-4, Word: 0.35} }

// Judging sets the evaluations under way.
type Judging struct {
	Every    int     `toml:"every" range:"[1,inf)" doc:"steps between two evaluations"`
	Prompts  int     `toml:"prompts" range:"[1,4096]" doc:"held-out captions"`
	Steps    int     `toml:"steps" range:"[1,1000]" doc:"of the sampler"`
	Guidance float64 `toml:"guidance" range:"[1,20]" doc:"the guidance that the last evaluation tries too"`
}

// DefaultPipeline is the recipe of an empty file: a model whose training takes about an hour on
// two cores.
func DefaultPipeline() Pipeline {
	stage := Stage{Steps: 300, Batch: 16, LR: 1e-3, Warmup: 20, Betas: [2]float64{0.9, 0.99}, GradClip: 1}
	vae := stage
	vae.Steps, vae.LR, vae.Warmup = 1000, 2e-3, 30
	flow := Stage{Steps: 6000, Batch: 64, LR: 1e-3, Warmup: 100, Betas: [2]float64{0.9, 0.98}, Decay: 0.01, GradClip: 1}
	return Pipeline{
		Makes:   "pipeline",
		Seed:    1,
		Data:    Data{Scenes: 48000, Noise: 0.4, Drop: 0.08, One: 0.1, Relation: 0.45, Count: 0.2, Word: 0.25},
		VAE:     VAE{Stage: vae, Channels: []int{16, 32, 64}, Latent: 8, KL: 1e-3},
		Decoder: stage,
		Model:   Model{Tokens: 16, TextWidth: 64, TextLayers: 3, Layers: 6, Heads: 2},
		Flow:    Flow{Stage: flow, Micro: 16, Muon: 3, Tail: 0.3, Shift: 3, Uniform: 0.1, EMA: 0.997, Save: 250},
		Judge:   Judging{Every: 500, Prompts: 64, Steps: 10, Guidance: 3},
	}
}

// Read reads a recipe and the settings over it. The error holds every mistake.
func Read(file string, sets []string) (Recipe, error) {
	text, err := regular.Read(file, config.MaxSize)
	if err != nil {
		return nil, err
	}
	return Parse(file, text, sets)
}

// Parse is Read of a text.
func Parse(name string, text []byte, sets []string) (Recipe, error) {
	doc := config.Parse(name, text)
	for _, s := range sets {
		doc.Set(s)
	}
	var r Recipe
	switch kind := doc.Text("makes"); kind {
	case "clip":
		t := DefaultTowers()
		doc.Decode("", &t)
		t.check(doc)
		r = &t
	case "vlm":
		t := DefaultTalker()
		doc.Decode("", &t)
		t.check(doc)
		r = &t
	case "motion":
		m := DefaultWan()
		doc.Decode("", &m)
		m.check(doc)
		r = &m
	case "detector":
		d := DefaultDetector()
		doc.Decode("", &d)
		d.check(doc)
		r = &d
	case "edit":
		e := DefaultEditor()
		doc.Decode("", &e)
		e.check(doc)
		r = &e
	default: // an unknown name is reported as the key is decoded
		p := DefaultPipeline()
		doc.Decode("", &p)
		p.check(doc)
		r = &p
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// check reports settings that contradict each other.
func (r *Pipeline) check(doc *config.Document) {
	r.VAE.check(doc)
	if doc.Clean("model.text_width") && r.Model.TextWidth%64 != 0 && r.Model.TextWidth > 64 {
		doc.Report("model.text_width", fmt.Sprintf("%d is not a multiple of 64", r.Model.TextWidth), "heads are 64 wide")
	}
	r.Data.check(doc)
}

func (v VAE) check(doc *config.Document) {
	for _, c := range v.Channels {
		if c%8 != 0 && doc.Clean("vae.channels") {
			doc.Report("vae.channels", fmt.Sprintf("%d is not a multiple of 8", c), "group norms have 8 groups")
		}
	}
	if n := len(v.Channels); doc.Clean("vae.channels") && (n == 0 || scenes.Size%(1<<n) != 0) {
		doc.Report("vae.channels", fmt.Sprintf("%d levels do not divide a picture of %d", len(v.Channels), scenes.Size), "use 1 to 5 levels")
	}
}

func (d Data) check(doc *config.Document) {
	if d.One+d.Relation+d.Count+d.Word <= 0 && doc.Clean("data") {
		doc.Report("data", "all families have weight 0", "give one, relation, count or word a weight")
	}
}

// Text is the whole recipe.
func (r *Pipeline) Text() ([]byte, error) { return textOf(r) }

func textOf(r Recipe) ([]byte, error) {
	var b bytes.Buffer
	err := config.Write(&b, r, func(string) string { return "" })
	return b.Bytes(), err
}
