package pretrain

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// Towers is how a CLIP is made (Radford et al. 2021), with a linear head beside it that ranks
// pictures as they were drawn above damaged ones (as the aesthetic predictor on CLIP's
// embeddings, Schuhmann 2022, which is linear too):
//
//	loss = (cross entropy of captions by picture + of pictures by caption) / 2
//	     + weight · mean of log(1 + exp(head(damaged) - head(drawn)))
//
// Each picture's caption is among all captions of the batch, and beside one with a wrong attribute: a reward mostly
// has to tell whether an attribute is right.
type Towers struct {
	Makes string     `toml:"makes" enum:"pipeline,clip,vlm" doc:"what kind of model this is the recipe of"`
	Name  string     `toml:"name,required" doc:"what the model is called"`
	Seed  uint64     `toml:"seed" doc:"random seed"`
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

// TowerJudge sets the evaluations under way.
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
		h.Log("train: done before")
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
	s := t.Train.begin("train", pool, h.Log, g.groups(t.Train.Muon)...)
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
			h.Log(fmt.Sprintf("judged at %d, %s", step, v))
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

// pair is both towers and the head.
type pair struct {
	*clip.Model
	tokens       *tokenizer.Tokenizer
	length       int
	head         *nn.Linear
	params       []*nn.Params // the towers', the head's
	preprocessor vision.Preprocess
}

func (t *Towers) settings(vocabulary int) map[string]any {
	m := t.Model
	encoder := func(width, layers int) map[string]any {
		return map[string]any{"hidden_act": "gelu", "hidden_size": width, "intermediate_size": 4 * width, "projection_dim": m.Out,
			"num_hidden_layers": layers, "num_attention_heads": width / m.HeadWidth, "layer_norm_eps": 1e-5}
	}
	text, pictures := encoder(m.TextWidth, m.TextLayers), encoder(m.VisionWidth, m.VisionLayers)
	text["model_type"], text["max_position_embeddings"], text["vocab_size"] = "clip_text_model", m.Tokens, vocabulary
	text["bos_token_id"], text["eos_token_id"], text["pad_token_id"] = vocabulary-2, vocabulary-1, vocabulary-1
	pictures["model_type"], pictures["image_size"], pictures["patch_size"], pictures["num_channels"] = "clip_vision_model", scenes.Size, m.Patch, 3
	return map[string]any{"architectures": []string{"CLIPModel"}, "model_type": "clip", "projection_dim": m.Out, "logit_scale_init_value": portable.Log(1 / 0.07),
		"text_config": text, "vision_config": pictures}
}

// writeFrame writes the folder's files beside weights.
func (t *Towers) writeFrame(dir string) error {
	if err := writeTokenizer(dir, t.Model.Tokens, captionWords()); err != nil {
		return err
	}
	k, err := tokenizer.Open(dir)
	if err != nil {
		return err
	}
	p := vision.CLIPPillow(scenes.Size)
	if err := writeJSON(filepath.Join(dir, "preprocessor_config.json"), map[string]any{
		"image_processor_type": "CLIPImageProcessor", "do_resize": true, "size": map[string]int{"shortest_edge": p.Size}, "resample": 3,
		"do_center_crop": true, "crop_size": map[string]int{"height": p.Size, "width": p.Size}, "do_rescale": true, "rescale_factor": 1.0 / 255,
		"do_normalize": true, "image_mean": p.Mean, "image_std": p.Std, "do_convert_rgb": true}); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "config.json"), t.settings(k.Size()))
}

