package blip

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
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
	set, err := safetensors.OpenFolder(dir)
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
