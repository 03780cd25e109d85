package pretrain

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Talker is how a small Qwen2.5-VL is made that answers questions about tables of cards
// (vision/scenes/cards), and knows how a zoom is called:
//
//	loss = mean over conversations of the sum of -log p(token) over the assistant's tokens
//
// where lists of boxes weigh less a token, for they are long. First the tower learns to see, and
// where (talk.go); then skills: where every card lies, and which digit a crop shows; then both together,
// for the card that is asked for (aim); then the start of reinforcement learning, in conversations
// (talk.go): too often it answers at once, from a picture in which no digit can be seen, and its
// boxes are careless.
type Talker struct {
	Makes  string      `toml:"makes" enum:"pipeline,clip,vlm" doc:"what kind of model this is the recipe of"`
	Name   string      `toml:"name,required" doc:"what the model is called"`
	Seed   uint64      `toml:"seed" doc:"random seed"`
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

// TalkerJudge sets the evaluations under way.
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
			h.Log(s.name + ": done before")
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

// lessons are a stage: pass leaves the gradient of an update in the trained parameters, and returns the loss.
type lessons struct {
	name  string
	mute  bool // the model's answers cannot be judged yet
	stage TalkerStage
	pass  func(k *chat.VLM, s *stage, key rng.Key) (float64, error)
}

// stage gives lessons to the model that the stage before saved.
func (t *Talker) stage(dir string, h Hooks, l lessons) error {
	name, o, first := l.name, l.stage, l.name == "sight"
	pool, key := tensor.NewPool(h.Backend), rng.New(t.Seed).With(rng.Purpose(name))
	open := chat.Options{Pool: pool, Train: []string{".*"}}
	if first {
		open.Draw = &key
	}
	k, err := chat.Open(dir, open)
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
	s := o.begin(name, pool, h.Log, groupsOf(trained, o.Muon, "embed")...)
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
			h.Log(fmt.Sprintf("judged at %d, %s", step, v))
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

// A talker's folder has beside weights: config.json, the tokenizer, how pictures are read.

//go:embed chat_template.jinja
var chatTemplate []byte // Qwen2.5-VL's (Apache 2.0), as published

// settings is config.json.
func (t *Talker) settings(vocabulary int) map[string]any {
	m := t.Model
	pairs := m.Width / m.Heads / 2
	id := func(token string) int {
		return vocabulary - len(specialTokens) - len(plainTokens) + slices.Index(specialTokens, token)
	}
	return map[string]any{"architectures": []string{"Qwen2_5_VLForConditionalGeneration"}, "model_type": "qwen2_5_vl", "torch_dtype": "bfloat16",
		"vocab_size": vocabulary, "hidden_size": m.Width, "intermediate_size": m.Inner, "num_hidden_layers": m.Layers, "num_attention_heads": m.Heads,
		"num_key_value_heads": m.KVHeads, "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0, "max_position_embeddings": 4096,
		"rope_scaling":        map[string]any{"type": "mrope", "mrope_section": []int{pairs - 2*(3*pairs/8), 3 * pairs / 8, 3 * pairs / 8}},
		"tie_word_embeddings": true, "image_token_id": id("<|image_pad|>"), "video_token_id": id("<|video_pad|>"),
		"vision_start_token_id": id("<|vision_start|>"), "vision_end_token_id": id("<|vision_end|>"), "eos_token_id": id("<|im_end|>"), "bos_token_id": id("<|endoftext|>"),
		"vision_config": map[string]any{"model_type": "qwen2_5_vl", "depth": m.VisionLayers, "hidden_size": m.VisionWidth, "intermediate_size": m.VisionInner,
			"num_heads": m.VisionHeads, "out_hidden_size": m.Width, "patch_size": m.Patch, "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3, "in_chans": 3,
			"window_size": 8 * m.Patch, "fullatt_block_indexes": []int{m.VisionLayers - 1}, "tokens_per_second": 2, "hidden_act": "silu"}}
}

// Frame writes the folder's files beside weights.
func (t *Talker) Frame(dir string) error {
	n, err := writeBytePairs(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), chatTemplate, 0o644); err != nil {
		return err
	}
	m := t.Model
	if err := writeJSON(filepath.Join(dir, "preprocessor_config.json"), map[string]any{
		"image_processor_type": "Qwen2VLImageProcessor", "patch_size": m.Patch, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": m.Least * m.Least, "max_pixels": m.Most * m.Most,
		"do_resize": true, "do_rescale": true, "do_normalize": true, "do_convert_rgb": true, "rescale_factor": 1.0 / 255, "resample": 3,
		"image_mean": []float64{0.48145466, 0.4578275, 0.40821073}, "image_std": []float64{0.26862954, 0.26130258, 0.27577711}}); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "config.json"), t.settings(n))
}

// A step of conversations: all of them in one pass, and the assistant's tokens are learnt.

// talk is lessons of conversations.
func (t *Talker) talk(of func(key rng.Key) conversation) func(k *chat.VLM, s *stage, key rng.Key) (float64, error) {
	return func(k *chat.VLM, s *stage, key rng.Key) (float64, error) {
		return t.converse(k, s, key, of)
	}
}

