package pretrain

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/config"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Talker is how a small Qwen2.5-VL is made that answers questions about tables of cards
// (vision/scenes/cards), and knows how a zoom is called:
//
//	loss = mean over conversations of the sum of -log p(token) over what the assistant says
//
// where lists of boxes weigh less a token, for they are long. First the tower learns to see, and
// where (sight.go); then skills: where every card lies, and which digit a crop shows; then both together,
// for the card that is asked for (aim); then the start of reinforcement learning, in conversations
// (talk.go): too often it answers at once, from a picture in which no digit can be seen, and its
// boxes are careless.
type Talker struct {
	Makes  string      `toml:"makes" enum:"pipeline,clip,vlm" doc:"what kind of model this is the recipe of"`
	Name   string      `toml:"name,required" doc:"what the model is called"`
	Seed   uint64      `toml:"seed" doc:"of everything that is drawn"`
	Model  TalkerModel `toml:"model" doc:"tower and language model"`
	Sight  TalkerStage `toml:"sight" doc:"how its tower learns to see"`
	Places TalkerStage `toml:"places" doc:"how its tower learns what lies where"`
	Skill  TalkerStage `toml:"skill" doc:"how it learns to say what it sees"`
	Aim    TalkerStage `toml:"aim" doc:"how it learns to look at what is asked for"`
	Start  TalkerStage `toml:"start" doc:"how it learns conversations"`
	Talk   Talk        `toml:"talk" doc:"what conversations are like"`
	Judge  TalkerJudge `toml:"judge" doc:"how the model is judged on the way"`
}

// TalkerModel is the shape of both parts.
type TalkerModel struct {
	Width        int `toml:"width" range:"[32,1024]" doc:"of the language model"`
	Layers       int `toml:"layers" range:"[1,24]" doc:"of the language model"`
	Inner        int `toml:"inner" range:"[32,4096]" doc:"of its layers' products"`
	Heads        int `toml:"heads" range:"[1,32]" doc:"of the language model"`
	KVHeads      int `toml:"kv_heads" range:"[1,32]" doc:"of its keys and values"`
	VisionWidth  int `toml:"vision_width" range:"[32,1024]" doc:"of the vision tower"`
	VisionLayers int `toml:"vision_layers" range:"[1,24]" doc:"of the vision tower"`
	VisionInner  int `toml:"vision_inner" range:"[32,4096]" doc:"of its layers' products"`
	VisionHeads  int `toml:"vision_heads" range:"[1,32]" doc:"of the vision tower"`
	Patch        int `toml:"patch" range:"[2,32]" doc:"pixels a side of a patch; 2 x 2 of them are a token"`
	Least        int `toml:"least" range:"[16,1024]" doc:"pixels a side that smaller pictures are made"`
	Most         int `toml:"most" range:"[16,1024]" doc:"pixels a side that larger pictures are made"`
}

// TalkerStage is a stage of the training.
type TalkerStage struct {
	Stage
	Muon float64 `toml:"muon" range:"[0,100]" doc:"Muon's learning rate for hidden matrices, beside lr; 0 leaves them to AdamW"`
	EMA  float64 `toml:"ema" range:"[0,1)" doc:"how much of the averaged weights is kept at most"`
	Save int     `toml:"save_every" range:"[1,inf)" doc:"steps between two saved states"`
}

// TalkerJudge is what is said on the way.
type TalkerJudge struct {
	Every  int `toml:"every" range:"[1,inf)" doc:"steps between two evaluations"`
	Tables int `toml:"tables" range:"[2,4096]" doc:"held-out tables"`
}

// DefaultTalker is the recipe of an empty file.
func DefaultTalker() Talker {
	stage := Stage{Steps: 800, Batch: 32, LR: 1e-3, Warmup: 60, Betas: [2]float64{0.9, 0.98}, Decay: 0.01, GradClip: 1}
	sight, start := stage, stage
	sight.Batch = 64
	places := sight
	sight.Steps, places.Steps = 1300, 300
	start.Steps, start.LR = 300, 5e-4
	aim := stage
	aim.Steps = 400
	return Talker{
		Makes: "vlm", Seed: 1,
		Model:  TalkerModel{Width: 128, Layers: 4, Inner: 352, Heads: 4, KVHeads: 2, VisionWidth: 96, VisionLayers: 3, VisionInner: 256, VisionHeads: 3, Patch: 8, Least: 64, Most: 64},
		Sight:  TalkerStage{Stage: sight, EMA: 0.99, Save: 500},
		Places: TalkerStage{Stage: places, EMA: 0.99, Save: 500},
		Skill:  TalkerStage{Stage: stage, Muon: 3, EMA: 0.995, Save: 250},
		Aim:    TalkerStage{Stage: aim, Muon: 3, EMA: 0.99, Save: 200},
		Start:  TalkerStage{Stage: start, Muon: 3, EMA: 0.99, Save: 200},
		Talk:   Talk{Zoom: 0.45, Careless: 0.25, Miss: 0.35, Whole: 0.6, Read: 0.4, Look: 0.6, Skills: 0.25},
		Judge:  TalkerJudge{Every: 250, Tables: 128},
	}
}

