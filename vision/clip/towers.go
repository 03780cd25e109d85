package clip

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// Options say how a folder of both towers is opened.
type Options struct {
	Device    *features.Device
	Batch     int    // pictures or texts at once; 0: 8
	Tokenizer string // a folder that has one; "": the towers' own
	// NoTexts leaves the text tower where it is: no tokenizer is needed, and Texts fails.
	NoTexts bool
	// Prepare is the pipeline for pictures of bytes, by the tower's size; nil: as the folder
	// says, or as its library does.
	Prepare func(size int) vision.Preprocess
}

// Towers are both towers of a folder, in memory, with their tokenizer. They may be asked
// from any goroutine.
type Towers struct {
	features.Tower
	model  *Model
	params *nn.Params
	tokens *tokenizer.Tokenizer
	extra  int // special tokens around a text
	scale  float64

	remembered sync.Mutex
	texts      map[string][]float64
	order      []string // of texts, the oldest first
}

// mostTexts is how many texts' vectors are remembered.
const mostTexts = 1 << 14

// Open reads a folder in the layout of transformers (config.json, CLIPModel) or of open_clip
// (open_clip_config.json).
func Open(dir string, o Options) (*Towers, error) {
	t := &Towers{texts: map[string][]float64{}}
	config, weights, build, err := t.settings(dir)
	if err != nil {
		return nil, err
	}
	if err := t.pipelines(dir, config.Vision, o); err != nil {
		return nil, err
	}
	if !o.NoTexts {
		if err := t.openTokens(dir, o, config.Text); err != nil {
			return nil, err
		}
	}
	set, err := quant.OpenFolder(weights)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	t.Device, t.Batch, t.Width = o.Device, o.Batch, config.Out
	if t.params, err = o.Device.Load(set, func(p *nn.Params) { t.model = build(p, config, !o.NoTexts) }); err != nil {
		return nil, fmt.Errorf("%s: %w", weights, err)
	}
	t.Forward = func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
		return t.model.Vision.Forward(tp, x).Projected
	}
	if o.NoTexts {
		return t, nil
	}
	t.Run(false, func(tp *autograd.Tape) { t.scale = portable.Exp(float64(t.model.Scale(tp).F32()[0])) })
	if math.IsNaN(t.scale) || math.IsInf(t.scale, 0) {
		t.Close()
		return nil, fmt.Errorf("%s: logit_scale is %v", weights, portable.Log(t.scale))
	}
	return t, nil
}

// openTokens reads the tokenizer.
func (t *Towers) openTokens(dir string, o Options, c TextConfig) (err error) {
	where := o.Tokenizer
	if where == "" {
		where = dir
	}
	if t.tokens, err = tokenizer.Open(where); err != nil {
		return fmt.Errorf("%w; published CLIPs share one: name a folder that has it, such as openai/clip-vit-large-patch14", err)
	}
	return t.checkTokens(where, c)
}

// builder asks for a model's parameters, with or without those of texts.
type builder func(p *nn.Params, c Config, texts bool) *Model

// settings reads a folder's settings, and says where its weights are and how they are asked for.
func (t *Towers) settings(dir string) (c Config, weights string, build builder, err error) {
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		c, err := ReadConfig(dir)
		return c, dir, newModel, err
	}
	if _, ok := openSettings(dir); !ok {
		return c, "", nil, fmt.Errorf("%s: neither config.json (transformers) nor open_clip_config.json (open_clip): the folder of a CLIP is needed", dir)
	}
	weights = dir
	for _, name := range []string{"open_clip_model.safetensors", "open_clip_pytorch_model.safetensors"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			if weights, err = safetensors.Locate(dir, name); err != nil {
				return c, "", nil, err
			}
			break
		}
	}
	c, err = ReadOpenConfig(dir)
	return c, weights, newOpen, err
}

// pipelines chooses the preprocessing of pictures.
func (t *Towers) pipelines(dir string, c VisionConfig, o Options) (err error) {
	if c.Channels != 3 {
		return fmt.Errorf("%s: a tower of %d channels cannot read pictures", dir, c.Channels)
	}
	t.Soft = vision.CLIPDifferentiable(c.Side)
	switch path, open := openSettings(dir); {
	case o.Prepare != nil:
		t.Prepare = o.Prepare(c.Side)
	case open && !hasProcessor(dir):
		_, p, err := readOpen(dir)
		if err != nil {
			return err
		}
		if t.Prepare, err = p.pipeline(c.Side); err != nil {
			return fmt.Errorf("%s: preprocess_cfg: %w", path, err)
		}
	default:
		if t.Prepare, err = features.ReadProcessor(dir, vision.CLIPPillow(c.Side)); err != nil {
			return err
		}
	}
	if c.Side > features.MostSide {
		return fmt.Errorf("%s: pictures of %d x %d; at most %d x %d are read", dir, c.Side, c.Side, features.MostSide, features.MostSide)
	}
	if t.Prepare.Size != c.Side {
		return fmt.Errorf("%s: the preprocessor makes pictures of %d x %d, the tower reads %d x %d", dir, t.Prepare.Size, t.Prepare.Size, c.Side, c.Side)
	}
	t.Soft.Mean, t.Soft.Std = t.Prepare.Mean, t.Prepare.Std
	return nil
}

func hasProcessor(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "preprocessor_config.json"))
	return err == nil
}

