// Package blip is the network of ImageReward (Xu et al., 2023): BLIP's vision transformer, a
// BERT that looks at the picture in every layer, and linear layers on its first token, by the
// parameter names of the published checkpoint.
//
//	m, err := blip.Open("image-reward", blip.Options{Device: device})
//	rewards, err := m.Rewards(ctx, prompts, pictures)
//
// A folder holds med_config.json, model.safetensors (the published ImageReward.pt saved as safetensors) and
// BERT's tokenizer (tokenizer.json or vocab.txt of bert-base-uncased). Pictures are [B, H, W, 3], channels last.
package blip

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// Shape is a network's sizes: the text's from med_config.json, the picture's and the head's from
// the weights, which no file describes.
type Shape struct {
	Hidden     int     `json:"hidden_size"`
	Inner      int     `json:"intermediate_size"`
	Layers     int     `json:"num_hidden_layers"`
	Heads      int     `json:"num_attention_heads"`
	Vocabulary int     `json:"vocab_size"`
	Positions  int     `json:"max_position_embeddings"`
	Eps        float32 `json:"layer_norm_eps"`
	Act        string  `json:"hidden_act"`
	// VisionHeads of the picture's transformer; not said: a head for 64 channels.
	VisionHeads int `json:"vision_attention_heads"`

	Width, VisionInner, Blocks, Patch, Grid int    `json:"-"`
	Head                                    []rank `json:"-"`
}

// rank is a linear layer of the head.
type rank struct {
	name string
	out  int
}

// Options say how a folder is opened.
type Options struct {
	Device    *features.Device
	Batch     int    // pictures at once; 0: 8
	Tokenizer string // a folder that has one; "": the folder itself
}

// Model is a folder's network in memory. It may be asked from any goroutine.
type Model struct {
	tower   features.Tower
	network *Network
	params  *nn.Params
	tokens  *tokenizer.Tokenizer
	pad     int32
}

// Settings is the file of the text's sizes.
const Settings = "med_config.json"

// Open reads a folder: med_config.json, weights, and BERT's tokenizer.
func Open(dir string, o Options) (*Model, error) {
	s := Shape{Hidden: 768, Inner: 3072, Layers: 12, Heads: 12, Vocabulary: 30524, Positions: 512, Eps: 1e-12, Act: "gelu"}
	if err := hub.JSON(filepath.Join(dir, Settings), &s); err != nil {
		return nil, err
	}
	set, err := quant.OpenFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("%w; save the published ImageReward.pt as %s", err, filepath.Join(dir, "model.safetensors"))
	}
	defer set.Close()
	if err := s.measure(set); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	m := &Model{}
	if err := m.openTokens(dir, o, s); err != nil {
		return nil, err
	}
	side := s.Patch * s.Grid
	m.tower = features.Tower{Device: o.Device, Prepare: vision.OpenCLIP(side), Soft: vision.CLIPDifferentiable(side), Batch: o.Batch, Width: 1}
	m.tower.Soft.Mean, m.tower.Soft.Std = m.tower.Prepare.Mean, m.tower.Prepare.Std
	if m.params, err = o.Device.Load(set, func(p *nn.Params) { m.network = New(p, s) }); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

func (m *Model) openTokens(dir string, o Options, s Shape) (err error) {
	where := o.Tokenizer
	if where == "" {
		where = dir
	}
	if m.tokens, err = tokenizer.Open(where); err != nil {
		return fmt.Errorf("%w; it is that of bert-base-uncased", err)
	}
	pad, ok := m.tokens.ID("[PAD]")
	switch {
	case !ok:
		return fmt.Errorf("%s: the tokenizer has no [PAD]: it is not BERT's", where)
	case m.tokens.Size() > s.Vocabulary:
		return fmt.Errorf("%s: the tokenizer has %d tokens, the network %d: it belongs to another network", where, m.tokens.Size(), s.Vocabulary)
	case len(m.tokens.Frame()) != 2:
		return fmt.Errorf("%s: the tokenizer puts %d tokens around a text; BERT's puts 2", where, len(m.tokens.Frame()))
	}
	m.pad = pad
	return nil
}