func (t *Talker) check(doc *config.Document) {
	if !doc.Clean("model") {
		return
	}
	m := t.Model
	if m.Width%m.Heads != 0 || m.Width/m.Heads%8 != 0 || m.Heads%m.KVHeads != 0 {
		doc.Report("model.heads", fmt.Sprintf("%d heads and %d of keys do not share a width of %d in multiples of 8", m.Heads, m.KVHeads, m.Width), "heads of 32 are usual")
	}
	if m.VisionWidth%(4*m.VisionHeads) != 0 {
		doc.Report("model.vision_heads", fmt.Sprintf("%d heads do not share a width of %d in multiples of 4", m.VisionHeads, m.VisionWidth), "heads of 32 are usual")
	}
	if m.Most < m.Least || m.Least%(2*m.Patch) != 0 || m.Most%(2*m.Patch) != 0 {
		doc.Report("model.most", fmt.Sprintf("pictures of %d to %d pixels a side are not made of tokens of %d", m.Least, m.Most, 2*m.Patch), "multiples of twice the patch")
	}
}

// Text is the whole recipe.
func (t *Talker) Text() ([]byte, error) { return textOf(t) }

// weightsFile holds a model's weights.
const weightsFile = "model.safetensors"

func (t *Talker) run(dir string, h Hooks) error {
	if err := t.Frame(dir); err != nil {
		return err
	}
	for _, s := range []lessons{
		{"sight", true, t.Sight, t.look(0)},
		{"places", true, t.Places, t.look(t.Talk.Whole)},
		{"skill", false, t.Skill, t.talk(t.skill)},
		{"aim", false, t.Aim, t.talk(t.aim)},
		{"start", false, t.Start, t.talk(t.start)},
	} {
		mark := filepath.Join(dir, s.name+".done")
		if _, err := os.Stat(mark); err == nil {
			h.Say(s.name + ": done before")
			continue
		}
		if err := t.stage(dir, h, s); err != nil {
			return err
		}
		if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// lessons are a stage: pass leaves the gradient of an update in what is trained, and returns the
// loss.
type lessons struct {
	name  string
	mute  bool // the model cannot be judged by what it says yet
	stage TalkerStage
	pass  func(k *conversations.Speaker, s *stage, key rng.Key) (float64, error)
}

// stage gives lessons to what the stage before saved.
func (t *Talker) stage(dir string, h Hooks, l lessons) error {
	name, o, first := l.name, l.stage, l.name == "sight"
	pool, key := tensor.NewPool(h.Backend), rng.New(t.Seed).With(rng.Purpose(name))
	open := conversations.Options{Pool: pool, Train: []string{".*"}}
	if first {
		open.Draw = &key
	}
	k, err := conversations.Open(dir, open)
	if err != nil {
		return err
	}
	defer k.Close()
	if first {
		if err := k.Params.Set("model.embed_tokens.weight", func(x []float32) {
			for i := range x {
				x[i] *= float32(1 / math.Sqrt(float64(t.Model.Width)))
			}
		}); err != nil {
			return err
		}
	}
	trained := k.Params.Trained()
	s := o.begin(name, pool, h.Say, groupsOf(trained, o.Muon, "embed")...)
	defer s.mover.Free()
	shadow := optim.NewShadow(trained)
	defer shadow.Free()
	state := &progress{dir, name, []*nn.Params{k.Params}, s.mover, shadow}
	from, err := state.load()
	if err != nil {
		return err
	}
	averaged := func(step int) error {
		shadow.Swap()
		defer shadow.Swap()
		if err := saveHalved(filepath.Join(dir, weightsFile), k.Params); err != nil {
			return err
		}
		if l.mute {
			return nil
		}
		v, err := JudgeTalker(k, t, t.Judge.Tables)
		if err == nil {
			h.Say(fmt.Sprintf("judged at %d, %s", step, v))
		}
		return err
	}
	var loss mean
	for step := from + 1; step <= s.Steps; step++ {
		if err := h.stopped(); err != nil {
			return state.orSave(err, step-1)
		}
		value, err := l.pass(k, &s, key.Iteration(step))
		if err != nil {
			return fmt.Errorf("%s, step %d: %w", name, step, err)
		}
		if _, err := s.mover.Step(s.rate(step, 0.02)); err != nil {
			return fmt.Errorf("%s, step %d: %w", name, step, err)
		}
		shadow.Follow(min(o.EMA, float64(1+step)/float64(10+step)))
		if loss.add(value); step%25 == 0 || step == s.Steps {
			s.say(step, s.Steps, "loss %.4f", loss.take())
		}
		if step%o.Save == 0 {
			if err := state.save(step); err != nil {
				return err
			}
		}
		if step%t.Judge.Every == 0 && step < s.Steps {
			if err := averaged(step); err != nil {
				return err
			}
		}
	}
	return averaged(s.Steps)
}