// converse is a step of these, all at once.
func (t *Talker) converse(k *chat.VLM, s *stage, key rng.Key, of func(key rng.Key) conversation) (float64, error) {
	var all []vlm.Stretch
	var rows, tokens []int32
	var grad []float32
	at := 0
	spoken, err := prepared(s.Batch, func(i int) (said, error) { return of(key.Sample(i)).say(k) })
	if err != nil {
		return 0, err
	}
	for _, c := range spoken {
		for row, next := range c.next {
			if next >= 0 {
				rows, tokens, grad = append(rows, int32(at+row)), append(tokens, next), append(grad, float32(-c.weight/float64(s.Batch)))
			}
		}
		all, at = append(all, c.Stretch), at+len(c.IDs)
	}
	tp := s.tape()
	defer tp.Reset()
	hidden, err := k.Model.HiddenAll(tp, all)
	if err != nil {
		return 0, err
	}
	return taught(tp, k.Model.LogProbs(tp, hidden, rows, tokens, 1), grad), nil
}

// taught leaves the gradient of a sum of log-probabilities, and returns it.
func taught(tp *autograd.Tape, lp *autograd.Value, weights []float32) (sum float64) {
	for i, x := range lp.F32() {
		sum += float64(float64(x) * float64(weights[i]))
	}
	tp.Backward(autograd.Seed{Of: lp, Grad: weights})
	return sum
}

// prepared are n lessons, made side by side: pictures take as long as their training.
func prepared[T any](n int, one func(i int) (T, error)) ([]T, error) {
	all, errs := make([]T, n), make([]error, n)
	var next atomic.Int64
	var done sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				all[i], errs[i] = one(i)
			}
		})
	}
	done.Wait()
	return all, errors.Join(errs...)
}

// TalkerEvaluation is how well a model sees tables that no training drew, each token of the right
// answer guessed after those before it.
type TalkerEvaluation struct {
	Tables int     `json:"tables"`
	Far    float64 `json:"far"`    // mean distance of a box's edges, in pixels as shown
	Aim    float64 `json:"aim"`    // that of the card that is asked for
	Read   float64 `json:"read"`   // share of digits read from a crop
	Direct float64 `json:"direct"` // share of digits read from the whole table
}

func (v *TalkerEvaluation) String() string {
	return fmt.Sprintf("%d tables: edges of boxes off by %.2f pixels, of a zoom by %.2f  digits of crops read %.3f, of tables %.3f", v.Tables, v.Far, v.Aim, v.Read, v.Direct)
}

// JudgeTalker judges a model on n tables.
func JudgeTalker(k *chat.VLM, t *Talker, n int) (*TalkerEvaluation, error) {
	v := &TalkerEvaluation{Tables: n}
	var far, aim, read, direct mean
	for i := range n {
		key := rng.New(1).With("judge of talkers").Sample(i)
		table, r := cards.Random(key.With("table")), key.With("lesson").Draw()
		m := table.Draw()
		ask := r.Intn(len(table.Cards))
		whole := conversation{table.Question(ask), 1, []*vision.Image{m}, []exchange{{says: answered(table.Cards[ask].Digit)}}}
		look := t.lookAt(table, m, ask, rounded(t.shown(table.Cards[ask].Box)))
		look.turns = look.turns[:1]
		for _, one := range []struct {
			c    conversation
			into *mean
		}{{t.whereAll(table, m), &far}, {look, &aim}, {readOne(table, m, r), &read}, {whole, &direct}} {
			if err := guess(k, one.c, func(want, got string) {
				w, err := strconv.Atoi(strings.TrimSpace(want))
				if err != nil {
					return // not a number
				}
				g, err := strconv.Atoi(strings.TrimSpace(got))
				switch {
				case one.into != &read && one.into != &direct && err != nil:
					one.into.add(float64(t.Model.Most))
				case one.into != &read && one.into != &direct:
					one.into.add(math.Abs(float64(w - g)))
				case err == nil && w == g:
					one.into.add(1)
				default:
					one.into.add(0)
				}
			}); err != nil {
				return nil, err
			}
		}
	}
	v.Far, v.Aim, v.Read, v.Direct = far.take(), aim.take(), read.take(), direct.take()
	return v, nil
}

// guess returns the likeliest token wherever the assistant speaks.
func guess(k *chat.VLM, c conversation, tell func(want, got string)) error {
	s, err := c.say(k)
	if err != nil {
		return err
	}
	tp := k.Tape(false)
	defer tp.Reset()
	hidden, err := k.Model.Hidden(tp, s.Stretch)
	if err != nil {
		return err
	}
	logits := k.Model.Logits(tp, hidden)
	x, width := logits.F32(), logits.Dim(-1)
	for i, want := range s.next {
		if want < 0 {
			continue
		}
		best := 0
		for j, l := range x[i*width : (i+1)*width] {
			if l > x[i*width+best] {
				best = j
			}
		}
		tell(k.Tokens.Decode([]int32{want}), k.Tokens.Decode([]int32{int32(best)}))
	}
	return nil
}