// Close gives the memory back.
func (m *Model) Close() { m.tower.Free(m.params) }

// measure reads sizes off the weights.
func (s *Shape) measure(set nn.Source) error {
	shape := func(name string, rank int) ([]int, error) {
		t, err := set.Tensor(name)
		if err != nil {
			return nil, fmt.Errorf("%w: these are not the weights of ImageReward", err)
		}
		if len(t.Shape) != rank {
			return nil, fmt.Errorf("%s has the shape %v", name, t.Shape)
		}
		return t.Shape, nil
	}
	patch, err := shape("blip.visual_encoder.patch_embed.proj.weight", 4)
	if err != nil {
		return err
	}
	places, err := shape("blip.visual_encoder.pos_embed", 3)
	if err != nil {
		return err
	}
	inner, err := shape("blip.visual_encoder.blocks.0.mlp.fc1.weight", 2)
	if err != nil {
		return err
	}
	s.Width, s.Patch, s.VisionInner = patch[0], patch[3], inner[0]
	for s.Grid = 1; 1+s.Grid*s.Grid < places[1] && s.Grid < 1<<10; s.Grid++ {
	}
	there := map[string]bool{}
	for _, name := range set.Names() {
		there[name] = true
	}
	for there["blip.visual_encoder.blocks."+strconv.Itoa(s.Blocks)+".norm1.weight"] {
		s.Blocks++
	}
	for i := range mostHead {
		name := "layers." + strconv.Itoa(i)
		if !there["mlp."+name+".weight"] {
			continue // nothing is trained there
		}
		w, err := shape("mlp."+name+".weight", 2)
		if err != nil {
			return err
		}
		s.Head = append(s.Head, rank{name, w[0]})
	}
	if s.VisionHeads == 0 {
		s.VisionHeads = s.Width / 64
	}
	return nil
}

// mostHead is how many layers a head may have, trained or not.
const mostHead = 16

func (s *Shape) check() error {
	var l hub.Limits
	l.Int("hidden_size", s.Hidden, 1, 1<<14)
	l.Int("intermediate_size", s.Inner, 1, 1<<16)
	l.Int("num_hidden_layers", s.Layers, 1, 256)
	l.Int("num_attention_heads", s.Heads, 1, 256)
	l.Must(s.Hidden%max(s.Heads, 1) == 0, `"hidden_size" %d is not a multiple of num_attention_heads %d`, s.Hidden, s.Heads)
	l.Int("vocab_size", s.Vocabulary, 1, 1<<20)
	l.Int("max_position_embeddings", s.Positions, mostTokens, 1<<16)
	l.Must(s.Eps >= 0 && s.Eps < 1, `"layer_norm_eps" is %v`, s.Eps)
	l.Must(s.Act == "gelu", `"hidden_act" is %q; "gelu" is known`, s.Act)
	l.Int("width of the picture's tokens", s.Width, 1, 1<<14)
	l.Int("vision_attention_heads", s.VisionHeads, 1, 256)
	l.Must(s.Width%max(s.VisionHeads, 1) == 0, "width %d is not a multiple of %d heads", s.Width, s.VisionHeads)
	l.Int("layers of the picture's transformer", s.Blocks, 1, 256)
	l.Int("size of a patch", s.Patch, 1, 256)
	l.Must(s.Patch*s.Grid <= features.MostSide, "pictures of %d x %d; at most %d x %d are read", s.Patch*s.Grid, s.Patch*s.Grid, features.MostSide, features.MostSide)
	l.Int("width of the picture's inner layer", s.VisionInner, 1, 1<<16)
	l.Must(len(s.Head) > 0 && s.Head[len(s.Head)-1].out == 1, "the head (mlp.layers) does not end in one number")
	return l.Err()
}

