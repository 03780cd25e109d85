package pretrain

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/config"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Towers is how a CLIP is made (Radford et al. 2021), with a linear head beside it that ranks
// pictures as they were drawn above damaged ones (as the aesthetic predictor on CLIP's
// embeddings, Schuhmann 2022, which is linear too):
//
//	loss = (cross entropy of captions by picture + of pictures by caption) / 2
//	     + weight · mean of log(1 + exp(head(damaged) - head(drawn)))
//
// Each picture's caption stands among all captions of the batch, and beside one with a wrong
// attribute: what a reward is asked most is whether an attribute is right.
type Towers struct {
	Makes string     `toml:"makes" enum:"pipeline,clip,vlm" doc:"what kind of model this is the recipe of"`
	Name  string     `toml:"name,required" doc:"what the model is called"`
	Seed  uint64     `toml:"seed" doc:"of everything that is drawn"`
	Data  Data       `toml:"data" doc:"what it sees"`
	Model TowerModel `toml:"model" doc:"both towers"`
	Train TowerStage `toml:"train" doc:"how they are trained"`
	Judge TowerJudge `toml:"judge" doc:"how they are judged on the way"`
}

// TowerModel is the shape of both towers.
type TowerModel struct {
	Tokens       int `toml:"tokens" range:"[8,77]" doc:"length of a caption"`
	TextWidth    int `toml:"text_width" range:"[32,1024]" doc:"of the text tower"`
	TextLayers   int `toml:"text_layers" range:"[1,24]" doc:"of the text tower"`
	VisionWidth  int `toml:"vision_width" range:"[32,1024]" doc:"of the vision tower"`
	VisionLayers int `toml:"vision_layers" range:"[1,24]" doc:"of the vision tower"`
	HeadWidth    int `toml:"head_width" range:"[16,128]" doc:"of attention heads"`
	Patch        int `toml:"patch" range:"[2,32]" doc:"pixels a side of a patch"`
	Out          int `toml:"out" range:"[8,1024]" doc:"of the common space"`
}

// TowerStage is the training of both towers.
type TowerStage struct {
	Stage
	Muon    float64 `toml:"muon" range:"[0,100]" doc:"Muon's learning rate for hidden matrices, beside lr; 0 leaves them to AdamW"`
	EMA     float64 `toml:"ema" range:"[0,1)" doc:"how much of the averaged weights is kept at most"`
	Quality float64 `toml:"quality" range:"[0,100]" doc:"weight of the head's loss"`
	Save    int     `toml:"save_every" range:"[1,inf)" doc:"steps between two saved states"`
}

// TowerJudge is what is said on the way.
type TowerJudge struct {
	Every    int `toml:"every" range:"[1,inf)" doc:"steps between two evaluations"`
	Pictures int `toml:"pictures" range:"[2,4096]" doc:"held-out pictures"`
}

// DefaultTowers is the recipe of an empty file.
func DefaultTowers() Towers {
	stage := Stage{Steps: 3000, Batch: 128, LR: 1e-3, Warmup: 100, Betas: [2]float64{0.9, 0.98}, Decay: 0.01, GradClip: 1}
	return Towers{
		Makes: "clip", Seed: 1,
		Data:  Data{Scenes: 48000, One: 0.1, Relation: 0.45, Count: 0.2, Word: 0.25},
		Model: TowerModel{Tokens: 16, TextWidth: 64, TextLayers: 3, VisionWidth: 96, VisionLayers: 4, HeadWidth: 32, Patch: 8, Out: 64},
		Train: TowerStage{Stage: stage, Muon: 3, EMA: 0.995, Quality: 0.5, Save: 500},
		Judge: TowerJudge{Every: 500, Pictures: 256},
	}
}

func (t *Towers) check(doc *config.Document) {
	for _, w := range []struct {
		key   string
		width int
	}{{"model.text_width", t.Model.TextWidth}, {"model.vision_width", t.Model.VisionWidth}} {
		if doc.Clean(w.key) && doc.Clean("model.head_width") && w.width%t.Model.HeadWidth != 0 {
			doc.Report(w.key, fmt.Sprintf("%d is not a multiple of head_width %d", w.width, t.Model.HeadWidth), "heads share the width evenly")
		}
	}
	if doc.Clean("model.patch") && scenes.Size%t.Model.Patch != 0 {
		doc.Report("model.patch", fmt.Sprintf("patches of %d do not fill a picture of %d", t.Model.Patch, scenes.Size), "2, 4, 8, 16 or 32")
	}
	t.Data.check(doc)
}

// Text is the whole recipe.
func (t *Towers) Text() ([]byte, error) { return textOf(t) }

// HeadFile is the ranking head, in the layout of the aesthetic predictor's.
const HeadFile = "aesthetic_mlp.safetensors"

func (t *Towers) run(dir string, h Hooks) error {
	if _, err := os.Stat(filepath.Join(dir, "train.done")); err == nil {
		h.Say("train: done before")
		return nil
	}
	if err := t.writeFrame(dir); err != nil {
		return err
	}
	pool, key := tensor.NewPool(h.Backend), rng.New(t.Seed)
	g, err := openTowers(dir, pool, &key)
	if err != nil {
		return err
	}
	defer g.free()
	s := t.Train.begin("train", pool, h.Say, g.groups(t.Train.Muon)...)
	defer s.mover.Free()
	shadow := optim.NewShadow(slices.Concat(g.params[0].Trained(), g.params[1].Trained()))
	defer shadow.Free()
	state := &progress{dir, "train", g.params, s.mover, shadow}
	from, err := state.load()
	if err != nil {
		return err
	}
	// averaged runs f on the averaged weights, as they would be read from the folder.
	averaged := func(f func() error) error {
		shadow.Swap()
		defer shadow.Swap()
		if err := g.save(dir); err != nil {
			return err
		}
		return f()
	}
	report := func(step int) error {
		v, err := JudgeTowers(pool, dir, t.Judge.Pictures)
		if err == nil {
			h.Say(fmt.Sprintf("judged at %d, %s", step, v))
		}
		return err
	}
	data := dataset{Data: t.Data, key: key, mix: t.Data.Mix()}
	seen := order{key: key.With("order of pictures"), n: t.Data.Scenes}
	var matching, ranking mean
	for step := from + 1; step <= s.Steps; step++ {
		if err := h.stopped(); err != nil {
			return state.orSave(err, step-1)
		}
		m, q := g.pass(&s, t.Train.Quality, t.batch(data, &seen, step))
		if _, err := s.mover.Step(s.rate(step, 0.02)); err != nil {
			return fmt.Errorf("train, step %d: %w", step, err)
		}
		shadow.Follow(min(t.Train.EMA, float64(1+step)/float64(10+step)))
		matching.add(m)
		ranking.add(q)
		if step%50 == 0 || step == s.Steps {
			s.say(step, s.Steps, "matching %.4f  ranking %.4f", matching.take(), ranking.take())
		}
		if step%t.Train.Save == 0 {
			if err := state.save(step); err != nil {
				return err
			}
		}
		if step%t.Judge.Every == 0 && step < s.Steps {
			if err := averaged(func() error { return report(step) }); err != nil {
				return err
			}
		}
	}
	if err := averaged(func() error { return report(s.Steps) }); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "train.done"), nil, 0o644)
}