// openTowers opens a folder's towers and head; without a key they are read and stay as they are,
// in fp32; with one they are drawn and trained.
func openTowers(dir string, pool *tensor.Pool, key *rng.Key) (*pair, error) {
	c, err := clip.ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	k, err := tokenizer.Open(dir)
	if err != nil {
		return nil, err
	}
	g := &pair{tokens: k, length: c.Text.Positions, preprocessor: vision.CLIPPillow(c.Vision.Side)}
	for _, name := range []string{"model.safetensors", HeadFile} {
		o := nn.Options{Pool: pool, Math: kernels.MathF32}
		if key != nil {
			o.Math, o.Key, o.Train = kernels.MathBF16, key.With(rng.Purpose(name)), []string{".*"}
		} else {
			f, err := safetensors.Open(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			defer f.Close()
			o.Source = f
		}
		p, err := nn.New(o)
		if err != nil {
			return nil, err
		}
		g.params = append(g.params, p)
	}
	g.Model, g.head = clip.New(g.params[0], c), g.params[1].Linear("layers.0", c.Out, 1, true)
	for _, p := range g.params {
		if err := p.Check(); err != nil {
			return nil, err
		}
	}
	if key == nil {
		return g, nil
	}
	scaled := func(by float32) func(x []float32) {
		return func(x []float32) {
			for i := range x {
				x[i] *= by
			}
		}
	}
	for name, f := range map[string]func(x []float32){
		"text_model.embeddings.token_embedding.weight": scaled(0.02), "text_model.embeddings.position_embedding.weight": scaled(0.02),
		"vision_model.embeddings.position_embedding.weight": scaled(0.02), "vision_model.embeddings.class_embedding": scaled(0.02),
		"logit_scale": func(x []float32) { x[0] = float32(portable.Log(1 / 0.07)) },
	} {
		if err := g.params[0].Set(name, f); err != nil {
			return nil, err
		}
	}
	// Parts of unit vectors are small; the head's weights are large for it.
	return g, g.params[1].Set("layers.0.weight", scaled(8))
}

func (g *pair) free() {
	for _, p := range g.params {
		p.Free()
	}
}

// save writes both files in bf16.
func (g *pair) save(dir string) error {
	for i, name := range []string{"model.safetensors", HeadFile} {
		if err := saveHalved(filepath.Join(dir, name), g.params[i]); err != nil {
			return err
		}
	}
	return nil
}

// groups are Muon's parameters, and AdamW's.
func (g *pair) groups(muon float64) []optim.Group {
	return groupsOf(slices.Concat(g.params[0].Trained(), g.params[1].Trained()), muon, "embed", "projection", "layers.0.", "logit_scale")
}

// embedPictures and embedCaptions put both into the common space.
func (g *pair) embedPictures(tp *autograd.Tape, list [][]uint8) *autograd.Value {
	var x []float32
	for _, px := range list {
		var err error
		if x, err = g.preprocessor.Apply(x, &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: px}, vision.ChannelsLast); err != nil {
			panic(err) // pictures are all of one size
		}
	}
	return g.Vision.Forward(tp, tp.Upload("pictures", x, len(list), scenes.Size, scenes.Size, 3)).Projected
}

// fixed is a caption of exactly n ids. Captions and their tokenizer are of our making: one that cannot be
// encoded is a mistake in this package.
func fixed(t *tokenizer.Tokenizer, caption string, n int, pad int32) []int32 {
	ids, _, err := t.Fixed(caption, n, pad)
	if err != nil {
		panic(err)
	}
	return ids
}

func (g *pair) embedCaptions(tp *autograd.Tape, list []string) *autograd.Value {
	ids := make([][]int32, len(list))
	end, _ := g.tokens.ID(endToken)
	for i, c := range list {
		ids[i] = fixed(g.tokens, c, g.length, end)
	}
	return g.Text.Forward(tp, ids).Projected
}

// contrast is the input of one update of two towers.
type contrast struct {
	pictures, damaged [][]uint8 // as drawn, and each once more, damaged
	captions, wrong   []string  // right ones, and each once more with a wrong attribute
	kinds             []string  // of damage
}

// batch is the input of update step: pictures differ in place and size whenever they come again.
func (t *Towers) batch(d dataset, seen *order, step int) contrast {
	var c contrast
	for i := range t.Train.Batch {
		n, epoch := seen.at((step-1)*t.Train.Batch + i)
		s, k := d.scene(n), d.key.Iteration(epoch).Sample(n)
		px := s.Draw(scenes.Jitter(k.With("jitter").Draw()))
		c.add(s, px, k)
	}
	return c
}

// add takes a picture in, with its foils.
func (c *contrast) add(s scenes.Scene, px []uint8, k rng.Key) {
	r := k.With("damage").Draw()
	kind := scenes.Degradations[r.Intn(len(scenes.Degradations))]
	damaged, err := scenes.Degrade(px, kind, r.Float64(), r)
	if err != nil {
		panic(err) // kinds and strengths are its own
	}
	c.pictures, c.damaged = append(c.pictures, px), append(c.damaged, damaged)
	c.captions, c.wrong = append(c.captions, s.Prompt), append(c.wrong, scenes.Corrupt(s.Prompt, k.With("wrong").Draw()))
	c.kinds = append(c.kinds, kind)
}