// Card: ImageReward, as THUDM/ImageReward computes it from BLIP (Li et al., 2022):
//
//	picture   ViT: class token and patches with positions; x += attn(norm(x)), x += mlp(norm(x));
//	          a last norm over all tokens
//	text      BERT: embeddings of words and places, norm; in each layer x = norm(x + self(x)),
//	          x = norm(x + cross(x, picture)), x = norm(x + mlp(x)); nothing is causal, padding
//	          is not seen
//	reward    five linear layers on the text's first token, with nothing between them
//
// (raw - 0.16717)/1.03334 is the published score. Nothing of the text's [DEC] and [ENC] tokens
// is used. Invariants (tests): rewards and gradients are those of transformers' own port of
// BLIP; a reward does not depend on its batch.

// Network is both towers and the head.
type Network struct {
	Shape
	class, positions *autograd.Param
	patch            *nn.Conv
	blocks           []*block
	last             *nn.Norm

	words, places *autograd.Param
	first         *nn.Norm
	layers        []*textLayer
	head          []*nn.Linear
}

// block is a layer of the picture's transformer.
type block struct {
	before, between *nn.Norm
	qkv, out        *nn.Linear
	mlp             *nn.MLP
	heads           int
}

// textLayer is a layer of the text's: each part with the norm that follows it.
type textLayer struct {
	self, cross *nn.Attention
	mlp         *nn.MLP
	after       [3]*nn.Norm
}

// The epsilons that are in no file.
const visionEps = 1e-6

// New asks p for a network's parameters.
func New(p *nn.Params, s Shape) *Network {
	p.Ignore(`blip\.text_encoder\.embeddings\.position_ids`)
	p.Ignore(`blip\.text_encoder\.(?:cls|pooler)\..*`)
	p.Ignore(`blip\.(?:vision_proj|text_proj|itm_head)\..*`) // of BLIP's training
	n := &Network{Shape: s}
	v := p.Sub("blip.visual_encoder")
	n.class, n.positions = v.Vector("cls_token", 1, 1, s.Width), v.Vector("pos_embed", 1, 1+s.Grid*s.Grid, s.Width)
	n.patch = v.Conv("patch_embed.proj", nn.Square(3, s.Width, s.Patch, s.Patch, 0), true)
	for i := range s.Blocks {
		b := v.At("blocks", i)
		n.blocks = append(n.blocks, &block{b.LayerNorm("norm1", s.Width, visionEps), b.LayerNorm("norm2", s.Width, visionEps),
			b.Linear("attn.qkv", s.Width, 3*s.Width, true), b.Linear("attn.proj", s.Width, s.Width, true),
			&nn.MLP{Up: b.Linear("mlp.fc1", s.Width, s.VisionInner, true), Down: b.Linear("mlp.fc2", s.VisionInner, s.Width, true), Act: kernels.GELUErf}, s.VisionHeads})
	}
	n.last = v.LayerNorm("norm", s.Width, visionEps)
	t := p.Sub("blip.text_encoder")
	n.words, n.places = t.Embedding("embeddings.word_embeddings", s.Vocabulary, s.Hidden), t.Embedding("embeddings.position_embeddings", s.Positions, s.Hidden)
	n.first = t.LayerNorm("embeddings.LayerNorm", s.Hidden, s.Eps)
	for i := range s.Layers {
		n.layers = append(n.layers, newTextLayer(t.At("encoder.layer", i), s))
	}
	h := p.Sub("mlp")
	in := s.Hidden
	for _, l := range s.Head {
		n.head = append(n.head, h.Linear(l.name, in, l.out, true))
		in = l.out
	}
	return n
}

func newTextLayer(p *nn.Params, s Shape) *textLayer {
	attention := func(name string, context int) *nn.Attention {
		a := p.Sub(name)
		return &nn.Attention{Heads: s.Heads, Q: a.Linear("self.query", s.Hidden, s.Hidden, true), K: a.Linear("self.key", context, s.Hidden, true),
			V: a.Linear("self.value", context, s.Hidden, true), Out: a.Linear("output.dense", s.Hidden, s.Hidden, true)}
	}
	return &textLayer{self: attention("attention", s.Hidden), cross: attention("crossattention", s.Width),
		mlp: &nn.MLP{Up: p.Linear("intermediate.dense", s.Hidden, s.Inner, true), Down: p.Linear("output.dense", s.Inner, s.Hidden, true), Act: kernels.GELUErf},
		after: [3]*nn.Norm{p.LayerNorm("attention.output.LayerNorm", s.Hidden, s.Eps), p.LayerNorm("crossattention.output.LayerNorm", s.Hidden, s.Eps),
			p.LayerNorm("output.LayerNorm", s.Hidden, s.Eps)}}
}