// pipeline is open_clip's transform for evaluation.
func (o openPreprocess) pipeline(size int) (vision.Preprocess, error) {
	p := vision.OpenCLIP(size)
	for i, list := range [][]float32{o.Mean, o.Std} {
		switch {
		case list == nil:
		case len(list) != 3 || i == 1 && slices.Min(list) <= 0:
			return p, fmt.Errorf("mean and std are %v and %v; three numbers each are needed, and std above 0", o.Mean, o.Std)
		default:
			*[...]*[3]float32{&p.Mean, &p.Std}[i] = [3]float32(list)
		}
	}
	if o.Interpolation != "" {
		f, err := vision.FilterNamed(o.Interpolation)
		if err != nil {
			return p, err
		}
		p.Filter = f
	}
	switch o.Resize {
	case "", "shortest":
	case "squash":
		p.Fit = vision.Stretch
	default:
		return p, fmt.Errorf("resize_mode %q is not known; shortest and squash are", o.Resize)
	}
	return p, nil
}

// checkTokens: every id has a row in the network, and every text an end to be pooled at.
func (t *Towers) checkTokens(where string, c TextConfig) error {
	empty := t.tokens.Frame()
	t.extra = len(empty)
	switch {
	case t.tokens.Size() > c.Vocabulary:
		return fmt.Errorf("%s: the tokenizer has %d tokens, the network %d: it belongs to another network", where, t.tokens.Size(), c.Vocabulary)
	case len(empty) == 0:
		return fmt.Errorf("%s: the tokenizer ends texts with no token, and texts are pooled at one", where)
	case c.End != 2 && !slices.Contains(empty, int32(c.End)):
		return fmt.Errorf("%s: the tokenizer does not end texts with token %d, where config.json says that they are pooled", where, c.End)
	case t.extra > c.Positions:
		return fmt.Errorf("%s: the tokenizer puts %d tokens around a text, and %d fit", where, t.extra, c.Positions)
	}
	return nil
}

// Close gives the memory back.
func (t *Towers) Close() { t.Free(t.params) }

// Scale is the factor of cosines before a softmax: exp(logit_scale).
func (t *Towers) Scale() float64 { return t.scale }

// Length is how many tokens of a text are read.
func (t *Towers) Length() int {
	if t.tokens == nil {
		return 0
	}
	return t.model.Text.Positions
}

// IDs are a text's tokens, with those around it, and the end of the text that does not fit;
// of towers that were opened with texts.
func (t *Towers) IDs(text string) (ids []int32, unread string, err error) {
	whole, err := t.tokens.Encode(text)
	if err != nil {
		return nil, "", err
	}
	ids, seen, err := t.tokens.Fixed(text, t.Length(), 0)
	if err != nil {
		return nil, "", err
	}
	if body := whole.IDs; len(body)+t.extra > seen {
		unread = strings.TrimSpace(strings.ReplaceAll(t.tokens.Decode(body[seen-t.extra:]), "</w>", " "))
	}
	return ids[:seen], unread, nil
}

// Unread is the end of a text that is too long, "" mostly.
func (t *Towers) Unread(text string) string {
	if t.tokens == nil {
		return ""
	}
	_, unread, _ := t.IDs(text) // the score's reader gets the error
	return unread
}

var errNoTexts = errors.New("the towers were opened for pictures alone")

// Texts are texts' vectors, each computed once.
func (t *Towers) Texts(ctx context.Context, texts []string) ([][]float64, error) {
	if t.tokens == nil {
		return nil, errNoTexts
	}
	t.remembered.Lock()
	defer t.remembered.Unlock()
	found := map[string][]float64{} // nil: to be computed
	var fresh []string
	for _, s := range texts {
		if _, seen := found[s]; seen {
			continue
		}
		if found[s] = t.texts[s]; found[s] == nil {
			fresh = append(fresh, s)
		}
	}
	for len(fresh) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(len(fresh), t.textBatch())
		vectors, err := t.encode(fresh[:n])
		if err != nil {
			return nil, err
		}
		for i, s := range fresh[:n] {
			found[s] = vectors[i]
			t.remember(s, vectors[i])
		}
		fresh = fresh[n:]
	}
	out := make([][]float64, len(texts))
	for i, s := range texts {
		out[i] = found[s]
	}
	return out, nil
}

func (t *Towers) textBatch() int {
	if t.Batch > 0 {
		return t.Batch
	}
	return 8
}

func (t *Towers) remember(s string, v []float64) {
	if len(t.order) == mostTexts {
		delete(t.texts, t.order[0])
		t.order = t.order[1:]
	}
	t.order = append(t.order, s)
	t.texts[s] = v
}

// encode runs the text tower. Texts that are shorter than others get more of their last token: causal attention hides
// it from earlier tokens, and the first is pooled.
func (t *Towers) encode(texts []string) ([][]float64, error) {
	rows, longest := make([][]int32, len(texts)), 0
	for i, s := range texts {
		var err error
		if rows[i], _, err = t.IDs(s); err != nil {
			return nil, err
		}
		longest = max(longest, len(rows[i]))
	}
	for i, r := range rows {
		for len(r) < longest {
			r = append(r, r[len(r)-1])
		}
		rows[i] = r
	}
	var vectors [][]float64
	t.Run(false, func(tp *autograd.Tape) { vectors = features.Rows(t.model.Text.Forward(tp, rows).Projected) })
	for _, v := range vectors {
		for _, x := range v {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, errors.New("the text tower gives numbers that are not finite; its weights may be damaged")
			}
		}
	}
	return vectors, nil
}