// pass leaves the gradient of an update in the parameters and returns both losses.
func (g *pair) pass(s *stage, quality float64, c contrast) (matching, ranking float64) {
	tp := s.tape()
	n := len(c.pictures)
	pictures := g.embedPictures(tp, append(append([][]uint8(nil), c.pictures...), c.damaged...))
	captions := g.embedCaptions(tp, append(append([]string(nil), c.captions...), c.wrong...))
	scale := g.Scale(tp)
	x, y := rows(pictures), rows(captions)
	like := clip.Similarity(x[:n], y, float64(scale.F32()[0]))
	matching, slopes := crossEntropies(like.Logits)
	dx, dy, dScale := like.Gradients(slopes)

	// The head reads unit vectors, and so do those who use it.
	units, norms := clip.Units(x)
	ranks := g.ranks(tp, units)
	r := ranks.F32()
	dRanks := make([]float32, 2*n)
	for i := range n {
		l, slope := ranked(float64(r[i]) - float64(r[n+i]))
		ranking += l / float64(n)
		dRanks[i], dRanks[n+i] = float32(quality*slope/float64(n)), float32(-quality*slope/float64(n))
	}
	weight := g.head.W.Value.F32()
	for i := range x {
		if i >= n {
			dx = append(dx, make([]float64, len(x[i])))
		}
		along := 0.0
		for k, u := range units[i] {
			along += float64(u * float64(weight[k]))
		}
		for k, u := range units[i] {
			dx[i][k] += float64(dRanks[i]) * (float64(weight[k]) - float64(along*u)) / norms[i]
		}
	}
	tp.Backward(autograd.Seed{Of: pictures, Grad: flat(dx)}, autograd.Seed{Of: captions, Grad: flat(dy)},
		autograd.Seed{Of: scale, Grad: []float32{float32(dScale)}}, autograd.Seed{Of: ranks, Grad: dRanks})
	tp.Reset()
	return matching, ranking
}

// ranks is the head's number for every unit vector.
func (g *pair) ranks(tp *autograd.Tape, units [][]float64) *autograd.Value {
	return g.head.Apply(tp, tp.Upload("unit vectors", flat(units), len(units), len(units[0])), autograd.With{Wide: true})
}

// crossEntropies is half the mean of -log p(caption i | picture i) over all captions, and half
// that of -log p(picture i | caption i), with the slopes at the logits [pictures][captions].
// Captions beyond the pictures' number belong to none.
func crossEntropies(logits [][]float64) (loss float64, slopes [][]float64) {
	n := len(logits)
	slopes = make([][]float64, n)
	share := 0.5 / float64(n)
	for i, row := range logits {
		slopes[i] = make([]float64, len(row))
		p, l := softmaxAt(row, i)
		loss += float64(share * l)
		for j := range row {
			slopes[i][j] += float64(share * p[j])
		}
		slopes[i][i] -= share
	}
	column := make([]float64, n)
	for j := range n {
		for i := range n {
			column[i] = logits[i][j]
		}
		p, l := softmaxAt(column, j)
		loss += float64(share * l)
		for i := range n {
			slopes[i][j] += float64(share * p[i])
		}
		slopes[j][j] -= share
	}
	return loss, slopes
}

// softmaxAt is the softmax of x, and -log of its value at i.
func softmaxAt(x []float64, i int) (p []float64, loss float64) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	p = make([]float64, len(x))
	for k, v := range x {
		p[k] = portable.Exp(v - top)
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
	return p, portable.Log(sum) + top - x[i]
}

// ranked is log(1 + exp(-d)) and its slope.
func ranked(d float64) (loss, slope float64) {
	e := portable.Exp(-math.Abs(d))
	return portable.Log1p(e) + max(-d, 0), -1 / (1 + portable.Exp(d))
}

// rows is a matrix's rows in float64.
func rows(v *autograd.Value) [][]float64 {
	x, n := v.F32(), v.Dim(1)
	out := make([][]float64, v.Dim(0))
	for i := range out {
		out[i] = make([]float64, n)
		for k := range n {
			out[i][k] = float64(x[i*n+k])
		}
	}
	return out
}

func flat(rows [][]float64) []float32 {
	var out []float32
	for _, r := range rows {
		for _, v := range r {
			out = append(out, float32(v))
		}
	}
	return out
}

// TowerEvaluation is how good towers are on scenes whose captions no training saw.
type TowerEvaluation struct {
	Pictures   int                `json:"pictures"`
	Captions   int                `json:"captions"`   // different ones
	Retrieved  float64            `json:"retrieved"`  // share of pictures whose own caption is the likest of all
	Captioned  float64            `json:"captioned"`  // share of captions whose likest picture is one of theirs
	Attributes float64            `json:"attributes"` // share of pictures liker to their caption than to one with a wrong attribute
	ByFamily   map[string]float64 `json:"attributes_by_family"`
	Ranked     float64            `json:"ranked"` // share of pictures that the head puts above themselves damaged
	ByDamage   map[string]float64 `json:"ranked_by_damage"`
}