// See is pictures' tokens, [B, 1+Grid², Width].
func (n *Network) See(tp *autograd.Tape, pictures *autograd.Value) *autograd.Value {
	b := pictures.Dim(0)
	grid := n.patch.Apply(tp, pictures, nil)
	patches := tp.Reshape(grid, b, n.Grid*n.Grid, n.Width)
	class := tp.AddParam(tp.Upload("class token", make([]float32, b*n.Width), b, 1, n.Width), n.class)
	x := tp.AddParam(tp.Concat(1, class, patches), n.positions)
	for _, l := range n.blocks {
		x = l.forward(tp, x)
	}
	return n.last.Apply(tp, x)
}

func (l *block) forward(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		h := l.before.Apply(tp, in[0])
		wide := l.qkv.Apply(tp, h, autograd.With{})
		qkv := tp.Chunk(wide, 3)
		a := tp.Attention(qkv[0], qkv[1], qkv[2], autograd.Attend{Heads: l.heads})
		tp.Release(h, wide, qkv[0], qkv[1], qkv[2])
		y := l.out.Apply(tp, a, autograd.With{Residual: in[0]})
		tp.Release(a)
		return []*autograd.Value{l.mlp.Apply(tp, l.between.Apply(tp, y), autograd.With{Residual: y})}
	}, x)[0]
}

// Judge is raw rewards of pictures' tokens with texts, [B, 1]: rows of ids of one length, of
// which lens are the text's.
func (n *Network) Judge(tp *autograd.Tape, seen *autograd.Value, ids [][]int32, lens []int32) *autograd.Value {
	long := len(ids[0])
	flat, places, at := []int32(nil), make([]int32, 0, len(ids)*long), make([]int32, len(ids))
	for i, row := range ids {
		flat, at[i] = append(flat, row...), int32(i*long)
		for k := range row {
			places = append(places, int32(k))
		}
	}
	x := n.first.Apply(tp, tp.Add(tp.Embedding(n.words, flat, len(ids), long), tp.Embedding(n.places, places, len(ids), long)))
	for _, l := range n.layers {
		x = l.forward(tp, x, seen, lens)
	}
	y := tp.Gather(x, at)
	for i, l := range n.head {
		y = l.Apply(tp, y, autograd.With{Wide: i == len(n.head)-1})
	}
	return y
}

func (l *textLayer) forward(tp *autograd.Tape, x, seen *autograd.Value, lens []int32) *autograd.Value {
	return tp.Block(func(in ...*autograd.Value) []*autograd.Value {
		x := l.after[0].Apply(tp, l.self.Apply(tp, in[0], in[0], autograd.Attend{KeyLens: lens}, autograd.With{Residual: in[0]}))
		x = l.after[1].Apply(tp, l.cross.Apply(tp, x, in[1], autograd.Attend{}, autograd.With{Residual: x}))
		return []*autograd.Value{l.after[2].Apply(tp, l.mlp.Apply(tp, x, autograd.With{Residual: x}))}
	}, x, seen)[0]
}

// The published scores have mean 0 and deviation 1 over the annotators' pictures.
const (
	rawMean = 0.16717362830052426
	rawSD   = 1.0333394966054072
)

// mostTokens of a text are read, with those around it.
const mostTokens = 35

// Rewards are pictures' scores, each for its prompt.
func (m *Model) Rewards(ctx context.Context, prompts []string, pictures []*vision.Image) ([]float64, error) {
	return m.each(prompts, len(pictures), func(t *features.Tower, from, to int) ([][]float64, error) { return t.Images(ctx, pictures[from:to]) })
}