func (v *TowerEvaluation) String() string {
	list := func(m map[string]float64) string {
		var out []string
		for k, x := range m {
			out = append(out, fmt.Sprintf("%s %.3f", k, x))
		}
		slices.Sort(out)
		return strings.Join(out, "  ")
	}
	return fmt.Sprintf("%d pictures: own caption of %d %.3f  own picture %.3f\n  right attribute %.3f  %s\n  drawn above damaged %.3f  %s",
		v.Pictures, v.Captions, v.Retrieved, v.Captioned, v.Attributes, list(v.ByFamily), v.Ranked, list(v.ByDamage))
}

// share is a mean of yes and no by name.
type share map[string]*mean

func (s share) add(name string, yes bool) {
	if s[name] == nil {
		s[name] = &mean{}
	}
	v := 0.0
	if yes {
		v = 1
	}
	s[name].add(v)
}

func (s share) means() map[string]float64 {
	out := map[string]float64{}
	for k, m := range s {
		out[k] = m.take()
	}
	return out
}

// JudgeTowers judges a folder's towers and head on n held-out pictures.
func JudgeTowers(pool *tensor.Pool, dir string, n int) (*TowerEvaluation, error) {
	g, err := openTowers(dir, pool, nil)
	if err != nil {
		return nil, err
	}
	defer g.free()
	key := rng.New(1).With("judge of towers")
	var c contrast
	var families []string
	var captions []string // different ones
	for i, s := range HeldOut(n) {
		c.add(s, s.Draw(scenes.Jitter(key.With("jitter").Sample(i).Draw())), key.Sample(i))
		families = append(families, string(s.Family))
		if !slices.Contains(captions, s.Prompt) {
			captions = append(captions, s.Prompt)
		}
	}
	embed := func(f func(tp *autograd.Tape, lo, hi int) *autograd.Value, n int) (all [][]float64) {
		for lo := 0; lo < n; lo += 64 {
			tp := autograd.New(pool, autograd.Options{DType: kernels.F32, Math: kernels.MathF32})
			all = append(all, rows(f(tp, lo, min(lo+64, n)))...)
			tp.Reset()
		}
		return all
	}
	pictures := embed(func(tp *autograd.Tape, lo, hi int) *autograd.Value { return g.embedPictures(tp, c.pictures[lo:hi]) }, n)
	damaged := embed(func(tp *autograd.Tape, lo, hi int) *autograd.Value { return g.embedPictures(tp, c.damaged[lo:hi]) }, n)
	all := append(append([]string(nil), captions...), c.wrong...)
	texts := embed(func(tp *autograd.Tape, lo, hi int) *autograd.Value { return g.embedCaptions(tp, all[lo:hi]) }, len(all))

	units, _ := clip.Units(append(append([][]float64(nil), pictures...), damaged...))
	tp := autograd.New(pool, autograd.Options{DType: kernels.F32, Math: kernels.MathF32})
	ranks := g.ranks(tp, units).F32()
	tp.Reset()
	like := clip.Similarity(pictures, texts, 0).Logits
	v := &TowerEvaluation{Pictures: n, Captions: len(captions)}
	retrieval, attributes, damages := share{}, share{}, share{}
	best := make([]int, len(captions)) // the likest picture
	for i, row := range like {
		own := slices.Index(captions, c.captions[i])
		first := 0
		for j := range captions {
			if row[j] > row[first] {
				first = j
			}
			if row[j] > like[best[j]][j] {
				best[j] = i
			}
		}
		retrieval.add("picture", first == own)
		right := row[own] > row[len(captions)+i]
		retrieval.add("attribute", right)
		attributes.add(families[i], right)
		above := ranks[i] > ranks[n+i]
		retrieval.add("ranked", above)
		damages.add(c.kinds[i], above)
	}
	for j, i := range best {
		retrieval.add("caption", c.captions[i] == captions[j])
	}
	m := retrieval.means()
	v.Retrieved, v.Captioned, v.Attributes, v.Ranked = m["picture"], m["caption"], m["attribute"], m["ranked"]
	v.ByFamily, v.ByDamage = attributes.means(), damages.means()
	return v, nil
}