// Prepared are the scores of prepared pictures.
func (m *Model) Prepared(ctx context.Context, prompts []string, prepared [][]float32) ([]float64, error) {
	return m.each(prompts, len(prepared), func(t *features.Tower, from, to int) ([][]float64, error) { return t.Vectors(ctx, prepared[from:to]) })
}

// Gradient is the scores of pictures of numbers, and how each number changes its picture's.
func (m *Model) Gradient(ctx context.Context, prompts []string, pictures []vision.Pixels) (rewards []float64, grads [][]float32, err error) {
	return m.pull(prompts, len(pictures), func(t *features.Tower, from, to int, at features.At) ([][]float32, error) {
		return t.PullPixels(ctx, pictures[from:to], at)
	})
}

// PreparedGradient is Gradient of prepared pictures.
func (m *Model) PreparedGradient(ctx context.Context, prompts []string, prepared [][]float32) (rewards []float64, grads [][]float32, err error) {
	return m.pull(prompts, len(prepared), func(t *features.Tower, from, to int, at features.At) ([][]float32, error) {
		return t.Pull(ctx, prepared[from:to], at)
	})
}

func (m *Model) pull(prompts []string, n int, back func(t *features.Tower, from, to int, at features.At) ([][]float32, error)) (rewards []float64, grads [][]float32, err error) {
	_, err = m.each(prompts, n, func(t *features.Tower, from, to int) ([][]float64, error) {
		g, err := back(t, from, to, func(_ int, raw [][]float64) ([][]float64, error) {
			d := make([][]float64, len(raw))
			for i, r := range raw {
				rewards, d[i] = append(rewards, published(r[0])), []float64{1 / rawSD}
			}
			return d, nil
		})
		grads = append(grads, g...)
		return nil, err
	})
	return rewards, grads, err
}

func published(raw float64) float64 { return (raw - rawMean) / rawSD }

const usualBatch = 8

// each runs the network over batches of pictures with their texts.
func (m *Model) each(prompts []string, n int, run func(t *features.Tower, from, to int) ([][]float64, error)) ([]float64, error) {
	if len(prompts) != n {
		return nil, fmt.Errorf("%d prompts for %d pictures", len(prompts), n)
	}
	batch := m.tower.Batch
	if batch <= 0 {
		batch = usualBatch
	}
	var rewards []float64
	for from := 0; from < n; from += batch {
		to := min(n, from+batch)
		ids, lens, err := m.texts(prompts[from:to])
		if err != nil {
			return nil, err
		}
		t := m.tower
		t.Batch = batch
		t.Forward = func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
			return m.network.Judge(tp, m.network.See(tp, x), ids, lens)
		}
		raw, err := run(&t, from, to)
		if err != nil {
			return nil, fmt.Errorf("of pictures %d to %d: %w", from, to-1, err)
		}
		for _, r := range raw {
			rewards = append(rewards, published(r[0]))
		}
	}
	return rewards, nil
}

// texts are the ids of a batch, as long as its longest text, and how many are each text's.
func (m *Model) texts(prompts []string) (ids [][]int32, lens []int32, err error) {
	longest := 0
	for _, p := range prompts {
		row, seen, err := m.tokens.Fixed(p, mostTokens, m.pad)
		if err != nil {
			return nil, nil, err
		}
		ids, lens = append(ids, row), append(lens, int32(seen))
		longest = max(longest, seen)
	}
	for i := range ids {
		ids[i] = ids[i][:longest]
	}
	return ids, lens, nil
}

// Unread is the end of a prompt that does not fit, "" mostly.
func (m *Model) Unread(prompt string) string {
	whole, err := m.tokens.Encode(prompt)
	if err != nil {
		return "" // the score's reader gets the error
	}
	if room := mostTokens - len(m.tokens.Frame()); len(whole.IDs) > room {
		return strings.TrimSpace(m.tokens.Decode(whole.IDs[room:]))
	}
	return ""
}
